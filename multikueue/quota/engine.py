"""The engine: all that the process believes about queues and quota, and the scheduling cycle over it.

One owner, one at a time: controllers tell it what they see, in the order they see it, and call `cycle`. It is never
asked to do I/O, and what it assumes it can forget again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from multikueue.api.core import LimitRange, Namespace, RuntimeClass
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue import AdmissionCheck
from multikueue.api.queues import (
    ClusterQueue,
    Cohort,
    CohortStatus,
    FairSharingStatus,
    LocalQueue,
    QueueStatus,
    ResourceFlavor,
)
from multikueue.api.slices import job_of, replaced_key
from multikueue.api.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    PODS_READY,
    QUOTA_RESERVED,
    Admission,
    Workload,
    WorkloadSpec,
    workload_spec,
)
from multikueue.quota import status
from multikueue.quota.amounts import AS_IT_IS, Accounting, Demand, demand
from multikueue.quota.backfill import DEPTH, KNOWN_ENDS, backfill, end_of, passing, start_of, waits_for_quota
from multikueue.quota.backlog import OVERLOOKED, Backlog
from multikueue.quota.budget import Budgets
from multikueue.quota.candidates import Eviction
from multikueue.quota.catalog import Catalog, is_leaving
from multikueue.quota.cycle import Decision, Head, Refuse, Reserve, run
from multikueue.quota.fair import FairSharing
from multikueue.quota.gate import WAITING, WAITING_MESSAGE, Gate
from multikueue.quota.history import USAGE_BASED, Fading, History
from multikueue.quota.limits import Surroundings
from multikueue.quota.ordering import EPOCH, queue_rank, queue_time
from multikueue.quota.preemption import Preemption
from multikueue.quota.protection import is_non_preemptible
from multikueue.quota.shares import NOTHING, Share, share
from multikueue.quota.slices import Succession
from multikueue.quota.snapshot import QueueSnapshot, snapshot
from multikueue.quota.status import Problem
from multikueue.quota.transitions import time_is_up
from multikueue.quota.tree import Forest, Member, Node, fair_weight, quotas
from multikueue.quota.usage import Holding, Holdings, Reordered, Tally, admission_amounts
from multikueue.quota.waiting import Reason, Verdict, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """What a cycle did: at how many heads it looked, who got quota, who has to give it up, whose verdict is new.

    Not `productive`: another one would do nothing now. `skips` counts by ClusterQueue the heads that would have had
    others evicted, but lost to another head.
    """

    reserved: tuple[ObjectKey, ...] = ()
    evicted: tuple[ObjectKey, ...] = ()
    pending: tuple[ObjectKey, ...] = ()
    heads: int = 0
    skips: Mapping[str, int] = field(default_factory=dict)
    productive: bool = False


@dataclass(frozen=True, slots=True)
class _Assumption:
    admission: Admission
    waiting: Waiting
    until: datetime | None = None


class Engine:
    """Changed only by its methods. Every `now` is aware and never goes back.

    With `fair_sharing` heads are served, and workloads preempted, by dominant resource share. With `admission_sharing`
    the LocalQueues of ClusterQueues that ask for it take turns. With `block_admission` nobody gets quota while pods of
    those who have some are not ready. With `keep_place` a workload evicted because its pods were late queues by its
    creation again. With `non_preemptible` those that ask for it by annotation are not preempted. With `elastic` slices
    of elastic jobs take the place of others; of those of any other job with `copies`, as those on a worker have no owner.
    """

    def __init__(
        self,
        *,
        accounting: Accounting = AS_IT_IS,
        fair_sharing: FairSharing | None = None,
        admission_sharing: Fading | None = None,
        block_admission: bool = False,
        keep_place: bool = False,
        non_preemptible: bool = False,
        elastic: bool = False,
        copies: bool = False,
    ) -> None:
        self._accounting = accounting
        self._non_preemptible = non_preemptible
        self._succession = Succession(trusting=copies) if elastic else None
        self._preemption = Preemption(self._holders, fair_sharing)
        self._history = History(admission_sharing) if admission_sharing else None
        self._gate = Gate(closes=block_admission)
        self._keep_place = keep_place
        self._catalog = Catalog()
        self._surroundings = Surroundings()
        self._specs: dict[ObjectKey, tuple[msgspec.Raw, WorkloadSpec]] = {}
        self._forest = Forest()
        self._backlog = Backlog()
        self._holdings = Holdings()
        self._assumed: dict[ObjectKey, _Assumption] = {}
        self._evictions: dict[ObjectKey, Eviction] = {}
        self._switched_off: set[ObjectKey] = set()
        """Those whose quota others may have, though their status does not show yet that they go."""
        self._budgets = Budgets(self.place)
        self._snapshots: dict[str, QueueSnapshot] = {}
        self._generations: dict[str, int] = {}
        self._settled: set[str] = set()
        """Trees whose heads were refused and where nothing changed since: looking again would say the same."""

    # --- queues, flavors, checks, namespaces ---

    def set_cluster_queue(self, queue: ClusterQueue, now: datetime) -> None:
        name = queue.metadata.name
        weight = fair_weight(queue.spec.fair_sharing)
        member = Member(queue.spec.cohort_name, quotas(queue.spec.resource_groups), weight)
        old = self._catalog.queues.get(name, queue)
        if self._budgets.set_queue(queue) or backfill(old) != backfill(queue):
            self._wake(name, now)
        if not self._catalog.set_queue(queue):
            return
        self._forest.declare_queue(name, member)
        usage = self._history.usage if self._history and self._take_turns(name) else None
        self._backlog.set_queue(name, strict=queue.spec.queueing_strategy == "StrictFIFO", now=now, usage=usage)
        self._settled.clear()
        self._refresh((name,), now)
        if is_leaving(queue) or queue.spec.stop_policy != "None":
            self._drop_assumptions(now, cluster_queue=name)

    def remove_cluster_queue(self, name: str, now: datetime) -> None:
        if not self._catalog.remove_queue(name):
            return
        self._drop_assumptions(now, cluster_queue=name)
        self._budgets.remove_queue(name)
        self._forest.declare_queue(name, None)
        self._backlog.remove_queue(name)
        self._snapshots.pop(name, None)
        self._settled.clear()

    def set_cohort(self, cohort: Cohort, now: datetime) -> None:
        name = cohort.metadata.name
        weight = fair_weight(cohort.spec.fair_sharing)
        member = Member(cohort.spec.parent_name, quotas(cohort.spec.resource_groups), weight)
        if self._forest.declare_cohort(name, member):
            self._settled.clear()
            self._backlog.request_flush(self._forest.root_of_cohort(name), now)

    def remove_cohort(self, name: str, now: datetime) -> None:  # noqa: ARG002
        if self._forest.declare_cohort(name, None):
            self._settled.clear()

    def set_local_queue(self, queue: LocalQueue, now: datetime) -> None:
        self._catalog.set_local_queue(queue)
        if self._history is not None and self._history.set_queue(queue):
            self._settled.discard(self._forest.root_name(queue.spec.cluster_queue))
        is_open = queue.spec.stop_policy == "None" and not is_leaving(queue)
        self._route(queue.key, queue.spec.cluster_queue if is_open else None, now)

    def remove_local_queue(self, key: ObjectKey, now: datetime) -> None:
        if self._catalog.remove_local_queue(key):
            if self._history is not None:
                self._history.remove_queue(key)
            self._route(key, None, now)

    def _route(self, key: ObjectKey, queue: str | None, now: datetime) -> None:
        if self._backlog.set_route(key, queue, now):
            self._settled.clear()
        self._budgets.routes_changed()
        if queue is None:
            self._drop_assumptions(now, local_queue=key)

    def set_flavor(self, flavor: ResourceFlavor, now: datetime) -> None:
        self._refresh(self._catalog.set_flavor(flavor), now)

    def remove_flavor(self, name: str, now: datetime) -> None:
        self._refresh(self._catalog.remove_flavor(name), now)

    def set_check(self, check: AdmissionCheck, now: datetime) -> tuple[str, ...]:
        """Answers the ClusterQueues that have other problems now."""
        concerned = self._catalog.set_check(check)
        self._refresh(concerned, now)
        return concerned

    def remove_check(self, name: str, now: datetime) -> None:
        self._refresh(self._catalog.remove_check(name), now)

    def set_namespace(self, namespace: Namespace, now: datetime) -> None:
        if not self._catalog.set_namespace(namespace):
            return
        self._settled.clear()
        for queue, line in self._backlog.lines.items():
            if line.size and self._catalog.selects(queue, namespace.metadata.name):
                self._wake(queue, now)

    def remove_namespace(self, name: str, now: datetime) -> None:  # noqa: ARG002
        self._catalog.remove_namespace(name)
        self._settled.clear()

    def set_limit_range(self, key: ObjectKey, value: LimitRange | None, now: datetime) -> None:
        """A LimitRange is there, or no more: those who wait in its namespace may ask for something else now."""
        self._surroundings.set_range(key, value)
        self._ask_again(self._backlog.in_namespace(key.namespace), now)

    def set_runtime_class(self, name: str, value: RuntimeClass | None, now: datetime) -> None:
        """The same for a RuntimeClass and those whose pods name it."""
        self._surroundings.set_class(name, value)
        self._ask_again(self._backlog.of_runtime_class(name), now)

    def _ask_again(self, concerned: Iterable[Waiting], now: datetime) -> None:
        for waiting in concerned:
            asked = self._new_demand(waiting.workload, waiting.spec)
            if asked != waiting.demand:
                self._leave_line(waiting.key)
                new = Waiting(waiting.workload, waiting.spec, asked, waiting.rank, replaces=waiting.replaces)
                self._line_up(new, now)

    def _refresh(self, names: Iterable[str], now: datetime) -> None:
        """ClusterQueues, or something they refer to, changed."""
        for name in names:
            self._snapshots.pop(name, None)
            self._wake(name, now)

    def _wake(self, name: str, now: datetime) -> None:
        """Something changed in the tree of a ClusterQueue that may help those who wait."""
        root = self._forest.root_name(name)
        self._settled.discard(root)
        self._backlog.request_flush(root, now)

    # --- workloads ---

    def set_workload(self, workload: Workload, now: datetime) -> None:
        """A workload as just seen; every watch event goes here (quota-engine 4.4 end).

        Raises msgspec.ValidationError if its spec is no workload spec, InvalidObject if its quantities are none. What may
        raise comes before what changes, here and for queues.
        """
        spec = self._spec(workload)
        if not spec.active or workload.has(FINISHED):
            self.remove_workload(workload.key, now)
            if workload.has(QUOTA_RESERVED) and not workload.has(FINISHED) and not workload.has(EVICTED):
                self._switched_off.add(workload.key)
        elif workload.has(QUOTA_RESERVED) and workload.status.admission is not None:
            self._hold(workload, spec, workload.status.admission, now)
        else:
            self._await_quota(workload, spec, now)
        if workload.key not in self._evictions:
            self._budgets.see(workload, ObjectKey(workload.metadata.namespace, spec.queue_name))

    def remove_workload(self, key: ObjectKey, now: datetime) -> None:
        self._specs.pop(key, None)
        self._assumed.pop(key, None)
        self._evictions.pop(key, None)
        self._switched_off.discard(key)
        self._budgets.forget(key)
        if self._succession is not None:
            self._succession.end(key)
        self._wake_overlooked(key, now)
        self._leave_line(key)
        self._release(key, now)

    def _spec(self, workload: Workload) -> WorkloadSpec:
        """The decoded spec, decoded again only when its bytes changed."""
        known = self._specs.get(workload.key)
        if known is not None and known[0] == workload.spec:
            return known[1]
        spec = workload_spec(workload)
        self._specs[workload.key] = (workload.spec, spec)
        return spec

    def _hold(self, workload: Workload, spec: WorkloadSpec, admission: Admission, now: datetime) -> None:
        """Its reservation is in its status: what was assumed is confirmed, or another process did it."""
        counts = {pod_set.name: pod_set.count for pod_set in spec.pod_sets}
        amounts = admission_amounts(admission, counts, workload.status.reclaimable_pods)
        self._assumed.pop(workload.key, None)
        self._leave_line(workload.key)
        if self._succession is not None and self._is_succeeded(workload, self._succession, now):
            self._release(workload.key, now)
            return
        self._gate.holds_quota(workload.key, ready=workload.has(PODS_READY))
        if workload.has(EVICTED):
            self._evictions.pop(workload.key, None)
            self._switched_off.discard(workload.key)
        reserved = workload.condition(QUOTA_RESERVED)
        new = Holding(
            key=workload.key,
            cluster_queue=admission.cluster_queue,
            local_queue=ObjectKey(workload.metadata.namespace, spec.queue_name),
            amounts=amounts,
            priority=spec.priority,
            admitted=workload.has(ADMITTED),
            uid=workload.metadata.uid,
            since=queue_time(workload, keeping_place=self._keep_place),
            reserved_at=_whole_second((reserved and reserved.last_transition_time) or now),
            evicted=workload.has(EVICTED) or workload.key in self._evictions or workload.key in self._switched_off,
            protected=self._is_protected(workload),
            ends_by=min(filter(None, (time_is_up(workload.status, spec), end_of(workload.status))), default=None),
            job=job_of(workload) if self._succession is not None else "",
        )
        old = self._holdings.get(workload.key)
        if old == new:
            return
        if old is None:
            self._take(new)
            return
        self._give_up(old)
        self._take(new)
        if new.admitted and not old.admitted:
            self._record(new, now)
        traits = old.amounts, old.priority, old.cluster_queue, old.protected
        if traits != (new.amounts, new.priority, new.cluster_queue, new.protected):
            self._wake_after(old, now)

    def _is_succeeded(self, workload: Workload, succession: Succession, now: datetime) -> bool:
        """Whether a later slice has its quota; if it is such a slice, it has that of the one before it from now on."""
        old, job = replaced_key(workload), job_of(workload)
        if old is not None:
            succession.succeed(workload.key, old, job=job)
            if succession.may_replace(job, self._holdings.get(old)) and succession.has_heir(old, job=job):
                self._release(old, now)
        return succession.has_heir(workload.key, job=job)

    def _is_protected(self, workload: Workload) -> bool:
        return self._non_preemptible and is_non_preemptible(workload)

    def _await_quota(self, workload: Workload, spec: WorkloadSpec, now: datetime) -> None:
        assumption = self._assumed.get(workload.key)
        if assumption is not None and assumption.waiting.workload.spec == workload.spec:
            assumption.waiting.workload = workload  # an older state: the reservation is still on its way
            return
        rank = queue_rank(workload, spec.priority, keeping_place=self._keep_place)
        replaces = replaced_key(workload) if self._succession is not None else None
        waiting = Waiting(workload, spec, self._demand(workload, spec), rank, replaces=replaces)
        self._assumed.pop(workload.key, None)
        self._evictions.pop(workload.key, None)
        self._switched_off.discard(workload.key)
        self._release(workload.key, now)
        if workload.metadata.deletion_timestamp is None:
            self._line_up(waiting, now)
        else:
            self._leave_line(workload.key)

    def _line_up(self, waiting: Waiting, now: datetime) -> None:
        old = self._backlog.get(waiting.key)
        if self._backlog.put(waiting, now):
            self._stir(waiting)
        if old is not None and old.local_queue != waiting.local_queue:
            self._stir(old)  # who stood behind it there may be first now

    def _demand(self, workload: Workload, spec: WorkloadSpec) -> Demand:
        reclaimed = workload.status.reclaimable_pods
        known = self._backlog.get(workload.key)
        if known and known.spec is spec and known.workload.status.reclaimable_pods == reclaimed:
            return known.demand
        return self._new_demand(workload, spec)

    def _new_demand(self, workload: Workload, spec: WorkloadSpec) -> Demand:
        limits = self._surroundings.of(workload.metadata.namespace)
        return demand(spec, workload.status.reclaimable_pods, accounting=self._accounting, rules=limits)

    def _leave_line(self, key: ObjectKey) -> None:
        waiting = self._backlog.get(key)
        if waiting is not None:
            self._backlog.remove(key)
            self._stir(waiting)

    def _stir(self, waiting: Waiting) -> None:
        """The line a workload stands in looks different now."""
        queue = self.place(waiting.local_queue)
        if queue is not None:
            self._settled.discard(self._forest.root_name(queue))

    # --- holding quota ---

    def _holders(self, name: str) -> Sequence[Holding]:
        """Who may be evicted from a ClusterQueue; nobody from one that admits nothing: it has no heads either."""
        if not self.is_active(name):
            return ()
        holdings = self._holdings.in_queue(name)
        if self._history is None or not self._take_turns(name):
            return holdings
        usage = self._history.usage
        return Reordered(sorted(holdings, key=lambda each: (not each.evicted, -usage(each.local_queue))))

    def _take(self, holding: Holding) -> None:
        self._holdings.add(holding)
        self._settled.discard(self._forest.root_name(holding.cluster_queue))
        node = None if self._forest.stale else self._forest.queue(holding.cluster_queue)
        if node is not None:
            node.add(holding.amounts)

    def _give_up(self, holding: Holding) -> None:
        self._holdings.remove(holding.key)
        self._generations[holding.cluster_queue] = self._generation(holding.cluster_queue) + 1
        self._settled.discard(self._forest.root_name(holding.cluster_queue))
        node = None if self._forest.stale else self._forest.queue(holding.cluster_queue)
        if node is not None:
            node.remove(holding.amounts)

    def _release(self, key: ObjectKey, now: datetime) -> None:
        self._gate.lost_quota(key)
        restored = self._succession.lose(key) if self._succession is not None else None
        if restored is not None:
            self._take(restored)
        holding = self._holdings.get(key)
        if holding is not None:
            if self._history is not None:
                self._history.discharge(holding.local_queue, key)
            self._give_up(holding)
            self._wake_after(holding, now)

    def _wake_overlooked(self, key: ObjectKey, now: datetime) -> None:
        """Who waits and goes leaves nothing behind; but Kueue wakes those who are parked then as well."""
        waiting = self._backlog.get(key)
        queue = self._backlog.route(waiting.local_queue) if waiting else None
        if queue is not None:
            self._backlog.hasten_flush(self._forest.root_name(queue), now)

    def _wake_after(self, holding: Holding, now: datetime) -> None:
        """Quota is free that others may wait for. Who that is Kueue finds by the LocalQueue of the workload that had it, and
        wakes nobody if that is stopped or gone (quota-engine 2.3)."""
        queue = self._backlog.route(holding.local_queue)
        if queue is not None:
            self._wake(queue, now)
        if queue != holding.cluster_queue:
            self._backlog.request_flush(self._forest.root_name(holding.cluster_queue), now, after=OVERLOOKED)

    def _take_turns(self, name: str) -> bool:
        """Whether the LocalQueues of a ClusterQueue are served by what they used of late."""
        scope = self._catalog.queues[name].spec.admission_scope
        return self._history is not None and scope is not None and scope.admission_mode == USAGE_BASED

    def _record(self, holding: Holding, now: datetime) -> None:
        """A workload was admitted: what it uses is history from now on."""
        if self._history is None:
            return
        if holding.cluster_queue not in self._catalog.queues or not self._take_turns(holding.cluster_queue):
            self._history.discharge(holding.local_queue, holding.key)
            return
        used = self._holdings.local_queue(holding.local_queue).usage
        self._history.admitted(holding.local_queue, holding.key, takes=holding.amounts, used=used, now=now)

    def sample(self, key: ObjectKey, now: datetime) -> timedelta | None:
        """Bring what a LocalQueue used of late up to date, if it is time to; answers when it will be again. None where
        it does not matter, or will not as long as nothing else changes."""
        queue = self._catalog.local_queues.get(key)
        if self._history is None or queue is None or queue.spec.stop_policy != "None":
            return None
        if not self.is_active(queue.spec.cluster_queue):
            return None
        self._settled.discard(self._forest.root_name(queue.spec.cluster_queue))
        return self._history.sample(queue, self._holdings.local_queue(key).usage, now)

    def _generation(self, name: str) -> int:
        return self._generations.get(name, 1)

    # --- assuming ---

    def reservation(self, key: ObjectKey) -> Admission | None:
        """What a cycle gave to a workload, as long as its status does not show it."""
        assumption = self._assumed.get(key)
        return assumption.admission if assumption else None

    def until(self, key: ObjectKey) -> datetime | None:
        """By when a workload has to be gone to which a cycle gave quota, as long as its status does not show it."""
        assumption = self._assumed.get(key)
        return assumption.until if assumption else None

    def eviction(self, key: ObjectKey) -> Eviction | None:
        """What a cycle wants to go, as long as its status does not show it."""
        return self._evictions.get(key)

    def was_switched_off(self, key: ObjectKey) -> bool:
        """Whether its quota was free for others at some time since it has it, so that it has to go, as long as its status
        does not show that: it may be switched on again before that is written."""
        return key in self._switched_off

    def forget(self, key: ObjectKey, now: datetime) -> None:
        """The reservation could not be written: take it back and give the head another chance."""
        assumption = self._assumed.pop(key, None)
        if assumption is None:
            return
        self._evictions.pop(key, None)
        self._budgets.see(assumption.waiting.workload, assumption.waiting.local_queue)
        self._release(key, now)
        self._backlog.give_back(assumption.waiting, Reason.FAILED_AFTER_NOMINATION, now)
        self._stir(assumption.waiting)

    def _drop_assumptions(
        self, now: datetime, *, cluster_queue: str | None = None, local_queue: ObjectKey | None = None
    ) -> None:
        """A stopped queue gives no quota, not even what was just promised."""
        for key, assumption in list(self._assumed.items()):
            if assumption.admission.cluster_queue == cluster_queue or assumption.waiting.local_queue == local_queue:
                self.forget(key, now)

    # --- the cycle ---

    def cycle(self, now: datetime) -> Cycle:
        """One scheduling cycle. Call again at once while it is productive, else at `next_look`."""
        self._prepare()
        if self._gate.blocks:
            return Cycle()
        if let_in := self._let_in(now):
            return Cycle(reserved=(let_in,), heads=1, productive=True)
        self._wake_parked(now)
        heads = list(self._take_heads())
        reserved: list[ObjectKey] = []
        evicted: list[ObjectKey] = []
        changed: list[ObjectKey] = []
        skips: Counter[str] = Counter()
        restless: set[str] = set()
        held_up: list[Refuse] = []
        losers: set[str] = set()
        for decision in run(heads, self.rules(now)):
            queue = decision.head.queue.name
            if self._gate.held is not None or (isinstance(decision, Reserve) and not self._gate.is_open):
                changed += self._hold_back(decision, now)
                restless.add(queue)
                continue
            if isinstance(decision, Reserve):
                self._assume(decision, now)
                reserved.append(decision.head.waiting.key)
                restless.add(queue)
                continue
            changed += self._refuse(decision, now)
            held_up.append(decision)
            skips[queue] += decision.lost
            if decision.reason is Reason.FAILED_AFTER_NOMINATION:
                losers.add(queue)
            for eviction in decision.evictions:
                self._evict(eviction, now)
                evicted.append(eviction.key)
                restless.add(queue)
        for key, queue in self._fill_back(held_up, now):
            reserved.append(key)
            restless.add(queue)
        self._settle(heads, restless, losers)
        return Cycle(
            reserved=tuple(reserved),
            evicted=tuple(evicted),
            pending=tuple(changed),
            heads=len(heads),
            skips=+skips,
            productive=bool(reserved or evicted),
        )

    def _fill_back(self, held_up: Iterable[Refuse], now: datetime) -> Iterator[tuple[ObjectKey, str]]:
        """Let pass those who may, in the order of their line; answers who they are, and in which ClusterQueue."""
        for decision in held_up:
            head, name = decision.head, decision.head.queue.name
            mode = backfill(self._catalog.queues[name])
            if not mode or not waits_for_quota(decision):
                continue
            timed = mode == KNOWN_ENDS and decision.reason is Reason.GENERIC
            start = start_of(head, self._holdings.in_queue(name), now) if timed else None
            line = self._backlog.lines[name]
            behind = (each for each in line.in_order() if each.key != head.waiting.key)
            for waiting in tuple(islice((each for each in behind if line.is_awake(each.key)), DEPTH)):
                found = passing(self._head(waiting, name), head, now=now, start=start)
                if found is not None and self._gate.is_open:
                    self._assume(found.reserve, now, until=found.until)
                    yield waiting.key, name

    def _prepare(self) -> None:
        if self._forest.stale:
            self._forest.build(self._holdings.by_queue())
            self._snapshots.clear()
            self._generations = {name: self._generation(name) + 1 for name in self._catalog.queues}

    def _wake_parked(self, now: datetime) -> None:
        for name in self._budgets.freed(now):
            self._wake(name, now)
        roots = self._backlog.take_due_flushes(now)
        if roots:
            self._settled -= roots
            self._backlog.flush(self._forest.queues_of(roots), now, self._catalog.selects)
        for name in self._backlog.end_backoffs(now):
            self._settled.discard(self._forest.root_name(name))

    def _take_heads(self) -> Iterator[Head]:
        for name in self._backlog.busy():
            if not self._is_worth_a_look(name):
                continue
            waiting = self._backlog.lines[name].pop()
            if waiting is not None:
                yield self._head(waiting, name)

    def _is_worth_a_look(self, name: str) -> bool:
        return self.is_active(name) and self._forest.root_name(name) not in self._settled

    def _head(self, waiting: Waiting, name: str) -> Head:
        queue = self._snapshot(name)
        generation = self._generation(name)
        if waiting.has_failed_checks:
            return Head(waiting, queue, generation, "The workload has failed admission checks")
        if queue.node.in_cycle:
            return Head(waiting, queue, generation, f"ClusterQueue {name} is inactive")
        if not self._catalog.selects(name, waiting.key.namespace):
            known = self._catalog.knows_namespace(waiting.key.namespace)
            problem = (
                "Workload namespace doesn't match ClusterQueue selector" if known else "Unknown workload namespace"
            )
            return Head(waiting, queue, generation, problem, Reason.NAMESPACE_MISMATCH)
        return Head(waiting, queue, generation, waiting.demand.problem, replaced=self._replaced_by(waiting, name))

    def _replaced_by(self, waiting: Waiting, name: str) -> Holding | None:
        """What the slice has whose place it is to take. Where there is no such, it needs all that it asks for."""
        if waiting.replaces is None or self._succession is None:
            return None
        found = self._holdings.get(waiting.replaces)
        if found is None or found.evicted or found.cluster_queue != name:
            return None
        return found if self._succession.may_replace(job_of(waiting.workload), found) else None

    def _snapshot(self, name: str) -> QueueSnapshot:
        known = self._snapshots.get(name)
        if known is None:
            node = self._forest.queue(name)
            assert node is not None, f"{name} is declared, so it has a node after a build"
            fair = self._preemption.fair is not None
            queue = self._catalog.queues[name]
            known = self._snapshots[name] = snapshot(queue, node, self._catalog.flavors, fair_sharing=fair)
        return known

    def _hold_back(self, decision: Decision, now: datetime) -> Iterator[ObjectKey]:
        """The first to whom the gate is closed waits there; for those after it, it is as if they had not been looked at.

        Answers those for whose status there is news.
        """
        waiting, is_first = decision.head.waiting, self._gate.held is None and isinstance(decision, Reserve)
        if is_first:
            waiting.verdict = Verdict(WAITING_MESSAGE, reason=WAITING)
        self._backlog.give_back(waiting, Reason.FAILED_AFTER_NOMINATION, now)
        if is_first and isinstance(decision, Reserve):
            self._gate.held = decision
            yield waiting.key

    def _let_in(self, now: datetime) -> ObjectKey | None:
        """The gate is open: who was held gets its quota, if it still asks for the same and there is still room.

        The latter Kueue does not look at again, and may give more than there is.
        """
        held = self._gate.release()
        waiting = self._backlog.get(held.head.waiting.key) if held else None
        if held is None or waiting is None or not self._is_led_to(waiting, held.head.queue.name):
            return None
        if waiting.demand != held.head.waiting.demand or waiting.spec != held.head.waiting.spec:
            return None
        node = self._forest.queue(held.head.queue.name)
        if held.head.replaced is not None:
            return None  # in its line it is looked at anew, for so is the slice that it replaces
        if node is None or any(amount > node.available(fr) for fr, amount in held.usage.items()):
            return None
        self._assume(replace(held, head=replace(held.head, waiting=waiting)), now)
        return waiting.key

    def _is_led_to(self, waiting: Waiting, name: str) -> bool:
        """Whether a workload stands in the line of an active ClusterQueue."""
        local_queue = self._catalog.local_queues.get(waiting.local_queue)
        if local_queue is None or local_queue.spec.stop_policy != "None":
            return False
        return local_queue.spec.cluster_queue == name and self.is_active(name)

    def _assume(self, decision: Reserve, now: datetime, *, until: datetime | None = None) -> None:
        waiting = decision.head.waiting
        self._gate.holds_quota(waiting.key, ready=False)
        self._backlog.remove(waiting.key)
        waiting.verdict = None
        self._assumed[waiting.key] = _Assumption(decision.admission, waiting, until)
        if self._history is not None:
            self._history.charge(waiting.local_queue, waiting.key, waiting.demand)
        replaced = decision.head.replaced
        if replaced is not None and self._succession is not None:
            self._give_up(replaced)
            self._gate.lost_quota(replaced.key)
            self._succession.succeed(waiting.key, replaced.key, job=job_of(waiting.workload), holding=replaced)
        self._take(
            Holding(
                key=waiting.key,
                cluster_queue=decision.admission.cluster_queue,
                local_queue=waiting.local_queue,
                amounts=decision.usage,
                priority=waiting.spec.priority,
                uid=waiting.workload.metadata.uid,
                since=waiting.workload.metadata.creation_timestamp
                or EPOCH,  # its eviction is over with the reservation
                reserved_at=_whole_second(now),
                protected=self._is_protected(waiting.workload),
                ends_by=until,
                job=job_of(waiting.workload) if self._succession is not None else "",
            )
        )

    def _evict(self, eviction: Eviction, now: datetime) -> None:
        """Take note of what is to be written. It goes on using its quota; only its place among those to go is new."""
        holding = self._holdings.remove(eviction.key)
        assert holding is not None, "only who holds quota is evicted"
        self._holdings.add(replace(holding, evicted=True))
        self._evictions[eviction.key] = eviction
        self._budgets.assume(eviction.key, holding.local_queue, _whole_second(now))
        self._generations[holding.cluster_queue] = self._generation(holding.cluster_queue) + 1

    def _refuse(self, decision: Refuse, now: datetime) -> list[ObjectKey]:
        """Give the head back, and with it those behind it that ask for the same: they would hear the same.

        Answers those for whose status there is news.
        """
        waiting = decision.head.waiting
        verdict = Verdict(decision.message, decision.resource_requests)
        news = [waiting.key] if waiting.verdict != verdict else []
        waiting.verdict = verdict
        self._backlog.give_back(waiting, decision.reason, now)
        return news + self._backlog.lines[decision.head.queue.name].hush(waiting, verdict)

    def _settle(self, heads: list[Head], changed: set[str], losers: set[str]) -> None:
        """Note the trees where another look would only repeat this one: nothing `changed` in any of its queues, and
        whoever lost would lose to the same heads again."""
        restless = {self._forest.root_name(name) for name in changed}
        contested = {self._forest.root_name(name) for name in losers}
        for head in heads:
            root, top = self._forest.root_name(head.queue.name), self._backlog.lines[head.queue.name].top()
            stays_as_it_is = top is head.waiting and (top.progress is None or top.goes_round())
            leaves_nobody = top is None and root not in contested
            if not (stays_as_it_is or leaves_nobody):
                restless.add(root)
        self._settled |= {self._forest.root_name(head.queue.name) for head in heads} - restless

    def next_look(self, now: datetime) -> datetime | None:
        """When a cycle is worth running: now if a head waits, else when the next flush or back-off is due.

        While somebody is held at the gate, never: whatever opens it is told.
        """
        if self._gate.held is not None:
            return None if self._gate.blocks else now
        if any(self._is_worth_a_look(name) for name in self._backlog.busy()):
            return now
        dues = self._backlog.next_due(), self._budgets.next_end()
        return min((due for due in dues if due is not None), default=None)

    # --- answers ---

    def verdict(self, key: ObjectKey) -> Verdict | None:
        """Why a pending workload has no quota, if a cycle looked at it."""
        waiting = self._backlog.get(key)
        return None if waiting is None else self._backlog.verdict(waiting)

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return self._catalog.queues.get(name)

    def local_queue(self, key: ObjectKey) -> LocalQueue | None:
        return self._catalog.local_queues.get(key)

    def place(self, local_queue: ObjectKey) -> str | None:
        """The name of the ClusterQueue that a LocalQueue leads to."""
        known = self._catalog.local_queues.get(local_queue)
        return known.spec.cluster_queue if known else None

    def is_active(self, name: str) -> bool:
        """Whether the ClusterQueue exists and nothing keeps it from admitting."""
        return self._catalog.is_active(name)

    def cluster_queue_problems(self, name: str) -> tuple[Problem, ...]:
        """Why the ClusterQueue admits nothing, most important first; empty when it is active or unknown."""
        return self._catalog.problems(name)

    def cluster_queue_status(self, name: str, now: datetime) -> QueueStatus:
        """The status the ClusterQueue should have. Raises KeyError if it is unknown."""
        share = self.queue_share(name)
        return status.cluster_queue_status(
            self._catalog.queues[name],
            self._holdings.queue(name),
            pending=self._backlog.lines[name].size,
            problems=self._catalog.problems(name),
            now=now,
            share=None if share is None else share.figure,
        )

    def cohort_status(self, name: str) -> CohortStatus:
        """The status the Cohort should have."""
        share = self.cohort_share(name)
        return CohortStatus(fair_sharing=None if share is None else FairSharingStatus(weighted_share=share.figure))

    def queue_share(self, cluster_queue: str) -> Share | None:
        """The weighted share of a ClusterQueue; None: sharing is not fair."""
        return self._share(self._forest.queue, cluster_queue)

    def cohort_share(self, cohort: str) -> Share | None:
        """The same of a cohort."""
        return self._share(self._forest.cohort, cohort)

    def _share(self, node_of: Callable[[str], Node | None], name: str) -> Share | None:
        if self._preemption.fair is None:
            return None
        self._prepare()
        node = node_of(name)
        return NOTHING if node is None else share(node)

    def cohorts_above(self, cluster_queue: str) -> tuple[str, ...]:
        """The cohorts that share what a ClusterQueue uses, the nearest first."""
        node = None if self._forest.stale else self._forest.queue(cluster_queue)
        return tuple(cohort.name for cohort in node.ancestors()) if node is not None else ()

    def local_queue_status(self, key: ObjectKey, now: datetime) -> QueueStatus:
        """The status the LocalQueue should have. Raises KeyError if it is unknown."""
        local_queue = self._catalog.local_queues[key]
        name = local_queue.spec.cluster_queue
        return status.local_queue_status(
            local_queue,
            self._catalog.queues.get(name),
            self._holdings.local_queue(key),
            pending=self._backlog.members(key),
            active=self.is_active(name),
            now=now,
            history=self._history.status(key) if self._history else None,
        )

    def required_checks(self, cluster_queue: str, flavors: Iterable[str]) -> tuple[str, ...]:
        """The checks a workload with these flavors needs, in spec order; without flavors, those that apply to all."""
        return self._catalog.required_checks(cluster_queue, flavors)

    def tally(self, cluster_queue: str) -> Tally:
        """What the workloads of a ClusterQueue hold now. To be read, and not kept."""
        return self._holdings.queue(cluster_queue)

    def local_tally(self, local_queue: ObjectKey) -> Tally:
        """The same for a LocalQueue."""
        return self._holdings.local_queue(local_queue)

    def holdings_in(self, cluster_queue: str) -> Iterable[Holding]:
        """Who has quota of a ClusterQueue, active or not; first the one that would go first."""
        return self._holdings.in_queue(cluster_queue)

    def rules(self, now: datetime) -> Preemption:
        """Who may be preempted now."""
        return replace(self._preemption, allowance=lambda queue: self._budgets.left(queue, now))

    def waiting_workload(self, key: ObjectKey) -> Waiting | None:
        """A workload that waits for quota, in a line or not. To be read only."""
        return self._backlog.get(key)

    def head(self, waiting: Waiting, cluster_queue: str) -> Head:
        """A workload as a cycle would see it, were it first in that ClusterQueue, which must be known."""
        self._prepare()
        return self._head(waiting, cluster_queue)

    def waiting_in(self, cluster_queue: str) -> tuple[Waiting, ...]:
        """Who waits in a ClusterQueue, in queue order. To be read only."""
        line = self._backlog.lines.get(cluster_queue)
        return tuple(line.in_order()) if line else ()

    def waiting(self, cluster_queue: str) -> tuple[int, int]:
        """How many wait in a ClusterQueue: those to be looked at, and those parked until something changes. Nothing is
        looked at in a queue that is not active (quota-engine 7)."""
        line = self._backlog.lines.get(cluster_queue)
        if line is None:
            return 0, 0
        return (line.size - line.asleep, line.asleep) if self.is_active(cluster_queue) else (0, line.size)

    def waiting_by_local_queue(self, cluster_queue: str) -> tuple[Counter[ObjectKey], Counter[ObjectKey]]:
        """The same by LocalQueue."""
        line = self._backlog.lines.get(cluster_queue)
        if line is None:
            return Counter(), Counter()
        everybody = Counter(waiting.local_queue for waiting in line)
        parked = Counter(waiting.local_queue for waiting in line.sleeping())
        return (everybody - parked, parked) if self.is_active(cluster_queue) else (Counter(), everybody)

    def pending_in(self, cluster_queue: str) -> tuple[ObjectKey, ...]:
        """Who waits in a ClusterQueue, in queue order."""
        line = self._backlog.lines.get(cluster_queue)
        return tuple(waiting.key for waiting in line.in_order()) if line else ()


def _whole_second(time: datetime) -> datetime:
    """As it will be read back from the API."""
    return time.replace(microsecond=0)
