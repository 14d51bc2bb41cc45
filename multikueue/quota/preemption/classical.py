"""Preemption by priority and borrowing: the search without fair sharing (quota-engine 3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import repeat
from operator import itemgetter

import msgspec

from multikueue.quota.cache.reservations import EvictionRank, Reservation
from multikueue.quota.cache.tree import FlavorResource, Node, UndoLog
from multikueue.quota.preemption.candidates import Holders, PreemptionRequest, Target, fill_back, of_queue
from multikueue.quota.workload.outcome import Cause


class _CandidateGroup(msgspec.Struct, frozen=True):
    """The preemption candidates of one queue, in order of eviction.

    `shared` is the lowest cohort above both the head's queue and this one; None: it is the head's own queue. If it
    `has_advantage`, what the queue borrows belongs to the head's side.
    """

    queue: Node
    reservations: Sequence[Reservation]
    shared: Node | None = None
    has_advantage: bool = False

    def amount(self, fr: FlavorResource) -> int:
        return sum(reservation.amounts.get(fr, 0) for reservation in self.reservations)

    def is_borrowing(self, short: Iterable[FlavorResource]) -> bool:
        """Whether it still borrows: no node from the queue up to the shared cohort is within its own quota."""
        node = self.queue
        while self.shared is not None and node is not self.shared:
            if node.is_within_nominal(short):
                return False
            assert node.parent is not None, "the shared cohort is above"
            node = node.parent
        return True


def classical_targets(request: PreemptionRequest, holders: Holders, log: UndoLog) -> list[Target]:
    """The targets to evict so that the request fits; none if it cannot. `log` has the changes in the tree."""
    return _Search(request, holders, log).run()


class _Search:
    def __init__(self, request: PreemptionRequest, holders: Holders, log: UndoLog) -> None:
        self._request, self._holders, self._log = request, holders, log
        self._node = request.node
        self._rules = request.queue.spec.preemption
        self._advantaged: list[_CandidateGroup] = []
        self._others: list[_CandidateGroup] = []

    def run(self) -> list[Target]:
        own = self._group(self._node, self._rules.within_cluster_queue)
        self._ask_cohorts()
        for borrowing in self._attempts():
            mark = self._log.mark()
            targets = self._attempt(own, may_borrow=borrowing)
            if targets:
                return targets
            self._log.roll_back(mark)
        return []

    def _group(
        self, queue: Node, policy: str, shared: Node | None = None, *, has_advantage: bool = False
    ) -> list[_CandidateGroup]:
        """The candidate group of a queue; an empty list if it has no candidates."""
        reservations = list(of_queue(queue, policy, self._request, self._holders))
        return [_CandidateGroup(queue, reservations, shared, has_advantage)] if reservations else []

    def _ask_cohorts(self) -> None:
        """Collect candidates of other queues, in ever larger cohorts.

        Once a cohort's own quota holds what is missing, workloads beyond it use quota that belongs here: an advantage.
        """
        policy = self._rules.reclaim_within_cohort
        if policy == "Never":
            return
        advantage, rest = self._node.fit(self._request.needs)
        came_from = self._node
        for cohort in self._node.ancestors():
            found = self._advantaged if advantage else self._others
            for queue in self._borrowers(cohort, came_from):
                found += self._group(queue, policy, cohort, has_advantage=advantage)
            fits, rest = cohort.fit(rest)
            advantage = advantage or fits
            came_from = cohort

    def _borrowers(self, cohort: Node, came_from: Node) -> Iterator[Node]:
        """The borrowing ClusterQueues below, in borrowing cohorts, except on the side of the head."""
        short = self._request.short
        for child in cohort.children:
            if child is came_from or child.is_within_nominal(short):
                continue
            if child.is_queue:
                yield child
            else:
                yield from self._borrowers(child, came_from)

    def _attempts(self) -> tuple[bool, ...]:
        """The values of `may_borrow` to try, in order.

        A head that borrows may take only from those that `borrowWithinCohort` names, or on whose quota its side has
        an advantage; one that stays within nominal quota may reclaim from every borrower. Where the first is not open,
        the second is tried before it.
        """
        may_borrow = self._rules.borrow_within_cohort.policy != "Never"
        if not (self._advantaged or self._others) or not (may_borrow or self._is_below_nominal()):
            return (True,)
        return (True, False) if may_borrow or self._advantaged else (False, True)

    def _is_below_nominal(self) -> bool:
        cells = (self._node.cell(fr) for fr in self._request.short)
        return all(cell.usage < cell.quota.nominal for cell in cells)

    def _attempt(self, own: list[_CandidateGroup], *, may_borrow: bool) -> list[Target]:
        # No workload loses borrowed quota to a head that would borrow it too, unless borrowWithinCohort says so (KEP 1337).
        too_weak = may_borrow and self._rules.borrow_within_cohort.policy == "Never"
        lists = [self._advantaged, [] if too_weak else self._others, own]
        if not self._is_enough(lists, own, may_borrow=may_borrow):
            return []
        targets: list[Target] = []
        fits = partial(self._request.can_fit, may_borrow=may_borrow)
        for reservation, group in _in_candidate_order(lists):
            cause = self._cause(reservation, group)
            if (cause is None and may_borrow) or not group.is_borrowing(self._request.short):
                continue
            target = Target(reservation, group.queue, cause or Cause.RECLAIM)
            target.simulate_removal(self._log)
            targets.append(target)
            if fits():
                fill_back(targets, fits, self._log)
                return targets
        return []

    def _is_enough(
        self, lists: Iterable[list[_CandidateGroup]], own: list[_CandidateGroup], *, may_borrow: bool
    ) -> bool:
        """Whether the head might fit if all candidates went: a candidate frees no more here than it uses. Mostly it
        would not, and this is much cheaper than a search."""
        groups = [group for each in lists for group in each]
        for fr, amount in self._request.needs.items():
            cell = self._node.cell(fr)
            if cell.available() + sum(group.amount(fr) for group in groups) < amount:
                return False
            if not may_borrow and cell.usage - sum(group.amount(fr) for group in own) + amount > cell.subtree:
                return False
        return True

    def _cause(self, reservation: Reservation, group: _CandidateGroup) -> Cause | None:
        """The cause of the eviction; None: the head may not borrow while it takes this candidate's quota."""
        if group.shared is None:
            return Cause.IN_QUEUE
        if group.has_advantage:
            return Cause.RECLAIM
        return Cause.RECLAIM_WHILE_BORROWING if self._may_borrow_from(reservation) else None

    def _may_borrow_from(self, reservation: Reservation) -> bool:
        rule = self._rules.borrow_within_cohort
        if rule.policy == "Never" or reservation.priority >= self._request.priority:
            return False
        return rule.max_priority_threshold is None or reservation.priority <= rule.max_priority_threshold


def _in_candidate_order(lists: Iterable[list[_CandidateGroup]]) -> Iterator[tuple[Reservation, _CandidateGroup]]:
    """The lists one after the other, each in order of eviction, but evicted ones of all lists first: they stop anyway, so
    to choose them costs nothing. Lazy: few are ever needed."""
    for evicted in (True, False):
        for groups in lists:
            parts = [_part(group, is_evicted=evicted) for group in groups]
            yield from ((reservation, group) for _, reservation, group in merge(*parts, key=itemgetter(0)))


def _part(group: _CandidateGroup, *, is_evicted: bool) -> Iterator[tuple[EvictionRank, Reservation, _CandidateGroup]]:
    """The candidates of a queue as it offers them, beside their sorted ranks: with admission fair sharing the two
    orders differ."""
    going = [reservation for reservation in group.reservations if reservation.is_evicted is is_evicted]
    return zip(sorted(reservation.eviction_rank for reservation in going), going, repeat(group))
