"""Preemption by priority and by who borrows: the search without fair sharing (quota-engine 3.5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from multikueue.quota.candidates import Cause, Claim, Holders, Target, fill_back, going_order, of_queue
from multikueue.quota.tree import FlavorResource, Node, UndoLog
from multikueue.quota.usage import Holding


@dataclass(frozen=True, slots=True)
class _Candidate:
    """`shared` is the lowest cohort that the head and the candidate have in common; None: they are in one queue.

    A head that is too weak to borrow at the candidate's expense `may_not_borrow` while it takes its quota.
    """

    target: Target
    shared: Node | None = None
    may_not_borrow: bool = False

    def borrows(self, short: Iterable[FlavorResource]) -> bool:
        """Whether it is still there to be taken from: no part of the tree on its side lives on its own by now."""
        if self.shared is None:
            return True
        node = self.target.node
        while node is not self.shared:
            if node.is_within_nominal(short):
                return False
            assert node.parent is not None, "the shared cohort is above"
            node = node.parent
        return True


def classical_targets(claim: Claim, holders: Holders, log: UndoLog) -> list[Target]:
    """Those to be evicted so that the claim is met; none if it cannot be. What is changed in the tree is in `log`."""
    return _Search(claim, holders, log).run()


class _Search:
    def __init__(self, claim: Claim, holders: Holders, log: UndoLog) -> None:
        self._claim, self._holders, self._log = claim, holders, log
        self._node = claim.node
        self._rules = claim.queue.spec.preemption
        self._advantaged: list[_Candidate] = []
        self._others: list[_Candidate] = []

    def run(self) -> list[Target]:
        same = [_Candidate(Target(each, self._node, Cause.IN_QUEUE)) for each in self._in_queue()]
        self._ask_cohorts()
        candidates = _in_going_order(self._advantaged, self._others, same)
        for borrowing in self._attempts():
            mark = self._log.mark()
            targets = self._attempt(candidates, borrowing=borrowing)
            if targets:
                return targets
            self._log.roll_back(mark)
        return []

    def _in_queue(self) -> Iterator[Holding]:
        return of_queue(self._node, self._rules.within_cluster_queue, self._claim, self._holders)

    def _ask_cohorts(self) -> None:
        """Collect those outside of the queue, in ever larger cohorts.

        Once a cohort's own quota holds what is missing, those beyond it use what belongs here: an advantage.
        """
        if self._rules.reclaim_within_cohort == "Never":
            return
        advantage, rest = self._node.fit(self._claim.needs)
        came_from = self._node
        for cohort in self._node.ancestors():
            found = self._advantaged if advantage else self._others
            for queue in self._borrowers(cohort, came_from):
                for holding in of_queue(queue, self._rules.reclaim_within_cohort, self._claim, self._holders):
                    found.append(self._outsider(holding, queue, cohort, advantage=advantage))
            fits, rest = cohort.fit(rest)
            advantage = advantage or fits
            came_from = cohort

    def _borrowers(self, cohort: Node, came_from: Node) -> Iterator[Node]:
        """The ClusterQueues below that borrow, in cohorts that do, except on the side we come from."""
        for child in cohort.children:
            if child is came_from or child.is_within_nominal(self._claim.short):
                continue
            if child.is_queue:
                yield child
            else:
                yield from self._borrowers(child, came_from)

    def _outsider(self, holding: Holding, queue: Node, cohort: Node, *, advantage: bool) -> _Candidate:
        while_borrowing = not advantage and self._may_borrow_from(holding)
        cause = Cause.RECLAIM_WHILE_BORROWING if while_borrowing else Cause.RECLAIM
        return _Candidate(Target(holding, queue, cause), cohort, may_not_borrow=not (advantage or while_borrowing))

    def _may_borrow_from(self, holding: Holding) -> bool:
        rule = self._rules.borrow_within_cohort
        if rule.policy == "Never" or holding.priority >= self._claim.priority:
            return False
        return rule.max_priority_threshold is None or holding.priority <= rule.max_priority_threshold

    def _attempts(self) -> tuple[bool, ...]:
        """Whether to try with borrowing, in order."""
        may_borrow = self._rules.borrow_within_cohort.policy != "Never"
        if not (self._advantaged or self._others) or not (may_borrow or self._is_below_nominal()):
            return (True,)
        return (True, False) if may_borrow or self._advantaged else (False, True)

    def _is_below_nominal(self) -> bool:
        cells = (self._node.cell(fr) for fr in self._claim.short)
        return all(cell.usage < cell.quota.nominal for cell in cells)

    def _attempt(self, candidates: Iterable[_Candidate], *, borrowing: bool) -> list[Target]:
        targets: list[Target] = []
        fits = partial(self._claim.fits, borrowing=borrowing)
        for candidate in candidates:
            if (borrowing and candidate.may_not_borrow) or not candidate.borrows(self._claim.short):
                continue
            candidate.target.leave(self._log)
            targets.append(candidate.target)
            if fits():
                fill_back(targets, fits, self._log)
                return targets
        return []


def _in_going_order(*lists: Sequence[_Candidate]) -> list[_Candidate]:
    """The lists one after the other, each in its order; but those who go anyhow before all."""
    ordered = [each for found in lists for each in _by_turns(found)]
    return sorted(ordered, key=lambda each: not each.target.holding.evicted)


def _by_turns(found: Sequence[_Candidate]) -> Iterator[_Candidate]:
    """In going order; but those of one queue in the order in which it offers them, which may be another."""
    offers: dict[Node, deque[_Candidate]] = {}
    for each in found:
        offers.setdefault(each.target.node, deque()).append(each)
    for each in sorted(found, key=_going_order):
        yield offers[each.target.node].popleft()


def _going_order(candidate: _Candidate) -> tuple[bool, bool, int, float, str]:
    return going_order(candidate.target.holding, own=candidate.shared is None)
