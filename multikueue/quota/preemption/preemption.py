"""Who has to go so that a head fits, and what the mere chance of it is worth when flavors are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from multikueue.quota.cache.budgets import Allowance, unlimited
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.snapshot import QueueSnapshot
from multikueue.quota.cache.tree import Amounts, FlavorResource, UndoLog, subtree_that_fits
from multikueue.quota.preemption.candidates import Holders, PreemptionRequest, Target, are_within
from multikueue.quota.preemption.classical import classical_targets
from multikueue.quota.preemption.fair import FairSharing, fair_targets
from multikueue.quota.preemption.grade import Grade, Mode
from multikueue.quota.queueing.pending_workload import PendingWorkload


def _nobody(_queue: str) -> Sequence[Reservation]:
    return ()


@dataclass(frozen=True, slots=True)
class Preemption:
    """Who may be evicted, and by which rules: with `fair` sharing, or by priority and who borrows; and how many of each
    queue at most."""

    holders: Holders = _nobody
    fair: FairSharing | None = None
    allowance: Allowance = unlimited


NO_PREEMPTION = Preemption()


def find_targets(request: PreemptionRequest, preemption: Preemption) -> tuple[Target, ...]:
    """Those to be evicted so that the request is met; none if it cannot be. Usage is as before afterwards.

    Where these are more than some queue may lose, it is tried once more with so many candidates of each: others may do.
    """
    targets = _search(request, preemption)
    if are_within(preemption.allowance, *targets):
        return targets
    return _search(replace(request, allowance=preemption.allowance), preemption)


def _search(request: PreemptionRequest, preemption: Preemption) -> tuple[Target, ...]:
    log = UndoLog()
    if preemption.fair is None:
        targets = classical_targets(request, preemption.holders, log)
    else:
        targets = fair_targets(request, preemption.holders, preemption.fair, log)
    log.roll_back()
    return tuple(targets)


class Searches:
    """The searches for one head, on unchanged usage. The last one often repeats one of the oracle's."""

    def __init__(self, waiting: PendingWorkload, queue: QueueSnapshot, preemption: Preemption) -> None:
        self._waiting, self._queue, self._preemption = waiting, queue, preemption
        self._found: dict[tuple[frozenset[FlavorResource], frozenset[tuple[FlavorResource, int]]], tuple[Target, ...]]
        self._found = {}

    def targets(self, short: frozenset[FlavorResource], needs: Amounts) -> tuple[Target, ...]:
        question = short, frozenset(needs.items())
        found = self._found.get(question)
        if found is None:
            priority, since, _ = self._waiting.rank
            request = PreemptionRequest(-priority, since, self._queue, short, needs)
            found = self._found[question] = find_targets(request, self._preemption)
        return found

    def oracle(self, fr: FlavorResource, amount: int) -> Grade:
        """What evictions could do for one (flavor, resource) alone, as `flavors.Oracle`."""
        node = self._queue.node
        targets = self.targets(frozenset((fr,)), {fr: amount})
        log = UndoLog()
        for target in targets:
            target.simulate_removal(log)
        borrowing, _ = subtree_that_fits(node.cell(fr), amount)
        log.roll_back()
        if not targets:
            return Grade(Mode.NO_CANDIDATES, borrowing)
        inside = any(target.node is node for target in targets)
        return Grade(Mode.PREEMPT if inside else Mode.RECLAIM, borrowing)
