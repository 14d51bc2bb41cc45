"""When a workload has to be gone, by its status: the end of its maximum execution time, or of its backfill."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.queues import KNOWN_ENDS
from multikueue.api.kueue.workload import ADMITTED, BACKFILLED, WorkloadSpec, WorkloadStatus, put_condition
from multikueue.api.meta import find_condition, render_time, without_condition


def time_is_up(status: WorkloadStatus, spec: WorkloadSpec) -> datetime | None:
    """When the maximum execution time of an admitted workload is over; None: it has none, or is not admitted."""
    limit = spec.maximum_execution_time_seconds
    admitted = find_condition(status.conditions, ADMITTED) if limit is not None else None
    if limit is None or admitted is None or admitted.status != "True" or admitted.last_transition_time is None:
        return None
    past = status.accumulated_past_execution_time_seconds or 0
    return admitted.last_transition_time + timedelta(seconds=limit - past)


def keep_end(status: WorkloadStatus, until: datetime | None, *, generation: int, now: datetime) -> WorkloadStatus:
    """The status of a workload that just got quota, with the time by which it has to be gone, if any."""
    conditions = without_condition(status.conditions, BACKFILLED)
    if conditions is not status.conditions:
        status = replace(status, conditions=conditions)
    if until is None:
        return status
    return put_condition(
        status, BACKFILLED, "True", reason=KNOWN_ENDS, message=render_time(until), generation=generation, now=now
    )


def end_of(status: WorkloadStatus) -> datetime | None:
    """When a backfilled workload has to be gone; None if no such time is known."""
    kept = find_condition(status.conditions, BACKFILLED)
    try:
        return datetime.fromisoformat(kept.message) if kept else None
    except ValueError:
        return None  # we did not write that
