"""The scheduler: one pass over the heads of the queues, which applies the decisions of `cycle` (quota-engine 3.1).

It writes nothing. A reservation or eviction is assumed at once, and confirmed or forgotten when the status of the
workload is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.queues import KNOWN_ENDS
from multikueue.api.kueue.unadmitted import PENDING_EVALUATION, SUSPENDED, WAITING, WAITING_FOR_PODS_READY
from multikueue.api.kueue.workload import EVICTED, Admission, Workload
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.cache import QuotaCache, whole_second
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.status import cycle_problem
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.preemption.preemption import PreemptionRules
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.queueing.queue_manager import QueueManager
from multikueue.quota.scheduler.backfill import DEPTH, backfill, is_waiting_for_quota, passing, start_of
from multikueue.quota.scheduler.cycle import Decision, Head, Refuse, Reserve, run
from multikueue.quota.workload.ordering import EPOCH
from multikueue.quota.workload.outcome import AS_BEFORE, Eviction, Reasons, Verdict

WAITING_MESSAGE = "waiting for all admitted workloads to be in PodsReady condition"


@dataclass(slots=True, kw_only=True)
class Cycle:
    """The outcome of a cycle: the number of heads, and the workloads with new quota, a new eviction or a new verdict.

    `skips` counts by ClusterQueue the heads with preemption targets that lost to another head.
    """

    reserved: list[ObjectKey] = field(default_factory=list)
    evicted: list[ObjectKey] = field(default_factory=list)
    pending: list[ObjectKey] = field(default_factory=list)
    heads: int = 0
    skips: Counter[str] = field(default_factory=Counter)

    @property
    def is_productive(self) -> bool:
        """Whether another cycle might do something now."""
        return bool(self.reserved or self.evicted)


class Assumption(msgspec.Struct, frozen=True):
    admission: Admission
    waiting: PendingWorkload
    until: datetime | None = None


@dataclass(slots=True)
class _Pass:
    """A running cycle: its outcome so far, the refused heads, and the ClusterQueues that changed."""

    done: Cycle
    refused: list[Refuse] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)


class Scheduler:
    """Owned by the engine. With `fair`, heads are ordered and workloads preempted by dominant resource share. Verdicts have
    these `reasons`.

    With `blockAdmission` Kueue's scheduler waits in mid-cycle until all pods are ready, then goes on: the workload it
    was about to admit gets the quota, even if a better one came meanwhile (quota-engine 5.2). Here the cycle ends with
    that workload held, and the next one begins with it.
    """

    def __init__(
        self,
        cache: QuotaCache,
        queues: QueueManager,
        fair: FairPreemption | None = None,
        reasons: Reasons = AS_BEFORE,
    ) -> None:
        self._cache, self._queues, self._reasons = cache, queues, reasons
        self._preemption = PreemptionRules(cache.holders, fair, compatibility=cache.compatibility)
        self._assumed: dict[ObjectKey, Assumption] = {}
        self._evictions: dict[ObjectKey, Eviction] = {}
        self._switched_off: set[ObjectKey] = set()

        # Asked in each reconcile of each workload: the answers of the containers themselves, without a call between.
        self.assumption = self._assumed.get
        """What a cycle decided for a workload, until its status shows it."""
        self.eviction = self._evictions.get
        """The eviction that a cycle decided for a workload, until its status shows it."""
        self.was_switched_off = self._switched_off.__contains__
        """Whether the workload was inactive at some time since it has quota, until its status shows the eviction. Another
        workload may have got that quota, so this one has to go even if it was activated again before the write."""
        self._searching: dict[str, ObjectKey] = {}
        """By ClusterQueue, its last head, if that has still flavors to try."""
        self._held: Reserve | None = None
        """The decision that `blockAdmission` holds back."""

    # --- what statuses do not show yet ---

    def reservation(self, key: ObjectKey) -> Admission | None:
        """The admission that a cycle gave a workload, until its status shows it."""
        assumption = self._assumed.get(key)
        return assumption.admission if assumption else None

    def is_to_go(self, key: ObjectKey) -> bool:
        return key in self._evictions or key in self._switched_off

    def is_assumed(self, workload: Workload) -> bool:
        """Whether the workload has assumed quota for this very spec, and its status is from before."""
        assumption = self._assumed.get(workload.key)
        if assumption is None or assumption.waiting.workload.spec != workload.spec:
            return False
        assumption.waiting.workload = workload
        return True

    def note_switched_off(self, key: ObjectKey) -> None:
        """A workload with quota is no longer active."""
        self._switched_off.add(key)

    def confirm(self, workload: Workload) -> None:
        """The status shows the quota, and the eviction if there is one."""
        self._assumed.pop(workload.key, None)
        if workload.has(EVICTED):
            self._evictions.pop(workload.key, None)
            self._switched_off.discard(workload.key)

    def forget_all_of(self, key: ObjectKey) -> None:
        """The status shows no quota."""
        self._assumed.pop(key, None)
        self._evictions.pop(key, None)
        self._switched_off.discard(key)

    def forget(self, key: ObjectKey, now: datetime, *, until: datetime | None = None) -> None:
        """The reservation could not be written: take it back and queue the head again, from `until` on."""
        assumption = self._assumed.pop(key, None)
        if assumption is None:
            return
        waiting = assumption.waiting
        waiting.refused_until = until
        self._evictions.pop(key, None)
        self._cache.budgets.see(waiting.workload, waiting.local_queue)
        self._queues.requeueing.wake_after(self._cache.release(key), now)
        self._queues.give_back(waiting, Reason.FAILED_AFTER_NOMINATION, now)
        self._queues.unsettle(waiting)

    def drop_assumptions(
        self, now: datetime, *, cluster_queue: str | None = None, local_queue: ObjectKey | None = None
    ) -> None:
        """A stopped queue gives no quota, not even what was assumed a moment ago."""
        for key, assumption in list(self._assumed.items()):
            if assumption.admission.cluster_queue == cluster_queue or assumption.waiting.local_queue == local_queue:
                self.forget(key, now)

    # --- the cycle ---

    def next_look(self, now: datetime) -> datetime | None:
        """When the next cycle is due: now if a head waits, else at the next flush, or end of a back-off or budget
        window.

        None while `blockAdmission` holds a workload: the event that lets it in starts the cycle.
        """
        if self._queues.is_moving:
            return now
        if self._held is not None:
            return None if self._cache.not_ready else now
        if self._queues.outdated or any(self._is_worth_a_look(name) for name in self._queues.busy()):
            return now
        first, second = self._queues.requeueing.next_due(), self._cache.budgets.next_end()
        return first if second is None else second if first is None else min(first, second)

    def cycle(self, now: datetime) -> Cycle:
        """One scheduling cycle. Call it again at once while the outcome is productive, else at `next_look`."""
        self._cache.build()
        self._queues.move_some(now)
        if self._held is not None and self._cache.not_ready:
            return Cycle()
        if let_in := self._let_in(now):
            return Cycle(reserved=[let_in], heads=1)
        self._queues.update_outdated(now)
        self._queues.requeueing.wake_due(now)
        heads = list(self._take_heads(now))
        current = _Pass(Cycle(heads=len(heads), pending=self._queues.take_recounted()))
        for decision in run(heads, self.rules(now)):
            self._take_up(decision, current, now)
        self._fill_back(current, now)
        self._settle(heads, current)
        return current.done

    def rules(self, now: datetime) -> PreemptionRules:
        """The rules of preemption as of now."""
        return replace(self._preemption, allowance=lambda queue: self._cache.budgets.left(queue, now))

    def _take_heads(self, now: datetime) -> Iterator[Head]:
        for name in self._queues.busy():
            waiting = self._queues.pop(name, now) if self._is_worth_a_look(name) else None
            if waiting is not None:
                self._resume(waiting, name)
                yield self.head(waiting, name)

    def _resume(self, waiting: PendingWorkload, name: str) -> None:
        """A head that was the last one, too, goes on with its search for flavors, though quota was given or freed
        meanwhile: where that happens all the time it would never come to its later flavors (#13956)."""
        was_last = self._searching.pop(name, None) == waiting.key
        if was_last and waiting.progress is not None and self._cache.compatibility.has_lasting_searches:
            waiting.progress = replace(waiting.progress, generation=self._cache.generation(name))

    def _is_worth_a_look(self, name: str) -> bool:
        return self._cache.catalog.is_active(name) and not self._cache.is_settled(name)

    def head(self, waiting: PendingWorkload, name: str) -> Head:
        """A workload as a cycle sees it at the head of that ClusterQueue. Call `build` of the cache first."""
        queue, generation = self._cache.snapshot(name), self._cache.generation(name)
        if waiting.has_failed_checks:
            problem = "The workload has failed admission checks"
            return Head(waiting, queue, generation, problem, quota_reserved_reason=PENDING_EVALUATION)
        if queue.node.in_cycle:
            why = cycle_problem(self._cache.forest.cycle_above(name)).message
            problem = f"ClusterQueue {name} is inactive: it {why}"
            return Head(waiting, queue, generation, problem, quota_reserved_reason=SUSPENDED)
        if problem := self._namespace_problem(waiting, name):
            return Head(waiting, queue, generation, problem, Reason.NAMESPACE_MISMATCH)
        return Head(waiting, queue, generation, waiting.demand.problem, replaced=self._replaced_by(waiting, name))

    def misconfiguration(self, waiting: PendingWorkload, name: str) -> str:
        """Why no cycle would judge the workload at the head of that ClusterQueue, though the queue is well."""
        return self._namespace_problem(waiting, name) or waiting.demand.problem

    def _namespace_problem(self, waiting: PendingWorkload, name: str) -> str:
        catalog, namespace = self._cache.catalog, waiting.key.namespace
        if catalog.may_use(name, namespace):
            return ""
        if catalog.has_namespace(namespace):
            return "Workload namespace doesn't match ClusterQueue selector"
        return "Unknown workload namespace"

    def _replaced_by(self, waiting: PendingWorkload, name: str) -> Reservation | None:
        """The reservation of the slice that it replaces; None if there is no such slice: then it needs its whole
        demand."""
        found = self._cache.reservations.get(waiting.replaces) if waiting.replaces is not None else None
        if found is None or found.is_evicted or found.cluster_queue != name:
            return None
        return found if self._cache.may_replace(waiting.workload, found) else None

    # --- what becomes of a decision ---

    def _take_up(self, decision: Decision, current: _Pass, now: datetime) -> None:
        queue = decision.head.queue.name
        if self._held is not None or (isinstance(decision, Reserve) and self._cache.not_ready):
            self._hold_back(decision, current, now)
        elif isinstance(decision, Reserve):
            self._admit(decision, current, now)
        else:
            self._refuse(decision, current, now)
            current.refused.append(decision)
            if decision.has_lost_targets:
                current.done.skips[queue] += 1
            for eviction in decision.evictions:
                self._evictions[eviction.key] = eviction
                self._cache.evict(eviction.key, now)
                current.done.evicted.append(eviction.key)
                current.changed.add(queue)

    def _admit(self, decision: Reserve, current: _Pass, now: datetime, *, until: datetime | None = None) -> None:
        self._assume(decision, now, until=until)
        current.done.reserved.append(decision.head.waiting.key)
        current.changed.add(decision.head.queue.name)

    def _hold_back(self, decision: Decision, current: _Pass, now: datetime) -> None:
        """Hold the first head that would get quota while pods are not ready. Later heads go back as if no cycle had
        looked at them."""
        waiting, is_first = decision.head.waiting, self._held is None
        if is_first and isinstance(decision, Reserve):
            reason = self._reasons.of(WAITING_FOR_PODS_READY, before=WAITING)
            waiting.verdict = Verdict(WAITING_MESSAGE, reason=reason)
            self._held = decision
            current.done.pending.append(waiting.key)
        self._queues.give_back(waiting, Reason.FAILED_AFTER_NOMINATION, now)
        current.changed.add(decision.head.queue.name)

    def _let_in(self, now: datetime) -> ObjectKey | None:
        """All pods are ready: the held head gets its quota, if it still asks for the same and there is still room.

        Kueue does not check the room again, and may give more than there is.
        """
        held, self._held = self._held, None
        waiting = self._queues.get(held.head.waiting.key) if held else None
        if held is None or waiting is None or not self._is_led_to(waiting, held.head.queue.name):
            return None
        if waiting.demand != held.head.waiting.demand or waiting.spec != held.head.waiting.spec:
            return None
        if held.head.replaced is not None or waiting.key in self._queues.outdated:
            return None  # a cycle judges it again: the slice that it replaces may have changed
        node = self._cache.forest.queue(held.head.queue.name)
        if node is None or any(amount > node.available(fr) for fr, amount in held.usage.items()):
            return None
        self._assume(replace(held, head=replace(held.head, waiting=waiting)), now)
        return waiting.key

    def _is_led_to(self, waiting: PendingWorkload, name: str) -> bool:
        """Whether the LocalQueue is active and leads to that ClusterQueue, which is active too."""
        local_queue = self._cache.catalog.local_queues.get(waiting.local_queue)
        if local_queue is None or local_queue.spec.stop_policy != "None":
            return False
        return local_queue.spec.cluster_queue == name and self._cache.catalog.is_active(name)

    def _assume(self, decision: Reserve, now: datetime, *, until: datetime | None = None) -> None:
        waiting, replaced, cache = decision.head.waiting, decision.head.replaced, self._cache
        self._queues.remove(waiting.key)
        waiting.verdict = None
        self._assumed[waiting.key] = Assumption(decision.admission, waiting, until)
        cache.assume(
            Reservation(
                key=waiting.key,
                cluster_queue=decision.admission.cluster_queue,
                local_queue=waiting.local_queue,
                amounts=decision.usage,
                priority=waiting.spec.priority,
                uid=waiting.workload.metadata.uid,
                since=waiting.workload.metadata.creation_timestamp
                or EPOCH,  # the reservation ends its eviction, whose time no longer counts
                reserved_at=whole_second(now),
                is_protected=cache.is_protected(waiting.workload),
                ends_by=until,
                job=cache.job_of(waiting.workload),
            ),
            waiting.demand,
            replaced,
        )

    def _refuse(self, decision: Refuse, current: _Pass, now: datetime) -> None:
        """Give the head back, and with it workloads that would get the same verdict."""
        waiting = decision.head.waiting
        reason = self._reasons.of(decision.quota_reserved_reason)
        verdict = Verdict(decision.message, decision.resource_requests, reason)
        if verdict.is_news_after(waiting.verdict):
            current.done.pending.append(waiting.key)
        waiting.verdict = verdict
        if waiting.progress is not None:
            self._searching[decision.head.queue.name] = waiting.key
        self._queues.give_back(waiting, decision.reason, now)
        line = self._queues.lines[decision.head.queue.name]
        if self._cache.compatibility.has_equivalence_classes and decision.has_no_fit:
            current.done.pending += line.park_alike(waiting, verdict)
        else:
            current.done.pending += line.mark_inadmissible(waiting, verdict)

    def _fill_back(self, current: _Pass, now: datetime) -> None:
        """Let workloads pass a refused head where its queue allows that, in queue order."""
        for decision in current.refused:
            head, name = decision.head, decision.head.queue.name
            mode = backfill(self._cache.catalog.queues[name])
            if not mode or not is_waiting_for_quota(decision):
                continue
            timed = mode == KNOWN_ENDS and decision.reason is Reason.GENERIC
            start = start_of(head, self._cache.reservations.in_queue(name), now) if timed else None
            for waiting in self._followers(head):
                found = passing(self.head(waiting, name), head, now=now, start=start)
                if found is not None and not self._cache.not_ready:
                    self._admit(found.reserve, current, now, until=found.until)

    def _followers(self, head: Head) -> tuple[PendingWorkload, ...]:
        """The active workloads behind a head, at most `DEPTH`."""
        line = self._queues.lines[head.queue.name]
        behind = (each for each in line.in_order() if each.key != head.waiting.key and line.is_active(each.key))
        return tuple(islice((each for each in behind if each.key not in self._queues.outdated), DEPTH))

    def _settle(self, heads: Iterable[Head], current: _Pass) -> None:
        """Note the trees where another look would only repeat this one: nothing changed in any of their queues, and
        every loser would lose to the same heads again."""
        root_of = self._cache.forest.root_name
        restless = set(map(root_of, current.changed))
        lost = (each for each in current.refused if each.reason is Reason.FAILED_AFTER_NOMINATION)
        contested = {root_of(each.head.queue.name) for each in lost}
        for head in heads:
            root, top = root_of(head.queue.name), self._queues.lines[head.queue.name].top()
            stays_as_it_is = top is head.waiting and (top.progress is None or top.is_repeating())
            leaves_nobody = top is None and root not in contested
            if not (stays_as_it_is or leaves_nobody):
                restless.add(root)
        self._cache.settled |= {root_of(head.queue.name) for head in heads} - restless
