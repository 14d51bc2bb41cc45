"""Preemption under fair sharing: the queue with the largest share gives first (quota-engine 3.6)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial

import msgspec

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.shares import Share, share
from multikueue.quota.cache.tree import Node, UndoLog
from multikueue.quota.preemption.candidates import (
    Holders,
    PreemptionRequest,
    Target,
    candidate_order,
    fill_back,
    of_queue,
)
from multikueue.quota.workload.outcome import Cause

FINAL_SHARE = "LessThanOrEqualToFinalShare"
INITIAL_SHARE = "LessThanInitialShare"

Strategy = Callable[[Share, Share, Share], bool]
"""Whether a workload may be preempted, from the share of the head's side with the head, and the share of the other side
before and after."""

_STRATEGIES: dict[str, Strategy] = {
    FINAL_SHARE: lambda ours, _before, after: ours <= after,
    INITIAL_SHARE: lambda ours, before, _after: ours < before,
}


class FairPreemption(msgspec.Struct, frozen=True):
    """Fair sharing is on. `strategies` are tried in this order: one of the two, or both."""

    strategies: tuple[str, ...] = (FINAL_SHARE, INITIAL_SHARE)


CandidatesByQueue = dict[Node, deque[Reservation]]
"""The candidates by queue, in order of eviction; only queues that have some."""


def fair_targets(
    request: PreemptionRequest,
    holders: Holders,
    rules: FairPreemption,
    log: UndoLog,
    compatibility: Compatibility = NEWEST,
) -> list[Target]:
    """The targets to evict so that the request fits; none if it cannot. `log` has the changes in the tree."""
    candidates = _candidates(request, holders)
    if not candidates:
        return []
    return _Search(request, rules, log, compatibility).run(candidates)


def _candidates(request: PreemptionRequest, holders: Holders) -> CandidatesByQueue:
    node, rules = request.node, request.queue.spec.preemption
    candidates = {node: deque(of_queue(node, rules.within_cluster_queue, request, holders))}
    if rules.reclaim_within_cohort != "Never":
        *_, root = node, *node.ancestors()
        for queue in _queues(root):
            if queue is not node and not queue.is_within_nominal(request.short):
                candidates[queue] = deque(of_queue(queue, rules.reclaim_within_cohort, request, holders))
    return {queue: offered for queue, offered in candidates.items() if offered}


def _queues(node: Node) -> Iterator[Node]:
    if node.is_queue:
        yield node
    for child in node.children:
        yield from _queues(child)


class _Search:
    """The head's needs are in the tree during the search, so shares are those with the head."""

    def __init__(
        self, request: PreemptionRequest, rules: FairPreemption, log: UndoLog, compatibility: Compatibility
    ) -> None:
        self._request, self._rules, self._log, self._compatibility = request, rules, log, compatibility
        self._node = request.node
        self._targets: list[Target] = []
        self._left: CandidatesByQueue = {}

    def run(self, candidates: CandidatesByQueue) -> list[Target]:
        self._node.add(self._request.needs, self._log)
        first, *more = self._rules.strategies
        if not self._by_first(candidates, _STRATEGIES[first]) and not (more and self._by_second()):
            return []
        self._node.remove(self._request.needs, self._log)
        fill_back(self._targets, partial(self._request.can_fit, may_borrow=True), self._log)
        return self._targets

    def _by_first(self, candidates: CandidatesByQueue, allows: Strategy) -> bool:
        """Take from the queue with the largest share while the strategy allows it. Candidates that it does not allow
        are left. What is the queue's own by its nominal quota it takes back from the borrowers."""
        takes_back = self._compatibility.is_fair_within_nominal and self._node.is_within_nominal(self._request.short)
        for queue in self._order(candidates):
            if queue is self._node:
                if self._take(candidates, queue, Cause.IN_QUEUE):
                    return True
                continue
            if takes_back:
                if self._take(candidates, queue, Cause.RECLAIM):
                    return True
                continue
            our_side, their_side = _sides(self._node, queue)
            ours, before = share(our_side), share(their_side)
            while queue in candidates:
                after = self._share_without(candidates[queue][0], queue, their_side)
                if allows(ours, before, after):
                    if self._take(candidates, queue, Cause.FAIR_SHARING):
                        return True
                    break  # another queue may have the largest share now
                self._left.setdefault(queue, deque()).append(_pop(candidates, queue))
        return False

    def _by_second(self) -> bool:
        """Take one of the candidates left from each queue whose share is still larger than the head's.

        Only one: this strategy compares shares as they were before (KEP 1714), so it does not see how much of its share a
        queue has lost already.
        """
        for queue in self._order(self._left):
            our_side, their_side = _sides(self._node, queue)
            if share(our_side) < share(their_side) and self._take(self._left, queue, Cause.FAIR_SHARING):
                return True
            self._left.pop(queue, None)
        return False

    def _order(self, candidates: CandidatesByQueue) -> _Order:
        return _Order(self._node, candidates, is_by_share=not self._compatibility.is_fair_by_flavor)

    def _take(self, candidates: CandidatesByQueue, queue: Node, cause: Cause) -> bool:
        """Take the first candidate of a queue. Returns whether the head fits now."""
        target = Target(_pop(candidates, queue), queue, cause)
        target.simulate_removal(self._log)
        self._targets.append(target)
        mark = self._log.mark()
        self._node.remove(self._request.needs, self._log)
        fits = self._request.can_fit(may_borrow=True)
        self._log.roll_back(mark)
        return fits

    def _share_without(self, reservation: Reservation, queue: Node, side: Node) -> Share:
        mark = self._log.mark()
        queue.remove(reservation.amounts, self._log)
        found = share(side)
        self._log.roll_back(mark)
        return found


