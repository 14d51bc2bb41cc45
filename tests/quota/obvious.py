"""The engine once more, slow and obvious: everything is rebuilt from lists for each cycle, and each waiting workload
is looked at alone. It shares with the real one what is decided in a cycle, and nothing of how that is kept and found.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue, ResourceFlavor
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.catalog import snapshot
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.tree import Forest, Member, fair_weight, quotas
from multikueue.quota.preemption.fair import FairPreemption
from multikueue.quota.preemption.preemption import PreemptionRules
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.scheduler.cycle import Decision, Head, Refuse, Reserve, run
from multikueue.quota.workload.ordering import queue_time
from multikueue.quota.workload.outcome import Verdict
from tests.quota.builders import waiting_of

__all__ = ["Obvious"]


@dataclass(slots=True)
class Obvious:
    """Told of the same as the engine, it answers with who got quota and who has to go, in the order it happened."""

    fair: FairPreemption | None = None
    compatibility: Compatibility = NEWEST
    flavors: dict[str, ResourceFlavor] = field(default_factory=dict)
    queues: dict[str, ClusterQueue] = field(default_factory=dict)
    routes: dict[ObjectKey, str] = field(default_factory=dict)
    waiting: list[PendingWorkload] = field(default_factory=list)
    parked: set[ObjectKey] = field(default_factory=set)
    unfit: dict[tuple[str, Hashable], Verdict] = field(default_factory=dict)
    favoured: dict[str, ObjectKey] = field(default_factory=dict)
    reservations: list[Reservation] = field(default_factory=list)
    flushes: dict[str, datetime] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)
    spec_changes: int = 0

    # --- what it is told ---

    def set_queue(self, queue: ClusterQueue, now: datetime) -> None:
        if self.queues.get(queue.metadata.name) == queue:
            return
        self.queues[queue.metadata.name] = queue
        self.spec_changes += 1
        self._wake(queue.metadata.name, now)

    def set_local_queue(self, queue: LocalQueue) -> None:
        self.routes[queue.key] = queue.spec.cluster_queue

    def arrive(self, workload: Workload) -> None:
        waiting = waiting_of(workload)
        self.waiting.append(waiting)
        if verdict := self.unfit.get((self._queue(waiting), waiting.shape())):
            waiting.verdict = verdict
            self.parked.add(waiting.key)

    def leave(self, key: ObjectKey, now: datetime) -> None:
        self.waiting = [each for each in self.waiting if each.key != key]
        self.parked.discard(key)
        self.favoured = {queue: who for queue, who in self.favoured.items() if who != key}
        for gone in [each for each in self.reservations if each.key == key]:
            self.reservations.remove(gone)
            self._changed(gone.cluster_queue)
            self._wake(gone.cluster_queue, now)

    def _changed(self, queue: str) -> None:
        self.changes[queue] = self.changes.get(queue, 0) + 1

    def _wake(self, queue: str, now: datetime) -> None:
        self.flushes.setdefault(self._root(queue), now + timedelta(seconds=1))

    # --- a cycle ---

    def cycle(self, now: datetime) -> list[tuple[str, ObjectKey]]:
        """What is new: `reserved` or `evicted`, and who."""
        for root in [root for root, at in self.flushes.items() if at <= now]:
            del self.flushes[root]
            self.parked -= {each.key for each in self.waiting if self._root(self._queue(each)) == root}
            self.unfit = {known: why for known, why in self.unfit.items() if self._root(known[0]) != root}
        forest = self._forest()
        heads = [self._head(name, forest) for name in sorted(self.queues) if self._awake(name)]
        for head in heads:
            self.waiting.remove(head.waiting)
        return [news for decision in run(heads, self._preemption()) for news in self._apply(decision, now)]

    def _apply(self, decision: Decision, now: datetime) -> Iterable[tuple[str, ObjectKey]]:
        waiting = decision.head.waiting
        if isinstance(decision, Reserve):
            self._reserve(decision, now)
            return [("reserved", waiting.key)]
        self.waiting.append(waiting)
        self._refuse(decision)
        for eviction in decision.evictions:
            index = next(index for index, each in enumerate(self.reservations) if each.key == eviction.key)
            self.reservations[index] = replace(self.reservations[index], is_evicted=True)
            self._changed(self.reservations[index].cluster_queue)
        return [("evicted", each.key) for each in decision.evictions]

    def _reserve(self, decision: Reserve, now: datetime) -> None:
        waiting, queue = decision.head.waiting, decision.head.queue.name
        if self.favoured.get(queue) == waiting.key:
            del self.favoured[queue]
        self.reservations.append(
            Reservation(
                key=waiting.key,
                cluster_queue=queue,
                local_queue=waiting.local_queue,
                amounts=decision.usage,
                priority=waiting.spec.priority,
                uid=waiting.workload.metadata.uid,
                since=queue_time(waiting.workload),
                reserved_at=now.replace(microsecond=0),
            )
        )

    def _refuse(self, decision: Refuse) -> None:
        head, queue = decision.head.waiting, decision.head.queue.name
        verdict = Verdict(decision.message, decision.resource_requests)
        strict = self.queues[queue].spec.queueing_strategy == "StrictFIFO"
        if decision.reason is Reason.PENDING_PREEMPTION and not strict:
            self.favoured[queue] = head.key
        head.verdict = verdict
        tried_again = decision.reason in (Reason.FAILED_AFTER_NOMINATION, Reason.PENDING_PREEMPTION)
        if strict or head.progress is not None or tried_again:
            return
        self.parked.add(head.key)
        if self.compatibility.has_equivalence_classes and decision.has_no_fit:
            self.unfit[queue, head.shape()] = verdict
            for each in self._awake(queue):
                if each.shape() == head.shape():
                    each.verdict = verdict
                    self.parked.add(each.key)
            return
        while (behind := self._awake(queue)) and behind[0].ask() == head.ask():
            behind[0].verdict = verdict
            self.parked.add(behind[0].key)

    def _awake(self, queue: str) -> list[PendingWorkload]:
        here = [each for each in self.waiting if self._queue(each) == queue and each.key not in self.parked]
        return sorted(here, key=lambda each: (each.key != self.favoured.get(queue), each.rank))

    def _head(self, name: str, forest: Forest) -> Head:
        node = forest.queue(name)
        assert node is not None
        rules = {"is_fair_sharing": self.fair is not None}
        seen = snapshot(self.queues[name], node, self.flavors, **rules, compatibility=self.compatibility)
        return Head(self._awake(name)[0], seen, self.spec_changes + self.changes.get(name, 0))

    def _preemption(self) -> PreemptionRules:
        def holders(name: str) -> Sequence[Reservation]:
            return sorted((h for h in self.reservations if h.cluster_queue == name), key=lambda h: h.eviction_rank)

        return PreemptionRules(holders, self.fair, compatibility=self.compatibility)

    def _forest(self) -> Forest:
        forest = Forest()
        for name, queue in self.queues.items():
            weight = fair_weight(queue.spec.fair_sharing)
            forest.declare_queue(name, Member(queue.spec.cohort_name, quotas(queue.spec.resource_groups), weight))
        usages: dict[str, dict[tuple[str, str], int]] = {}
        for each in self.reservations:
            used = usages.setdefault(each.cluster_queue, {})
            for fr, amount in each.amounts.items():
                used[fr] = used.get(fr, 0) + amount
        forest.build(usages)
        return forest

    def _queue(self, waiting: PendingWorkload) -> str:
        return self.routes[waiting.local_queue]

    def _root(self, queue: str) -> str:
        return self.queues[queue].spec.cohort_name or queue
