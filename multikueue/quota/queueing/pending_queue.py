"""The queue of one ClusterQueue: active and inadmissible workloads (quota-engine 2.2, 2.3).

A cycle is one synchronous step, so nothing can happen between taking a head and giving it back: Kueue's in-flight slot
and its race rule have no counterpart here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator
from datetime import datetime
from heapq import heapify, heappop, heappush, merge
from operator import attrgetter

from multikueue.api.meta import ObjectKey
from multikueue.quota.queueing.equivalence_class import EquivalenceClass
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.workload.ordering import Rank
from multikueue.quota.workload.outcome import Verdict

_TRIED_AGAIN = (Reason.FAILED_AFTER_NOMINATION, Reason.PENDING_PREEMPTION)
"""Reasons with which a head stays active under BestEffortFIFO (quota-engine 2.2)."""

_SLACK = 16
"""Outdated entries that even a small heap may have before it is built again."""

_rank = attrgetter("rank")


class PendingQueue:
    """The pending workloads of one ClusterQueue. Owned by the queue manager.

    Workloads that ask for the same form an `EquivalenceClass`. The active ones are to be looked at, the inadmissible
    ones are parked until something changes. Workloads in back-off are parked one by one.

    A workload with preemption targets stays the head until it leaves, whatever comes: otherwise the targets would have
    gone for nothing. With StrictFIFO that needs no rule.

    `unfit` are the shapes of which a head fitted nowhere since the last flush, with its verdict. Other queues of the same
    ClusterQueue may share it.
    """

    def __init__(self, *, is_strict: bool = False, unfit: dict[Hashable, Verdict] | None = None) -> None:
        self.is_strict = is_strict
        self._unfit: dict[Hashable, Verdict] = {} if unfit is None else unfit
        self._held: dict[ObjectKey, PendingWorkload] = {}
        self._classes: dict[Hashable, EquivalenceClass] = {}
        self._alike: dict[Hashable, dict[Hashable, EquivalenceClass]] = {}
        self._class_of: dict[ObjectKey, EquivalenceClass] = {}
        self._heads: list[tuple[Rank, ObjectKey, int, EquivalenceClass]] = []
        self._offers = 0
        self._favoured: ObjectKey | None = None

    @property
    def size(self) -> int:
        return len(self._class_of) + len(self._held)

    @property
    def inadmissible(self) -> int:
        """The number of workloads that are inadmissible or in back-off."""
        return len(self._held) + sum(
            len(equivalence_class.inadmissible.members) for equivalence_class in self._classes.values()
        )

    def push_or_update(self, waiting: PendingWorkload, now: datetime) -> bool:
        """Add or update a pending workload. Returns whether there is something new to look at."""
        known = self._get(waiting.key)
        if known is None:
            return self._enter(waiting, now)
        is_active = self.is_active(waiting.key)
        waiting.verdict = self.verdict(known)
        if known.is_same_for_queue(waiting) and not (is_active and known.rank != waiting.rank):
            self._replace(known, waiting, is_active=is_active)
            return False
        self._take(waiting.key)
        return self._place(waiting, is_active=True) if is_active else self._enter(waiting, now)

    def _enter(self, waiting: PendingWorkload, now: datetime) -> bool:
        """A workload that was not active. One that fits nowhere, as far as is known, is parked with that verdict."""
        may_queue = waiting.may_queue(now)
        verdict = self._unfit.get(waiting.shape()) if self._unfit and may_queue and not self.is_strict else None
        if verdict is None:
            return self._place(waiting, is_active=may_queue)
        waiting.verdict = verdict
        self._join(waiting, is_active=False)
        return False

    def give_back(self, waiting: PendingWorkload, reason: Reason, now: datetime) -> None:
        """Put a head back after a cycle: active again, or parked."""
        if reason is Reason.PENDING_PREEMPTION and not self.is_strict:
            self._favoured = waiting.key
        if self.is_active(waiting.key):
            return
        self._take(waiting.key)
        if not waiting.may_queue(now):
            self._held[waiting.key] = waiting
        else:
            self._join(waiting, is_active=self._should_try_at_once(waiting, reason))

    def _should_try_at_once(self, waiting: PendingWorkload, reason: Reason) -> bool:
        if self.is_strict:  # no workload may pass the head, but for one that no free quota would help
            return reason is not Reason.NAMESPACE_MISMATCH
        return waiting.progress is not None or reason in _TRIED_AGAIN

    def mark_inadmissible(self, waiting: PendingWorkload, verdict: Verdict) -> list[ObjectKey]:
        """Park the workloads of its class right behind a head that was just parked: they would get the same verdict.

        Returns the keys of those to which the verdict is new.
        """
        equivalence_class = self._class_of.get(waiting.key)
        follower = self.top()
        if equivalence_class is None or self.is_active(waiting.key) or follower is None:
            return []
        if self._class_of[follower.key] is not equivalence_class:
            return []
        until = self._next_to(equivalence_class)
        if until is None or until[0] > waiting.rank[0]:
            return equivalence_class.mark_inadmissible(verdict)
        news = []
        while (each := equivalence_class.active.top()) and each.rank < until:
            if equivalence_class.mark_one_inadmissible(each, verdict):
                news.append(each.key)
        self._offer(equivalence_class)
        return news

    def _next_to(self, equivalence_class: EquivalenceClass) -> Rank | None:
        """The rank of the first head of another class. The offer of this class is withdrawn meanwhile."""
        equivalence_class.offered = None
        while self._heads:
            rank, key, _, other = self._heads[0]
            if other is not equivalence_class and self._is_head(other, rank, key):
                return rank
            self._drop_offer()
        return None

    def park_alike(self, waiting: PendingWorkload, verdict: Verdict) -> list[ObjectKey]:
        """Park all that ask for the same as a head that fits nowhere, and who asks for the same until the next flush.

        Returns the keys of those to which the verdict is new.
        """
        if self.is_strict or self.is_active(waiting.key):
            return []
        shape = waiting.shape()
        self._unfit[shape] = verdict
        alike = self._alike.get(shape, {}).values()
        return [key for each in alike if each.active.members for key in each.mark_inadmissible(verdict)]

    def unpark(self, key: ObjectKey, now: datetime) -> None:
        """The back-off of a parked workload is over."""
        if not self.is_active(key) and (waiting := self._take(key)):
            self._enter(waiting, now)

    def activate(self, key: ObjectKey) -> None:
        """Make one parked workload active, whatever its back-off."""
        if not self.is_active(key) and (waiting := self._take(key)):
            self._join(waiting, is_active=True)

    def flush(self, now: datetime, is_selected: Callable[[str], bool]) -> None:
        """Make all parked workloads active, except those in back-off or in namespaces that are not selected."""
        self._unfit.clear()
        for waiting in [
            each for each in self._held.values() if each.may_queue(now) and is_selected(each.key.namespace)
        ]:
            del self._held[waiting.key]
            self._join(waiting, is_active=True)
        for equivalence_class in self._classes.values():
            if equivalence_class.inadmissible.members and is_selected(equivalence_class.namespace):
                equivalence_class.requeue_inadmissible()
                self._offer(equivalence_class)

    def remove(self, key: ObjectKey) -> None:
        self._take(key)
        if self._favoured == key:
            self._favoured = None

    def top(self) -> PendingWorkload | None:
        """The head, left in place."""
        if self._favoured is not None and self.is_active(self._favoured):
            return self._get(self._favoured)
        while self._heads:
            rank, key, _, equivalence_class = self._heads[0]
            if self._is_head(equivalence_class, rank, key):
                return equivalence_class.active.top()
            self._drop_offer()  # left behind by a removal, a favour or a change of rank
        return None

    def pop(self) -> PendingWorkload | None:
        head = self.top()
        return self._take(head.key) if head is not None else None

    def verdict(self, waiting: PendingWorkload) -> Verdict | None:
        """The last verdict of the workload."""
        equivalence_class = self._class_of.get(waiting.key)
        return equivalence_class.verdict(waiting) if equivalence_class is not None else waiting.verdict

    def __iter__(self) -> Iterator[PendingWorkload]:
        for equivalence_class in self._classes.values():
            yield from equivalence_class
        yield from self._held.values()

    def in_order(self) -> Iterator[PendingWorkload]:
        """In queue order; valid until something changes. Lazy: what the caller does not ask for is not sorted."""
        favoured = self._get(self._favoured) if self._favoured is not None else None
        if favoured is not None:
            yield favoured
        heaps = (
            heap.in_order()
            for equivalence_class in self._classes.values()
            for heap in (equivalence_class.active, equivalence_class.inadmissible)
        )
        for waiting in merge(*heaps, sorted(self._held.values(), key=_rank), key=_rank):
            if waiting is not favoured:
                yield waiting

    def places_of(self, local_queue: ObjectKey) -> Iterator[tuple[PendingWorkload, int]]:
        """The workloads of a LocalQueue in queue order, each with its place among all, from 0 on. Valid until something
        changes. Only their own are put in order: of the others the ranks are sorted, or nothing is if there are none."""
        own = sorted((waiting for waiting in self if waiting.local_queue == local_queue), key=_rank)
        if not own:
            return
        favoured = self._get(self._favoured) if self._favoured is not None else None
        ranks = sorted(waiting.rank for waiting in self if waiting is not favoured)
        if favoured is not None and favoured.local_queue == local_queue:
            yield favoured, 0
        for waiting in own:
            if waiting is not favoured:
                yield waiting, bisect_left(ranks, waiting.rank) + (favoured is not None)

    def inadmissible_workloads(self) -> Iterator[PendingWorkload]:
        """The parked workloads, in no order."""
        for equivalence_class in self._classes.values():
            yield from equivalence_class.inadmissible.members.values()
        yield from self._held.values()

    # --- places ---

    def _get(self, key: ObjectKey) -> PendingWorkload | None:
        equivalence_class = self._class_of.get(key)
        return equivalence_class.get(key) if equivalence_class is not None else self._held.get(key)

    def is_active(self, key: ObjectKey) -> bool:
        """Whether a cycle is to look at the workload."""
        equivalence_class = self._class_of.get(key)
        return equivalence_class is not None and key in equivalence_class.active.members

    def _place(self, waiting: PendingWorkload, *, is_active: bool) -> bool:
        if is_active:
            self._join(waiting, is_active=True)
        else:
            self._held[waiting.key] = waiting
        return is_active

    def _replace(self, known: PendingWorkload, waiting: PendingWorkload, *, is_active: bool) -> None:
        """An update that changes nothing for the queue."""
        waiting.progress = known.progress
        equivalence_class = self._class_of.get(waiting.key)
        if equivalence_class is None:
            self._held[waiting.key] = waiting
        elif known.rank == waiting.rank and equivalence_class is self._classes.get(waiting.ask()):
            equivalence_class.replace(waiting)
        else:
            self._take(waiting.key)
            self._join(waiting, is_active=is_active)

    def _join(self, waiting: PendingWorkload, *, is_active: bool) -> None:
        ask = waiting.ask()
        equivalence_class = self._classes.get(ask)
        if equivalence_class is None:
            equivalence_class = EquivalenceClass(ask, waiting.key.namespace, waiting.shape())
            self._classes[ask] = self._alike.setdefault(equivalence_class.shape, {})[ask] = equivalence_class
        self._class_of[waiting.key] = equivalence_class
        equivalence_class.join(waiting, is_active=is_active)
        if is_active:
            self._offer(equivalence_class)

    def _take(self, key: ObjectKey) -> PendingWorkload | None:
        equivalence_class = self._class_of.pop(key, None)
        if equivalence_class is None:
            return self._held.pop(key, None)
        waiting = equivalence_class.leave(key)
        if equivalence_class.is_empty:
            self._forget(equivalence_class)
        else:
            self._offer(equivalence_class)
        return waiting

    def _forget(self, equivalence_class: EquivalenceClass) -> None:
        ask, shape = equivalence_class.ask, equivalence_class.shape
        del self._classes[ask], self._alike[shape][ask]
        if not self._alike[shape]:
            del self._alike[shape]

    # --- the heads of all classes ---

    def _offer(self, equivalence_class: EquivalenceClass) -> None:
        """Make sure that the head of the class is among the heads."""
        head = equivalence_class.active.top()
        if head is None or equivalence_class.offered == (head.rank, head.key):
            return
        equivalence_class.offered = head.rank, head.key
        self._offers += 1
        heappush(self._heads, (head.rank, head.key, self._offers, equivalence_class))
        if len(self._heads) > 2 * len(self._classes) + _SLACK:
            self._heads = [(*each.offered, n, each) for n, each in enumerate(self._classes.values()) if each.offered]
            heapify(self._heads)

    def _is_head(self, equivalence_class: EquivalenceClass, rank: Rank, key: ObjectKey) -> bool:
        head = equivalence_class.active.top()
        return equivalence_class.offered == (rank, key) and head is not None and head.key == key and head.rank == rank

    def _drop_offer(self) -> None:
        rank, key, _, equivalence_class = heappop(self._heads)
        if equivalence_class.offered == (rank, key):
            equivalence_class.offered = None
