"""Who comes first: workloads in a queue (quota-engine 2.1) and heads in a cycle (3.2).

Both orders are total: where Kueue leaves a tie to chance, the name or UID decides.
"""

from __future__ import annotations

from datetime import UTC, datetime

from multikueue.api.workload import EVICTED, PODS_READY_TIMEOUT, Workload

Rank = tuple[int, datetime, str]
"""Sorts ascending: priority (negated), queue time, UID."""

EntryRank = tuple[int, int, datetime, str]
"""Sorts ascending: height of the borrowing, priority (negated), queue time, name of the queue."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TO_THE_BACK = (PODS_READY_TIMEOUT, "AdmissionCheck")


def queue_time(workload: Workload, *, keeping_place: bool = False) -> datetime:
    """Since when the workload waits: its creation, or its eviction if it is to blame for that.

    With `keeping_place` it is not for pods that were late.
    """
    to_the_back = _TO_THE_BACK[1:] if keeping_place else _TO_THE_BACK
    eviction = workload.condition(EVICTED)
    if eviction and eviction.status == "True" and eviction.reason in to_the_back and eviction.last_transition_time:
        return eviction.last_transition_time
    return workload.metadata.creation_timestamp or EPOCH


def queue_rank(workload: Workload, priority: int, *, keeping_place: bool = False) -> Rank:
    return -priority, queue_time(workload, keeping_place=keeping_place), workload.metadata.uid


def entry_rank(*, borrowing: int, rank: Rank, queue: str) -> EntryRank:
    """Order of heads in one cycle: those that stay low in the cohort tree first, then as in a queue."""
    priority, since, _ = rank
    return borrowing, priority, since, queue
