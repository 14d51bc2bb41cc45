"""Variants at the head of a queue (KEP 8691): only one of a parent is admitted, and a preferred one takes its place."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from multikueue.api.kueue.concurrent_admission import flavors_in_order, last_acceptable_flavor, policy_of, stays
from multikueue.api.kueue.queues import ClusterQueueSpec
from multikueue.api.kueue.unadmitted import PENDING_EVALUATION
from multikueue.quota.cache.reservations import Reservation, Variant
from multikueue.quota.queueing.pending_workload import Reason
from multikueue.quota.scheduler.cycle import Head

__all__ = ["in_family"]


def in_family(head: Head, siblings: Iterable[tuple[Variant, Reservation]]) -> Head:
    """The head as its admitted `siblings` let it be: refused beside a preferred one, or in place of a less preferred one."""
    admitted, flavors = tuple(siblings), flavors_in_order(head.queue.spec)
    mine = _place(next(iter(head.waiting.flavors), ""), flavors)
    if any(_place(variant.flavor, flavors) <= mine for variant, _ in admitted):
        return _refused(head, "A more favorable variant is already admitted")
    if not admitted or head.problem:
        return head
    if problem := _migration_problem(mine, flavors, head.queue.spec):
        return _refused(head, problem)
    return replace(head, worse=admitted[0][1])


def _place(flavor: str, flavors: tuple[str, ...]) -> int:
    return flavors.index(flavor) if flavor in flavors else len(flavors)


def _migration_problem(mine: int, flavors: tuple[str, ...], spec: ClusterQueueSpec) -> str:
    """Why work that is admitted must not move to the flavor at that place; empty if it may."""
    policy = policy_of(spec)
    if policy is None or stays(policy):
        return "Another variant is already admitted"
    last = last_acceptable_flavor(policy)
    return "" if last is None or mine <= flavors.index(last) else "Target flavor is below LastAcceptableFlavorName"


def _refused(head: Head, problem: str) -> Head:
    return replace(head, problem=problem, reason=Reason.OF_ITSELF, quota_reserved_reason=PENDING_EVALUATION)
