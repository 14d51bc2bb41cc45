"""Phases COMPLETING and FINISHED: the result of the winner, and what stays after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.workload import FINISHED
from multikueue.api.meta import Condition, with_condition
from multikueue.dispatch.copies.plan import Found
from multikueue.dispatch.group.phases import View
from multikueue.dispatch.handlers.outcome import Outcome, sooner, unchanged
from multikueue.dispatch.handlers.removal import loser_removals, removals
from multikueue.dispatch.handlers.winning import record_win

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""Time of an event without a timestamp: its waits are over."""


def completing(v: View) -> Outcome:
    """Record the winner if a crash prevented it; finish once the local job's status is final (I8)."""
    losers = tuple(loser_removals(v))
    if not v.has_won:
        return replace(record_win(v, losers), again_after=timedelta())
    # Not while its request is unanswered: the watch may show the copy before the job.
    job_is_gone = not v.group.is_current(v.won.job) and not v.won.is_asked_for(v.group.attempt)
    if not v.group.is_job_finished and not job_is_gone:
        given_up_at = _given_up_at(v)
        if given_up_at is None or v.now < given_up_at:
            return unchanged(v, desired=losers, after=None if given_up_at is None else given_up_at - v.now)
        if v.won.read_at is None or v.won.read_at < given_up_at:
            look = Found(cluster=v.won.cluster, why="it is held, and its workload is finished")
            return unchanged(v, desired=(*losers, look))
    remote = v.won.condition(FINISHED)
    assert remote is not None
    finished = Condition(
        type=FINISHED,
        status="True",
        reason=remote.reason,
        message=remote.message,
        observed_generation=v.local.metadata.generation,
    )
    conditions = with_condition(v.local.status.conditions, finished, v.now)
    return replace(unchanged(v, desired=losers), status=replace(v.local.status, conditions=conditions))


def _given_up_at(v: View) -> datetime | None:
    """When to give up a suspended job whose copy is finished; None for other jobs.

    A cluster restored from a backup may have lost the end of the job. The watch may also be late: so the job is read
    once more at that time, since the elapsed time alone proves nothing after a suspend of the process or a stalled
    watch.
    """
    finished = v.won.condition(FINISHED)
    if finished is None or not v.won.is_reachable or not v.won.is_held:
        return None
    return min(finished.last_transition_time or LONG_AGO, v.now) + v.group.lost_after


def finished(v: View) -> Outcome:
    """Remove the workload from all workers, but for a retained copy and job.

    A job may finish before its win is recorded, if the process died in between. The win is recorded now if the worker
    is still nominated: Kueue's webhook accepts no other `clusterName`."""
    is_unreported = not v.has_won and _is_end_unreported(v)
    left = _retained_for(v) if v.has_won or is_unreported else None
    kept = (v.won.cluster,) if left else ()
    outcome = unchanged(v, desired=removals((*v.group.slice.heir, *kept), v.group.remotes), after=left)
    if not is_unreported:
        return outcome
    recorded = record_win(v, outcome.desired)
    return replace(recorded, again_after=sooner(recorded.again_after, left))


def _is_end_unreported(v: View) -> bool:
    return (
        v.winner is not None
        and v.group.is_current(v.won.job)
        and v.won.cluster in v.local.status.nominated_cluster_names
    )


def _retained_for(v: View) -> timedelta | None:
    """How much longer a finished job stays on its worker, with its pods and their logs; None: remove it."""
    finished = v.local.condition(FINISHED)
    is_over = v.winner is not None and v.won.has_ended and v.group.is_current(v.won.workload)
    if not is_over or finished is None or finished.last_transition_time is None:
        return None
    left = finished.last_transition_time + v.group.copy_retention - v.now
    return left if left > timedelta() else None
