"""Waiting workloads that ask for the same thing: what one of them hears, all of them would (quota-engine 11).

A full queue is mostly made of many workloads of few kinds. So they are put to sleep, woken and given a verdict as one,
and not one by one: that takes as long for a hundred thousand as for ten.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.waiting import Waiting
from multikueue.quota.workload.ordering import Rank
from multikueue.quota.workload.outcome import Verdict

_SLACK = 16


class Half:
    """Those of a crowd that are awake, or those asleep: by key, and in order.

    Who leaves out of order keeps a place in the heap until that comes to the top, or such places are too many.
    """

    __slots__ = ("_heap", "members")

    def __init__(self) -> None:
        self.members: dict[ObjectKey, Waiting] = {}
        self._heap: list[tuple[Rank, ObjectKey]] = []

    def put(self, waiting: Waiting) -> None:
        self.members[waiting.key] = waiting
        heappush(self._heap, (waiting.rank, waiting.key))
        if len(self._heap) > 2 * len(self.members) + _SLACK:
            self._heap = [(each.rank, each.key) for each in self.members.values()]
            heapify(self._heap)

    def top(self) -> Waiting | None:
        while self._heap:
            rank, key = self._heap[0]
            waiting = self.members.get(key)
            if waiting is not None and waiting.rank == rank:
                return waiting
            heappop(self._heap)
        return None

    def in_order(self) -> Iterator[Waiting]:
        """One after the other, as far as somebody wants to know: nothing is sorted for those behind."""
        ahead = [(*place, 0) for place in self._heap[:1]]
        last: Waiting | None = None
        while ahead:
            rank, key, index = heappop(ahead)
            for child in range(2 * index + 1, min(2 * index + 3, len(self._heap))):
                heappush(ahead, (*self._heap[child], child))
            waiting = self.members.get(key)
            if waiting is not None and waiting.rank == rank and waiting is not last:
                last = waiting  # who left and came back has two places, one behind the other
                yield waiting

    def joined(self, other: Half) -> Half:
        """Both as one; takes as long as the smaller of them is."""
        large, small = (self, other) if len(self.members) >= len(other.members) else (other, self)
        for waiting in small.members.values():
            large.put(waiting)
        return large


class Crowd:
    """Those of one queue that ask for the same. `common` is what all have heard last, but for the `_others`."""

    __slots__ = ("_others", "ask", "asleep", "awake", "common", "namespace", "offered")

    def __init__(self, ask: Hashable, namespace: str) -> None:
        self.ask, self.namespace = ask, namespace
        self.awake, self.asleep = Half(), Half()
        self.common: Verdict | None = None
        self._others: set[ObjectKey] = set()
        self.offered: tuple[Rank, ObjectKey] | None = None
        """The place of its head among the heads of all crowds, as last noted by the queue."""

    @property
    def is_empty(self) -> bool:
        return not self.awake.members and not self.asleep.members

    def get(self, key: ObjectKey) -> Waiting | None:
        return self.awake.members.get(key) or self.asleep.members.get(key)

    def verdict(self, waiting: Waiting) -> Verdict | None:
        return waiting.verdict if waiting.key in self._others else self.common

    def join(self, waiting: Waiting, *, awake: bool) -> None:
        (self.awake if awake else self.asleep).put(waiting)
        self._note(waiting, waiting.verdict)

    def replace(self, waiting: Waiting) -> None:
        """The same workload as seen later: it keeps its place and what it has heard."""
        half = self.awake if waiting.key in self.awake.members else self.asleep
        waiting.verdict = self.verdict(half.members[waiting.key])
        half.members[waiting.key] = waiting

    def leave(self, key: ObjectKey) -> Waiting:
        half = self.awake if key in self.awake.members else self.asleep
        waiting = half.members.pop(key)
        waiting.verdict = self.verdict(waiting)
        self._others.discard(key)
        return waiting

    def rouse(self) -> None:
        """All are awake."""
        self.awake, self.asleep = self.awake.joined(self.asleep), Half()

    def hush(self, verdict: Verdict) -> list[ObjectKey]:
        """All who were awake hear the verdict and sleep; those to whom it is new."""
        news = self._tell_awake(verdict)
        self.awake, self.asleep = Half(), self.asleep.joined(self.awake)
        return news

    def hush_one(self, waiting: Waiting, verdict: Verdict) -> bool:
        """The same for one of them; whether the verdict was new to it."""
        is_new = self.verdict(waiting) != verdict
        self.asleep.put(self.awake.members.pop(waiting.key))
        self._note(waiting, verdict)
        return is_new

    def _tell_awake(self, verdict: Verdict) -> list[ObjectKey]:
        if verdict == self.common:
            return [each.key for each in self._others_awake() if self._tell(each, verdict)]
        if len(self.awake.members) <= len(self.asleep.members):
            return [each.key for each in tuple(self.awake.members.values()) if self._tell(each, verdict)]
        apart = [each for each in self._others_awake() if each.verdict == verdict]
        self._others.difference_update(self.awake.members)
        for waiting in self.asleep.members.values():
            self._note(waiting, self.verdict(waiting), common=verdict)
        self.common = verdict
        known = {each.key for each in apart}
        return [key for key in self.awake.members if key not in known] if known else list(self.awake.members)

    def _others_awake(self) -> list[Waiting]:
        awake = self.awake.members
        if len(self._others) < len(awake):
            return [awake[key] for key in self._others if key in awake]
        return [each for each in awake.values() if each.key in self._others]

    def _tell(self, waiting: Waiting, verdict: Verdict) -> bool:
        is_new = self.verdict(waiting) != verdict
        self._note(waiting, verdict)
        return is_new

    def _note(self, waiting: Waiting, verdict: Verdict | None, *, common: Verdict | None = None) -> None:
        waiting.verdict = verdict
        if verdict == (common or self.common):
            self._others.discard(waiting.key)
        else:
            self._others.add(waiting.key)

    def __iter__(self) -> Iterator[Waiting]:
        yield from self.awake.members.values()
        yield from self.asleep.members.values()
