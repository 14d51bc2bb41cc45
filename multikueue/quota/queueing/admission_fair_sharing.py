"""Admission fair sharing: the LocalQueue with the least recent usage goes first (quota-engine 2.1, 5.1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from datetime import datetime
from heapq import merge
from itertools import groupby

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.pending_queue import PendingQueue
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.workload.outcome import Verdict

Usage = Callable[[ObjectKey], float]
"""The recent usage of a LocalQueue, as it counts now."""


class AdmissionFairSharingQueue:
    """A PendingQueue made of one per LocalQueue. Usage changes at any time, so nothing is sorted by it: the head is
    found among one workload per LocalQueue."""

    def __init__(self, usage: Usage, *, is_strict: bool = False) -> None:
        self._usage = usage
        self._is_strict = is_strict
        self._lines: dict[ObjectKey, PendingQueue] = {}
        self._line_of: dict[ObjectKey, ObjectKey] = {}
        self._favoured: ObjectKey | None = None
        self._unfit: dict[Hashable, Verdict] = {}

    @property
    def is_strict(self) -> bool:
        return self._is_strict

    @is_strict.setter
    def is_strict(self, value: bool) -> None:
        self._is_strict = value
        for line in self._lines.values():
            line.is_strict = value

    @property
    def size(self) -> int:
        return sum(line.size for line in self._lines.values())

    @property
    def inadmissible(self) -> int:
        return sum(line.inadmissible for line in self._lines.values())

    def push_or_update(self, waiting: PendingWorkload, now: datetime) -> bool:
        return self._line_for(waiting).push_or_update(waiting, now)

    def give_back(self, waiting: PendingWorkload, reason: Reason, now: datetime) -> None:
        if reason is Reason.PENDING_PREEMPTION and not self._is_strict:
            self._favoured = waiting.key
        self._line_for(waiting).give_back(waiting, reason, now)

    def unpark(self, key: ObjectKey, now: datetime) -> None:
        if line := self._line_with(key):
            line.unpark(key, now)

    def activate(self, key: ObjectKey) -> None:
        if line := self._line_with(key):
            line.activate(key)

    def flush(self, now: datetime, is_selected: Callable[[str], bool]) -> None:
        self._unfit.clear()
        for line in self._lines.values():
            line.flush(now, is_selected)

    def remove(self, key: ObjectKey) -> None:
        if line := self._line_with(key):
            line.remove(key)
            if not line.size:
                del self._lines[self._line_of[key]]
        self._line_of.pop(key, None)
        if self._favoured == key:
            self._favoured = None

    def top(self) -> PendingWorkload | None:
        """The head, left in place."""
        heads = (head for head in (line.top() for line in self._lines.values()) if head is not None)
        return min(heads, key=self._place, default=None)

    def pop(self) -> PendingWorkload | None:
        head = self.top()
        return self._lines[head.local_queue].pop() if head is not None else None

    def __iter__(self) -> Iterator[PendingWorkload]:
        for line in self._lines.values():
            yield from line

    def in_order(self) -> Iterator[PendingWorkload]:
        by_usage = sorted(self._lines, key=self._usage)
        for _, equals in groupby(by_usage, key=self._usage):
            yield from merge(*(self._lines[each].in_order() for each in equals), key=self._place)

    def places_of(self, local_queue: ObjectKey) -> Iterator[tuple[PendingWorkload, int]]:
        """As `PendingQueue.places_of`."""
        if local_queue in self._lines:
            for place, waiting in enumerate(self.in_order()):
                if waiting.local_queue == local_queue:
                    yield waiting, place

    def _place(self, waiting: PendingWorkload) -> tuple[float, bool, tuple[int, datetime, str]]:
        return self._usage(waiting.local_queue), waiting.key != self._favoured, waiting.rank

    def inadmissible_workloads(self) -> Iterator[PendingWorkload]:
        for line in self._lines.values():
            yield from line.inadmissible_workloads()

    def is_active(self, key: ObjectKey) -> bool:
        line = self._line_with(key)
        return line is not None and line.is_active(key)

    def mark_inadmissible(self, waiting: PendingWorkload, verdict: Verdict) -> list[ObjectKey]:
        """As `PendingQueue.mark_inadmissible`, unless another LocalQueue is first now."""
        local_queue = waiting.local_queue
        others = (each for each, line in self._lines.items() if each != local_queue and line.top() is not None)
        if any(self._usage(each) <= self._usage(local_queue) for each in others):
            return []
        return self._lines[local_queue].mark_inadmissible(waiting, verdict)

    def park_alike(self, waiting: PendingWorkload, verdict: Verdict) -> list[ObjectKey]:
        if self.is_active(waiting.key):
            return []
        return [key for line in self._lines.values() for key in line.park_alike(waiting, verdict)]

    def verdict(self, waiting: PendingWorkload) -> Verdict | None:
        line = self._lines.get(waiting.local_queue)
        return waiting.verdict if line is None else line.verdict(waiting)

    def _line_for(self, waiting: PendingWorkload) -> PendingQueue:
        local_queue = waiting.local_queue
        self._line_of[waiting.key] = local_queue
        line = self._lines.get(local_queue)
        if line is None:
            line = self._lines[local_queue] = PendingQueue(is_strict=self._is_strict, unfit=self._unfit)
        return line

    def _line_with(self, key: ObjectKey) -> PendingQueue | None:
        local_queue = self._line_of.get(key)
        return self._lines.get(local_queue) if local_queue is not None else None
