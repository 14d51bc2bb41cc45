"""The queue of one ClusterQueue: those to be looked at, and those parked until something changes (2.2, 2.3).

A cycle is one synchronous step, so nothing can happen between taking a head and giving it back: Kueue's in-flight slot
and its race rule have no counterpart here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.crowd import Crowd
from multikueue.quota.queueing.waiting import Reason, Waiting
from multikueue.quota.workload.ordering import Rank
from multikueue.quota.workload.outcome import Verdict

_TRIED_AGAIN = (Reason.FAILED_AFTER_NOMINATION, Reason.PENDING_PREEMPTION)
_SLACK = 16
_rank = attrgetter("rank")


class PendingQueue:
    """Everything that waits in one ClusterQueue. Owned by the queue manager.

    Those that ask for the same stand together in a `Crowd`: those awake are to be looked at, those asleep are parked.
    Parked one by one are those in back-off.

    The workload for which others are being evicted stays the head until it leaves, whatever comes: else those would
    have gone for nothing. With StrictFIFO that needs no rule.
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self._held: dict[ObjectKey, Waiting] = {}
        self._crowds: dict[Hashable, Crowd] = {}
        self._crowd_of: dict[ObjectKey, Crowd] = {}
        self._heads: list[tuple[Rank, ObjectKey, int, Crowd]] = []
        self._offers = 0
        self._favoured: ObjectKey | None = None

    @property
    def size(self) -> int:
        return len(self._crowd_of) + len(self._held)

    @property
    def asleep(self) -> int:
        """How many are parked until something changes."""
        return len(self._held) + sum(len(crowd.asleep.members) for crowd in self._crowds.values())

    def push_or_update(self, waiting: Waiting, now: datetime) -> bool:
        """A pending workload was seen. Answers whether there is something new to look at."""
        known = self._get(waiting.key)
        if known is None:
            return self._place(waiting, awake=waiting.may_queue(now))
        is_awake = self.is_awake(waiting.key)
        waiting.verdict = self.verdict(known)
        if known.same_for_queue(waiting) and not (is_awake and known.rank != waiting.rank):
            self._replace(known, waiting, awake=is_awake)
            return False
        self._take(waiting.key)
        return self._place(waiting, awake=is_awake or waiting.may_queue(now))

    def give_back(self, waiting: Waiting, reason: Reason, now: datetime) -> None:
        """A head returns from a cycle: to be looked at again, or parked."""
        if reason is Reason.PENDING_PREEMPTION and not self.strict:
            self._favoured = waiting.key
        if self.is_awake(waiting.key):
            return
        self._take(waiting.key)
        if not waiting.may_queue(now):
            self._held[waiting.key] = waiting
        else:
            self._join(waiting, awake=self._at_once(waiting, reason))

    def _at_once(self, waiting: Waiting, reason: Reason) -> bool:
        if self.strict:
            return reason is not Reason.NAMESPACE_MISMATCH
        return waiting.progress is not None or reason in _TRIED_AGAIN

    def hush(self, waiting: Waiting, verdict: Verdict) -> list[ObjectKey]:
        """Those right behind a head that was just parked hear the same, if they ask for the same: they are parked too.

        Answers to whom that is new.
        """
        crowd = self._crowd_of.get(waiting.key)
        follower = self.top()
        if crowd is None or self.is_awake(waiting.key) or follower is None:
            return []
        if self._crowd_of[follower.key] is not crowd:
            return []
        until = self._next_to(crowd)
        if until is None or until[0] > waiting.rank[0]:
            return crowd.hush(verdict)
        news = []
        while (each := crowd.awake.top()) and each.rank < until:
            if crowd.hush_one(each, verdict):
                news.append(each.key)
        self._offer(crowd)
        return news

    def _next_to(self, crowd: Crowd) -> Rank | None:
        """The rank of the first head of another crowd. This one's offer is taken back meanwhile."""
        crowd.offered = None
        while self._heads:
            rank, key, _, other = self._heads[0]
            if other is not crowd and self._is_head(other, rank, key):
                return rank
            self._drop_offer()
        return None

    def unpark(self, key: ObjectKey) -> None:
        """Look at one parked workload again: its back-off is over."""
        if not self.is_awake(key) and (waiting := self._take(key)):
            self._join(waiting, awake=True)

    def flush(self, now: datetime, selected: Callable[[str], bool]) -> None:
        """Look again at all parked workloads, but those in back-off or of namespaces that are not selected."""
        for waiting in [each for each in self._held.values() if each.may_queue(now) and selected(each.key.namespace)]:
            del self._held[waiting.key]
            self._join(waiting, awake=True)
        for crowd in self._crowds.values():
            if crowd.asleep.members and selected(crowd.namespace):
                crowd.rouse()
                self._offer(crowd)

    def remove(self, key: ObjectKey) -> None:
        self._take(key)
        if self._favoured == key:
            self._favoured = None

    def top(self) -> Waiting | None:
        """The head, left in place."""
        if self._favoured is not None and self.is_awake(self._favoured):
            return self._get(self._favoured)
        while self._heads:
            rank, key, _, crowd = self._heads[0]
            if self._is_head(crowd, rank, key):
                return crowd.awake.top()
            self._drop_offer()  # left behind by a removal, a favour or a change of rank
        return None

    def pop(self) -> Waiting | None:
        head = self.top()
        return self._take(head.key) if head is not None else None

    def verdict(self, waiting: Waiting) -> Verdict | None:
        """What it was told last."""
        crowd = self._crowd_of.get(waiting.key)
        return crowd.verdict(waiting) if crowd is not None else waiting.verdict

    def __iter__(self) -> Iterator[Waiting]:
        for crowd in self._crowds.values():
            yield from crowd
        yield from self._held.values()

    def in_order(self) -> Iterator[Waiting]:
        """As long as nothing changes; what is not asked for is not sorted."""
        favoured = self._get(self._favoured) if self._favoured is not None else None
        if favoured is not None:
            yield favoured
        halves = (half.in_order() for crowd in self._crowds.values() for half in (crowd.awake, crowd.asleep))
        for waiting in merge(*halves, sorted(self._held.values(), key=_rank), key=_rank):
            if waiting is not favoured:
                yield waiting

    def sleeping(self) -> Iterator[Waiting]:
        """Those parked until something changes, in no order."""
        for crowd in self._crowds.values():
            yield from crowd.asleep.members.values()
        yield from self._held.values()

    # --- places ---

    def _get(self, key: ObjectKey) -> Waiting | None:
        crowd = self._crowd_of.get(key)
        return crowd.get(key) if crowd is not None else self._held.get(key)

    def is_awake(self, key: ObjectKey) -> bool:
        """Whether it is to be looked at."""
        crowd = self._crowd_of.get(key)
        return crowd is not None and key in crowd.awake.members

    def _place(self, waiting: Waiting, *, awake: bool) -> bool:
        if awake:
            self._join(waiting, awake=True)
        else:
            self._held[waiting.key] = waiting
        return awake

    def _replace(self, known: Waiting, waiting: Waiting, *, awake: bool) -> None:
        """An update of no consequence."""
        waiting.progress = known.progress
        crowd = self._crowd_of.get(waiting.key)
        if crowd is None:
            self._held[waiting.key] = waiting
        elif known.rank == waiting.rank and crowd is self._crowds.get(waiting.ask()):
            crowd.replace(waiting)
        else:
            self._take(waiting.key)
            self._join(waiting, awake=awake)

    def _join(self, waiting: Waiting, *, awake: bool) -> None:
        ask = waiting.ask()
        crowd = self._crowds.get(ask)
        if crowd is None:
            crowd = self._crowds[ask] = Crowd(ask, waiting.key.namespace)
        self._crowd_of[waiting.key] = crowd
        crowd.join(waiting, awake=awake)
        if awake:
            self._offer(crowd)

    def _take(self, key: ObjectKey) -> Waiting | None:
        crowd = self._crowd_of.pop(key, None)
        if crowd is None:
            return self._held.pop(key, None)
        waiting = crowd.leave(key)
        if crowd.is_empty:
            del self._crowds[crowd.ask]
        else:
            self._offer(crowd)
        return waiting

    # --- the heads of all crowds ---

    def _offer(self, crowd: Crowd) -> None:
        """See to it that its head is among the heads."""
        head = crowd.awake.top()
        if head is None or crowd.offered == (head.rank, head.key):
            return
        crowd.offered = head.rank, head.key
        self._offers += 1
        heappush(self._heads, (head.rank, head.key, self._offers, crowd))
        if len(self._heads) > 2 * len(self._crowds) + _SLACK:
            self._heads = [(*each.offered, n, each) for n, each in enumerate(self._crowds.values()) if each.offered]
            heapify(self._heads)

    def _is_head(self, crowd: Crowd, rank: Rank, key: ObjectKey) -> bool:
        head = crowd.awake.top()
        return crowd.offered == (rank, key) and head is not None and head.key == key and head.rank == rank

    def _drop_offer(self) -> None:
        rank, key, _, crowd = heappop(self._heads)
        if crowd.offered == (rank, key):
            crowd.offered = None
