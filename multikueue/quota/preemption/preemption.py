"""The search for preemption targets, and the grade that a flavor gets from their existence."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from multikueue.api.kueue.compatibility import NEWEST, Compatibility
from multikueue.quota.cache.budgets import Allowance, unlimited
from multikueue.quota.cache.catalog import QueueSnapshot
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.cache.tree import Amounts, FlavorResource, UndoLog, subtree_that_fits
from multikueue.quota.preemption.candidates import Grade, Holders, Mode, PreemptionRequest, Target, are_within
from multikueue.quota.preemption.classical import classical_targets
from multikueue.quota.preemption.fair import FairPreemption, fair_targets
from multikueue.quota.queueing.pending_workload import PendingWorkload


def _nobody(_queue: str) -> Sequence[Reservation]:
    return ()


class PreemptionRules(msgspec.Struct, frozen=True):
    """The rules of preemption: by share with `fair`, else by priority and borrowing; how many workloads each queue may
    lose; and the switches of the release of Kueue that is followed."""

    holders: Holders = _nobody
    fair: FairPreemption | None = None
    allowance: Allowance = unlimited
    compatibility: Compatibility = NEWEST


NO_PREEMPTION = PreemptionRules()


def find_targets(request: PreemptionRequest, preemption: PreemptionRules) -> tuple[Target, ...]:
    """The targets to evict so that the request fits; none if it cannot. Usage is the same before and after.

    If some queue would lose more than its allowance, a second search takes no more candidates of each than that: others
    may do.
    """
    if preemption.compatibility.is_zero_ignored:
        request = replace(request, needs={fr: amount for fr, amount in request.needs.items() if amount})
    targets = _search(request, preemption)
    if are_within(preemption.allowance, *targets):
        return targets
    return _search(replace(request, allowance=preemption.allowance), preemption)


def _search(request: PreemptionRequest, preemption: PreemptionRules) -> tuple[Target, ...]:
    log = UndoLog()
    if preemption.fair is None:
        targets = classical_targets(request, preemption.holders, log)
    else:
        targets = fair_targets(request, preemption.holders, preemption.fair, log, preemption.compatibility)
    log.roll_back()
    return tuple(targets)


class Searches:
    """The searches for one head, on unchanged usage. Results are kept: the last search often repeats one of the
    oracle's."""

    def __init__(self, waiting: PendingWorkload, queue: QueueSnapshot, preemption: PreemptionRules) -> None:
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
        """The grade that evictions give one (flavor, resource) alone (`grade.Oracle`)."""
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