def _pop(candidates: CandidatesByQueue, queue: Node) -> Reservation:
    reservation = candidates[queue].popleft()
    if not candidates[queue]:
        del candidates[queue]
    return reservation


def _sides(ours: Node, theirs: Node) -> tuple[Node, Node]:
    """The children of the lowest shared cohort that the two queues are below of, or are themselves."""
    below = {cohort: child for child, cohort in _steps(ours)}
    for child, cohort in _steps(theirs):
        if cohort in below:
            return below[cohort], child
    raise AssertionError("queues of one tree have a cohort in common")


def _steps(node: Node) -> Iterator[tuple[Node, Node]]:
    """The way up, as pairs of child and parent."""
    for cohort in node.ancestors():
        yield node, cohort
        node = cohort


class _Order:
    """The queues to take from, one at a time: down the tree to the largest share at that moment.

    Nodes that borrow nothing are out; with `is_by_share`, those without a share. Iteration ends when no candidates are left. A
    queue or cohort that is out stays out, whatever its share becomes.
    """

    def __init__(self, own: Node, candidates: CandidatesByQueue, *, is_by_share: bool) -> None:
        self._own, self._candidates, self._by_share = own, candidates, is_by_share
        self._way_up = frozenset(own.ancestors())
        self._out: set[Node] = set()

    def __iter__(self) -> Iterator[Node]:
        if self._own.parent is None:
            while self._own in self._candidates:
                yield self._own
            return
        *_, root = self._own.ancestors()
        while root not in self._out:
            queue = self._below(root)
            if queue is not None:
                yield queue

    def _below(self, cohort: Node) -> Node | None:
        queue, queue_share = self._largest_queue(cohort)
        inner, inner_share = self._largest_cohort(cohort)
        if inner is not None and (queue_share is None or (inner_share is not None and inner_share >= queue_share)):
            return self._below(inner)
        if queue is None:
            self._out.add(cohort)
        return queue

    def _largest_queue(self, cohort: Node) -> tuple[Node | None, Share | None]:
        best, best_share = None, None
        for queue in cohort.children:
            if not queue.is_queue or queue in self._out:
                continue
            its = share(queue)
            if queue not in self._candidates or (self._is_spared(queue, its) and queue is not self._own):
                self._out.add(queue)
            elif best is None or best_share is None or its > best_share:
                best, best_share = queue, its
            elif its == best_share and self._candidate_order(queue) < self._candidate_order(best):
                best = queue
        return best, best_share

    def _largest_cohort(self, cohort: Node) -> tuple[Node | None, Share | None]:
        best, best_share = None, None
        for inner in cohort.children:
            if inner.is_queue or inner in self._out:
                continue
            its = share(inner)
            if self._is_spared(inner, its) and inner not in self._way_up:
                self._out.add(inner)
            elif best_share is None or its >= best_share:
                best, best_share = inner, its
        return best, best_share

    def _is_spared(self, node: Node, its: Share) -> bool:
        return its.is_zero if self._by_share else not node.is_borrowing()

    def _candidate_order(self, queue: Node) -> tuple[bool, bool, int, float, str, ObjectKey]:
        return candidate_order(self._candidates[queue][0], is_own=queue is self._own)
