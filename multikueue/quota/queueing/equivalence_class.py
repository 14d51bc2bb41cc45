"""Scheduling equivalence classes: pending workloads that ask for the same (quota-engine 11).

A verdict on one workload of a class holds for all. A full queue is mostly made of many workloads of few classes. So a
class gets its verdict, becomes inadmissible and is requeued as one: that takes as long for a hundred thousand as for
ten.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.workload.ordering import Rank
from multikueue.quota.workload.outcome import Verdict

_SLACK = 16
"""Outdated entries that even a small heap may have before it is built again."""


class WorkloadHeap:
    """The active workloads of a class, or the inadmissible ones: by key, and in order.

    A workload that leaves out of order keeps its entry in the heap until that reaches the top, or such entries are too
    many.
    """

    __slots__ = ("_heap", "members")

    def __init__(self) -> None:
        self.members: dict[ObjectKey, PendingWorkload] = {}
        self._heap: list[tuple[Rank, ObjectKey]] = []

    def put(self, waiting: PendingWorkload) -> None:
        self.members[waiting.key] = waiting
        heappush(self._heap, (waiting.rank, waiting.key))
        if len(self._heap) > 2 * len(self.members) + _SLACK:
            self._heap = [(each.rank, each.key) for each in self.members.values()]
            heapify(self._heap)

    def top(self) -> PendingWorkload | None:
        while self._heap:
            rank, key = self._heap[0]
            waiting = self.members.get(key)
            if waiting is not None and waiting.rank == rank:
                return waiting
            heappop(self._heap)
        return None

    def in_order(self) -> Iterator[PendingWorkload]:
        """One after the other. Lazy: nothing is sorted beyond what the caller asks for."""
        ahead = [(*place, 0) for place in self._heap[:1]]
        last: PendingWorkload | None = None
        while ahead:
            rank, key, index = heappop(ahead)
            for child in range(2 * index + 1, min(2 * index + 3, len(self._heap))):
                heappush(ahead, (*self._heap[child], child))
            waiting = self.members.get(key)
            if waiting is not None and waiting.rank == rank and waiting is not last:
                last = waiting  # a workload that left and came back has two entries, one behind the other
                yield waiting

    def joined(self, other: WorkloadHeap) -> WorkloadHeap:
        """Both as one heap. Takes time in proportion to the smaller one."""
        large, small = (self, other) if len(self.members) >= len(other.members) else (other, self)
        for waiting in small.members.values():
            large.put(waiting)
        return large


class EquivalenceClass:
    """The workloads of one queue that ask for the same. `common` is the last verdict of all except the `_others`."""

    __slots__ = ("_others", "active", "ask", "common", "inadmissible", "namespace", "offered", "shape")

    def __init__(self, ask: Hashable, namespace: str, shape: Hashable = None) -> None:
        self.ask, self.namespace, self.shape = ask, namespace, shape
        self.active, self.inadmissible = WorkloadHeap(), WorkloadHeap()
        self.common: Verdict | None = None
        self._others: set[ObjectKey] = set()
        self.offered: tuple[Rank, ObjectKey] | None = None
        """The rank and key of its head among the heads of all classes, as last noted by the queue."""

    @property
    def is_empty(self) -> bool:
        return not self.active.members and not self.inadmissible.members

    def get(self, key: ObjectKey) -> PendingWorkload | None:
        return self.active.members.get(key) or self.inadmissible.members.get(key)

    def verdict(self, waiting: PendingWorkload) -> Verdict | None:
        return waiting.verdict if waiting.key in self._others else self.common

    def join(self, waiting: PendingWorkload, *, is_active: bool) -> None:
        (self.active if is_active else self.inadmissible).put(waiting)
        self._note(waiting, waiting.verdict)

    def replace(self, waiting: PendingWorkload) -> None:
        """A newer version of the workload: it keeps its place and its verdict."""
        heap = self.active if waiting.key in self.active.members else self.inadmissible
        waiting.verdict = self.verdict(heap.members[waiting.key])
        heap.members[waiting.key] = waiting

    def leave(self, key: ObjectKey) -> PendingWorkload:
        heap = self.active if key in self.active.members else self.inadmissible
        waiting = heap.members.pop(key)
        waiting.verdict = self.verdict(waiting)
        self._others.discard(key)
        return waiting

    def requeue_inadmissible(self) -> None:
        """All workloads become active."""
        self.active, self.inadmissible = self.active.joined(self.inadmissible), WorkloadHeap()

    def mark_inadmissible(self, verdict: Verdict) -> list[ObjectKey]:
        """All active workloads get the verdict and become inadmissible. Returns the keys to which it is news
        (`Verdict.is_news_after`)."""
        news = self._set_verdict_of_active(verdict)
        self.active, self.inadmissible = WorkloadHeap(), self.inadmissible.joined(self.active)
        return news

    def mark_one_inadmissible(self, waiting: PendingWorkload, verdict: Verdict) -> bool:
        """One active workload gets the verdict and becomes inadmissible. Returns whether the verdict is news to it."""
        is_new = verdict.is_news_after(self.verdict(waiting))
        self.inadmissible.put(self.active.members.pop(waiting.key))
        self._note(waiting, verdict)
        return is_new

    def _set_verdict_of_active(self, verdict: Verdict) -> list[ObjectKey]:
        if not verdict.is_news_after(self.common):
            return self._set_alike(verdict)
        if len(self.active.members) <= len(self.inadmissible.members):
            return [each.key for each in tuple(self.active.members.values()) if self._set_verdict(each, verdict)]
        apart = [each for each in self._other_active() if not verdict.is_news_after(each.verdict)]
        self._others.difference_update(self.active.members)
        for waiting in self.inadmissible.members.values():
            self._note(waiting, self.verdict(waiting), common=verdict)
        self.common = verdict
        known = {each.key for each in apart}
        return [key for key in self.active.members if key not in known] if known else list(self.active.members)

    def _set_alike(self, verdict: Verdict) -> list[ObjectKey]:
        """A verdict that is no news after the common one takes its place, so that none shows amounts of the past."""
        news = [each.key for each in self._other_active() if self._set_verdict(each, verdict)]
        self.common = verdict
        self._others = {key for key in self._others if self._is_another(key, verdict)}
        return news

    def _is_another(self, key: ObjectKey, verdict: Verdict) -> bool:
        parked = self.inadmissible.members.get(key)
        return parked is not None and verdict.is_news_after(parked.verdict)

    def _other_active(self) -> list[PendingWorkload]:
        active = self.active.members
        if len(self._others) < len(active):
            return [active[key] for key in self._others if key in active]
        return [each for each in active.values() if each.key in self._others]

    def _set_verdict(self, waiting: PendingWorkload, verdict: Verdict) -> bool:
        is_new = verdict.is_news_after(self.verdict(waiting))
        self._note(waiting, verdict)
        return is_new

    def _note(self, waiting: PendingWorkload, verdict: Verdict | None, *, common: Verdict | None = None) -> None:
        waiting.verdict = verdict
        if verdict == (common or self.common):
            self._others.discard(waiting.key)
        else:
            self._others.add(waiting.key)

    def __iter__(self) -> Iterator[PendingWorkload]:
        yield from self.active.members.values()
        yield from self.inadmissible.members.values()
