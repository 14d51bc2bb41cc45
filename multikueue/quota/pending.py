"""The queue of one ClusterQueue: a heap of those to be looked at, and those parked until something changes (2.2, 2.3).

A cycle is one synchronous step, so nothing can happen between taking a head and giving it back: Kueue's in-flight slot
and its race rule have no counterpart here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from heapq import heapify, heappop, heappush

from multikueue.api.meta import ObjectKey
from multikueue.api.workload import EVICTED, REQUEUED, Workload, WorkloadSpec
from multikueue.quota.amounts import Demand
from multikueue.quota.ordering import Rank


class Reason(Enum):
    """Why a head comes back from a cycle."""

    GENERIC = "does not fit"
    FAILED_AFTER_NOMINATION = "lost within the cycle, or its reservation could not be written"
    NAMESPACE_MISMATCH = "its namespace is not selected"
    PENDING_PREEMPTION = "others are on their way out for it"


_TRIED_AGAIN = (Reason.FAILED_AFTER_NOMINATION, Reason.PENDING_PREEMPTION)


@dataclass(frozen=True, slots=True)
class Progress:
    """A search for flavors that was interrupted: the last one tried, per pod set and resource; -1: all were.

    Void once the quota changed, which `generation` tells.
    """

    generation: int
    tried: tuple[dict[str, int], ...]


@dataclass(slots=True)
class Waiting:
    """A workload without quota, as last seen. Only `progress` changes, by the cycle, and what is remembered of it."""

    workload: Workload
    spec: WorkloadSpec
    demand: Demand
    rank: Rank
    progress: Progress | None = None
    past: list[Progress] = field(default_factory=list)
    key: ObjectKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = self.workload.key

    @property
    def local_queue(self) -> ObjectKey:
        return ObjectKey(self.key.namespace, self.spec.queue_name)

    @property
    def requeue_at(self) -> datetime | None:
        state = self.workload.status.requeue_state
        return state.requeue_at if state else None

    def goes_round(self) -> bool:
        """Whether its search for flavors stopped where it had stopped before: it would go round and round. Where two pod
        sets stop in turn, Kueue does so without an end."""
        assert self.progress is not None, "only a search that was interrupted can be taken up"
        if self.progress in self.past:
            self.past.clear()
            return True
        self.past.append(self.progress)
        return False

    def may_queue(self, now: datetime) -> bool:
        """Whether its back-off is over. Requeued=False holds it back whatever the time."""
        requeued = self.workload.condition(REQUEUED)
        if requeued is not None and requeued.status == "False":
            return False
        return self.requeue_at is None or now >= self.requeue_at

    @property
    def was_stopped(self) -> bool:
        """Whether it was evicted because its LocalQueue was stopped. Once that runs again its place is by its rank: to
        wait until its status says so too would let younger work pass."""
        requeued = self.workload.condition(REQUEUED)
        return requeued is not None and requeued.status == "False" and requeued.reason == "LocalQueueStopped"

    @property
    def fewest_pods(self) -> tuple[int | None, ...]:
        """With how many pods of each pod set it would make do; None: only with all."""
        return tuple(pod_set.min_count for pod_set in self.spec.pod_sets)

    def asks_the_same(self, other: Waiting) -> bool:
        """Whether a cycle that refused the other would refuse this one for the same reasons."""
        mine, its = self.workload, other.workload
        return (
            self.rank[0] == other.rank[0]
            and self.key.namespace == other.key.namespace
            and self.progress == other.progress
            and self.demand == other.demand
            and self.fewest_pods == other.fewest_pods
            and mine.status.admission_checks == its.status.admission_checks
        )

    def same_for_queue(self, other: Waiting) -> bool:
        """Whether an update changes nothing that could make a parked workload worth another look."""
        mine, its = self.workload, other.workload
        return (
            mine.spec == its.spec
            and mine.status.reclaimable_pods == its.status.reclaimable_pods
            and mine.condition(EVICTED) == its.condition(EVICTED)
            and mine.condition(REQUEUED) == its.condition(REQUEUED)
            and self.requeue_at == other.requeue_at
        )


class PendingQueue:
    """Everything that waits in one ClusterQueue. Owned and changed by the engine only.

    The workload for which others are being evicted stays the head until it leaves, whatever comes: else those would
    have gone for nothing. With StrictFIFO that needs no rule.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self._ready: dict[ObjectKey, Waiting] = {}
        self._parked: dict[ObjectKey, Waiting] = {}
        self._heap: list[tuple[Rank, ObjectKey]] = []
        self._in_heap: set[tuple[Rank, ObjectKey]] = set()
        self._favoured: ObjectKey | None = None

    @property
    def size(self) -> int:
        return len(self._ready) + len(self._parked)

    @property
    def asleep(self) -> int:
        """How many are parked until something changes."""
        return len(self._parked)

    def push_or_update(self, waiting: Waiting, now: datetime) -> bool:
        """A pending workload was seen. Answers whether there is something new to look at."""
        parked = self._parked.get(waiting.key)
        if parked is not None:
            if parked.same_for_queue(waiting):
                waiting.progress = parked.progress
                self._parked[waiting.key] = waiting
                return False
            del self._parked[waiting.key]
        known = self._ready.get(waiting.key)
        if known is None and not waiting.may_queue(now):
            self._parked[waiting.key] = waiting
            return False
        if known is not None and known.same_for_queue(waiting) and known.rank == waiting.rank:
            waiting.progress = known.progress
            self._ready[waiting.key] = waiting
            return False
        self._push(waiting)
        return True

    def give_back(self, waiting: Waiting, reason: Reason, now: datetime) -> None:
        """A head returns from a cycle: to the heap to be looked at again, or parked."""
        if reason is Reason.PENDING_PREEMPTION and not self.strict:
            self._favoured = waiting.key
        if waiting.may_queue(now) and self._at_once(waiting, reason):
            self._push(waiting)
        elif waiting.key not in self._ready:
            self._parked[waiting.key] = waiting

    def _at_once(self, waiting: Waiting, reason: Reason) -> bool:
        if self.strict:
            return reason is not Reason.NAMESPACE_MISMATCH
        return waiting.progress is not None or reason in _TRIED_AGAIN

    def unpark(self, key: ObjectKey) -> None:
        """Look at one parked workload again: its back-off is over."""
        if waiting := self._parked.pop(key, None):
            self._push(waiting)

    def flush(self, now: datetime, selected: Callable[[Waiting], bool]) -> None:
        """Look again at all parked workloads, but those in back-off or of namespaces that are not selected."""
        moved = [each for each in self._parked.values() if each.may_queue(now) and selected(each)]
        for waiting in moved:
            del self._parked[waiting.key]
            self._ready[waiting.key] = waiting
        new = {(waiting.rank, waiting.key) for waiting in moved} - self._in_heap
        self._in_heap |= new
        self._heap += new
        heapify(self._heap)

    def remove(self, key: ObjectKey) -> None:
        self._ready.pop(key, None)
        self._parked.pop(key, None)
        if self._favoured == key:
            self._favoured = None

    def top(self) -> Waiting | None:
        """The head, left in place."""
        if self._favoured is not None and (favoured := self._ready.get(self._favoured)):
            return favoured
        while self._heap:
            rank, key = self._heap[0]
            waiting = self._ready.get(key)
            if waiting is not None and waiting.rank == rank:
                return waiting
            self._in_heap.discard(heappop(self._heap))  # left behind by a removal, a favour or a change of rank
        return None

    def pop(self) -> Waiting | None:
        head = self.top()
        if head is not None:
            del self._ready[head.key]
        return head

    def __iter__(self) -> Iterator[Waiting]:
        yield from self._ready.values()
        yield from self._parked.values()

    def in_order(self) -> Iterator[Waiting]:
        return iter(sorted((*self._ready.values(), *self._parked.values()), key=self._place))

    def _place(self, waiting: Waiting) -> tuple[bool, Rank]:
        return waiting.key != self._favoured, waiting.rank

    def sleeping(self) -> Iterator[Waiting]:
        """Those parked until something changes, in no order."""
        return iter(self._parked.values())

    def parked(self, key: ObjectKey) -> Waiting | None:
        return self._parked.get(key)

    def _push(self, waiting: Waiting) -> None:
        self._ready[waiting.key] = waiting
        entry = waiting.rank, waiting.key
        if entry not in self._in_heap:
            self._in_heap.add(entry)
            heappush(self._heap, entry)
