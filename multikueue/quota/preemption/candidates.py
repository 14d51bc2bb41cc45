"""Preemption candidates of a head, the grade that preemption gives a flavor, and the eviction of each target.

Rules: quota-engine 3.5, 3.7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple

import msgspec

from multikueue.api.kueue.workload import JOB_UID_LABEL, Workload
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.budgets import Allowance, unlimited
from multikueue.quota.cache.catalog import QueueSnapshot
from multikueue.quota.cache.reservations import Reordered, Reservation
from multikueue.quota.cache.tree import Amounts, FlavorResource, Node, UndoLog
from multikueue.quota.workload.outcome import Cause, Eviction

Holders = Callable[[str], Sequence[Reservation]]
"""The workloads of a ClusterQueue that may be evicted, in order of eviction (`Reservation.eviction_rank`)."""


_IN_WORDS = {
    Cause.IN_QUEUE: "prioritization in the ClusterQueue",
    Cause.RECLAIM: "reclamation within the cohort",
    Cause.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
    Cause.FAIR_SHARING: "Fair Sharing within the cohort",
}


class PreemptionRequest(msgspec.Struct, frozen=True):
    """The needs of a head in its queue; `short` are those that are not available.

    Each queue loses at most its `allowance` of workloads, besides those that are evicted already.
    """

    priority: int
    since: datetime
    queue: QueueSnapshot
    short: frozenset[FlavorResource]
    needs: Amounts
    allowance: Allowance = unlimited

    @property
    def node(self) -> Node:
        return self.queue.node

    def can_fit(self, *, may_borrow: bool) -> bool:
        """Whether the needs fit at current usage; without `may_borrow`, within the queue's own quota."""
        for fr, amount in self.needs.items():
            cell = self.node.cell(fr)
            if amount > max(0, cell.available()) or not (may_borrow or not cell.is_borrowing_with(amount)):
                return False
        return True


class Target(msgspec.Struct, frozen=True):
    """A workload that is to be preempted, and its queue."""

    reservation: Reservation
    node: Node
    cause: Cause

    def simulate_removal(self, log: UndoLog) -> None:
        self.node.remove(self.reservation.amounts, log)

    def restore(self, log: UndoLog) -> None:
        self.node.add(self.reservation.amounts, log)


def of_queue(node: Node, policy: str, request: PreemptionRequest, holders: Holders) -> Iterator[Reservation]:
    """Preemption candidates of a queue: they use what the request is short of, and the policy allows to evict them."""
    if policy == "Never":
        return
    all_ = holders(node.name)
    by_priority = not isinstance(all_, Reordered)
    left = request.allowance(node.name)
    for reservation in all_:
        if by_priority and policy != "Any" and not reservation.is_evicted and reservation.priority > request.priority:
            return  # as are all that follow
        if reservation.is_protected and not reservation.is_evicted:
            continue
        gives = may_be_preempted(reservation, policy, priority=request.priority, since=request.since)
        if gives and not request.short.isdisjoint(reservation.amounts):
            left -= not reservation.is_evicted  # evicted ones come first, and are free
            if left < 0:
                return
            yield reservation


def may_be_preempted(reservation: Reservation, policy: str, *, priority: int, since: datetime) -> bool:
    """Whether a policy other than Never lets a head of that priority and queue time preempt it."""
    if policy == "Any" or reservation.priority < priority:
        return True
    newer_equal = policy == "LowerOrNewerEqualPriority" and reservation.priority == priority
    return newer_equal and reservation.since > since


def are_within(allowance: Allowance, *targets: Target) -> bool:
    """Whether no queue loses more workloads than its allowance."""
    new = Counter(target.node.name for target in targets if not target.reservation.is_evicted)
    return all(count <= allowance(queue) for queue, count in new.items())


def candidate_order(reservation: Reservation, *, is_own: bool) -> tuple[bool, bool, int, float, str, ObjectKey]:
    """The order of candidates of all queues: evicted ones, which stop anyway, then those of other queues, which use what
    is not theirs (quota-engine 3.5)."""
    stays, priority, late, uid, key = reservation.eviction_rank
    return stays, is_own, priority, late, uid, key


def fill_back(targets: list[Target], does_fit: Callable[[], bool], log: UndoLog) -> None:
    """Drop targets that turn out to be unnecessary, the last chosen first; the very last one is needed.

    As in Kueue, the last target takes the place of a dropped one: which set remains depends on that.
    """
    for index in range(len(targets) - 2, -1, -1):
        mark = log.mark()
        targets[index].restore(log)
        if does_fit():
            targets[index] = targets[-1]
            targets.pop()
        else:
            log.roll_back(mark)


def eviction(target: Target, preemptor: Workload, queue: Node) -> Eviction:
    """The eviction of a target, with the message for a preemptor in that queue."""
    job = preemptor.metadata.labels.get(JOB_UID_LABEL)
    message = (
        f"Preempted to accommodate a workload (UID: {preemptor.metadata.uid or 'UNKNOWN'}, JobUID: {job or 'UNKNOWN'}) "
        f"due to {_IN_WORDS[target.cause]}; preemptor path: {queue.path}; preemptee path: {target.node.path}"
    )
    return Eviction(target.reservation.key, target.cause, message, by=queue.name)


class Mode(IntEnum):
    """How a flavor could serve a request, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Grade(NamedTuple):
    """A mode, and how high up the cohort tree the quota comes from; 0: without borrowing."""

    mode: Mode
    borrowing: int = 0


Oracle = Callable[[FlavorResource, int], Grade]
"""The grade that preemption gives an amount of one (flavor, resource): no candidates, preempt or reclaim."""
