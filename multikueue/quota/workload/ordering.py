"""The order of workloads in a queue (quota-engine 2.1) and of heads in a cycle (3.2).

Both orders are total: where Kueue leaves a tie to chance, the name or UID decides.
"""

from __future__ import annotations

from datetime import UTC, datetime

from multikueue.api.kueue.workload import EVICTED, PODS_READY_TIMEOUT, Workload

Rank = tuple[int, datetime, str]
"""Sorts ascending: priority (negated), queue time, UID."""

EntryRank = tuple[int, int, datetime, str]
"""Sorts ascending: height of the borrowing, priority (negated), queue time, name of the queue."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TO_THE_BACK = (PODS_READY_TIMEOUT, "AdmissionCheck")
"""Reasons of an eviction that becomes the queue time (quota-engine 2.1). A workload that had quota and did not use it
lets those pass that waited meanwhile; one that was preempted lost its quota to others, and keeps its place."""


def queue_time(workload: Workload, *, should_keep_place: bool = False) -> datetime:
    """The queue time of a workload: its creation, or its eviction if the workload itself was the cause.

    With `should_keep_place` an eviction for PodsReadyTimeout does not count.
    """
    to_the_back = _TO_THE_BACK[1:] if should_keep_place else _TO_THE_BACK
    eviction = workload.condition(EVICTED)
    if eviction and eviction.status == "True" and eviction.reason in to_the_back and eviction.last_transition_time:
        return eviction.last_transition_time
    return workload.metadata.creation_timestamp or EPOCH


def queue_rank(workload: Workload, priority: int, *, should_keep_place: bool = False) -> Rank:
    return -priority, queue_time(workload, should_keep_place=should_keep_place), workload.metadata.uid


def entry_rank(*, borrowing: int, rank: Rank, queue: str) -> EntryRank:
    """The order of heads in one cycle: those that stay low in the cohort tree first, then as in a queue.

    What a queue needs of its own is given before others borrow it: else it would have to be reclaimed in the next cycle.
    """
    priority, since, _ = rank
    return borrowing, priority, since, queue
