"""Preemption by priority and by who borrows: the search without fair sharing (quota-engine 3.5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import repeat
from operator import itemgetter

from multikueue.quota.cache.tree import FlavorResource, Node, UndoLog
from multikueue.quota.cache.usage import Holding, Rank
from multikueue.quota.preemption.candidates import Claim, Holders, Target, fill_back, of_queue
from multikueue.quota.workload.outcome import Cause


@dataclass(frozen=True, slots=True)
class _Lot:
    """Those of one queue who may be asked to go, in their order.

    `shared` is the lowest cohort that the head and the queue have in common; None: it is the head's own queue. With an
    `advantage` what the queue borrows belongs to the head's side.
    """

    queue: Node
    holdings: Sequence[Holding]
    shared: Node | None = None
    advantage: bool = False

    def amount(self, fr: FlavorResource) -> int:
        return sum(holding.amounts.get(fr, 0) for holding in self.holdings)

    def borrows(self, short: Iterable[FlavorResource]) -> bool:
        """Whether it is still there to be taken from: no part of the tree on its side lives on its own by now."""
        node = self.queue
        while self.shared is not None and node is not self.shared:
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
        self._advantaged: list[_Lot] = []
        self._others: list[_Lot] = []

    def run(self) -> list[Target]:
        own = self._lot(self._node, self._rules.within_cluster_queue)
        self._ask_cohorts()
        for borrowing in self._attempts():
            mark = self._log.mark()
            targets = self._attempt(own, borrowing=borrowing)
            if targets:
                return targets
            self._log.roll_back(mark)
        return []

    def _lot(self, queue: Node, policy: str, shared: Node | None = None, *, advantage: bool = False) -> list[_Lot]:
        """What a queue has to offer; an empty list if that is nothing."""
        holdings = list(of_queue(queue, policy, self._claim, self._holders))
        return [_Lot(queue, holdings, shared, advantage)] if holdings else []

    def _ask_cohorts(self) -> None:
        """Collect those outside of the queue, in ever larger cohorts.

        Once a cohort's own quota holds what is missing, those beyond it use what belongs here: an advantage.
        """
        policy = self._rules.reclaim_within_cohort
        if policy == "Never":
            return
        advantage, rest = self._node.fit(self._claim.needs)
        came_from = self._node
        for cohort in self._node.ancestors():
            found = self._advantaged if advantage else self._others
            for queue in self._borrowers(cohort, came_from):
                found += self._lot(queue, policy, cohort, advantage=advantage)
            fits, rest = cohort.fit(rest)
            advantage = advantage or fits
            came_from = cohort

    def _borrowers(self, cohort: Node, came_from: Node) -> Iterator[Node]:
        """The ClusterQueues below that borrow, in cohorts that do, except on the side we come from."""
        short = self._claim.short
        for child in cohort.children:
            if child is came_from or child.is_within_nominal(short):
                continue
            if child.is_queue:
                yield child
            else:
                yield from self._borrowers(child, came_from)

    def _attempts(self) -> tuple[bool, ...]:
        """Whether to try with borrowing, in order."""
        may_borrow = self._rules.borrow_within_cohort.policy != "Never"
        if not (self._advantaged or self._others) or not (may_borrow or self._is_below_nominal()):
            return (True,)
        return (True, False) if may_borrow or self._advantaged else (False, True)

    def _is_below_nominal(self) -> bool:
        cells = (self._node.cell(fr) for fr in self._claim.short)
        return all(cell.usage < cell.quota.nominal for cell in cells)

    def _attempt(self, own: list[_Lot], *, borrowing: bool) -> list[Target]:
        too_weak = borrowing and self._rules.borrow_within_cohort.policy == "Never"
        lists = [self._advantaged, [] if too_weak else self._others, own]
        if not self._is_enough(lists, own, borrowing=borrowing):
            return []
        targets: list[Target] = []
        fits = partial(self._claim.fits, borrowing=borrowing)
        for holding, lot in _in_going_order(lists):
            cause = self._cause(holding, lot)
            if (cause is None and borrowing) or not lot.borrows(self._claim.short):
                continue
            target = Target(holding, lot.queue, cause or Cause.RECLAIM)
            target.leave(self._log)
            targets.append(target)
            if fits():
                fill_back(targets, fits, self._log)
                return targets
        return []

    def _is_enough(self, lists: Iterable[list[_Lot]], own: list[_Lot], *, borrowing: bool) -> bool:
        """Whether it might fit if they all went; who goes frees no more here than what it uses. Mostly it does not, and
        this is much cheaper than to try."""
        lots = [lot for each in lists for lot in each]
        for fr, amount in self._claim.needs.items():
            cell = self._node.cell(fr)
            if cell.available() + sum(lot.amount(fr) for lot in lots) < amount:
                return False
            if not borrowing and cell.usage - sum(lot.amount(fr) for lot in own) + amount > cell.subtree:
                return False
        return True

    def _cause(self, holding: Holding, lot: _Lot) -> Cause | None:
        """What it is to be told; None: the head, too weak to borrow at its expense, must not while it takes its quota."""
        if lot.shared is None:
            return Cause.IN_QUEUE
        if lot.advantage:
            return Cause.RECLAIM
        return Cause.RECLAIM_WHILE_BORROWING if self._may_borrow_from(holding) else None

    def _may_borrow_from(self, holding: Holding) -> bool:
        rule = self._rules.borrow_within_cohort
        if rule.policy == "Never" or holding.priority >= self._claim.priority:
            return False
        return rule.max_priority_threshold is None or holding.priority <= rule.max_priority_threshold


def _in_going_order(lists: Iterable[list[_Lot]]) -> Iterator[tuple[Holding, _Lot]]:
    """The lists one after the other, each in going order; but those who go anyhow before all. One at a time: few are
    ever asked."""
    for goes_anyhow in (True, False):
        for lots in lists:
            parts = [_part(lot, goes_anyhow=goes_anyhow) for lot in lots]
            yield from ((holding, lot) for _, holding, lot in merge(*parts, key=itemgetter(0)))


def _part(lot: _Lot, *, goes_anyhow: bool) -> Iterator[tuple[Rank, Holding, _Lot]]:
    """In going order; but those of one queue in the order in which it offers them, which may be another."""
    going = [holding for holding in lot.holdings if holding.evicted is goes_anyhow]
    return zip(sorted(holding.departure for holding in going), going, repeat(lot))
