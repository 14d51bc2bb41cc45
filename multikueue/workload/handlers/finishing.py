"""Phases COMPLETING and FINISHED: the result of the winner, and what stays after it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.workload import FINISHED, LOGS_UNTIL, WorkloadStatus
from multikueue.api.meta import Condition, render_time, with_condition
from multikueue.dispatch.copies.plan import Found
from multikueue.workload.case import Case
from multikueue.workload.handlers.outcome import Outcome, sooner, unchanged, with_own_condition
from multikueue.workload.handlers.removal import loser_removals, removals
from multikueue.workload.handlers.winning import record_win

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""Time of an event without a timestamp: its waits are over."""


def completing(case: Case) -> Outcome:
    """Record the winner if a crash prevented it; finish once the local job's status is final (I8)."""
    losers = tuple(loser_removals(case))
    if not case.has_won:
        return replace(record_win(case, losers), again_after=timedelta())
    remote = case.won.condition(FINISHED)
    assert remote is not None
    # Not while its request is unanswered: the watch may show the copy before the job.
    job_is_gone = not case.is_current(case.won.job) and not case.won.is_asked_for(case.attempt)
    if not case.is_job_finished and not job_is_gone:
        given_up_at = _given_up_at(case, remote)
        if given_up_at is None or case.now < given_up_at:
            return unchanged(case, desired=losers, after=None if given_up_at is None else given_up_at - case.now)
        if case.won.read_at is None or case.won.read_at < given_up_at:
            look = Found(cluster=case.won.cluster, why="it is held, and its workload is finished")
            return unchanged(case, desired=(*losers, look))
    finished = Condition(
        type=FINISHED,
        status="True",
        reason=remote.reason,
        message=remote.message,
        observed_generation=case.local.metadata.generation,
    )
    conditions = with_condition(case.local.status.conditions, finished, case.now)
    ended = case.after(replace(case.local, status=replace(case.local.status, conditions=conditions)))
    return replace(unchanged(case, desired=losers), status=_with_end_of_logs(ended))


def _given_up_at(case: Case, finished: Condition) -> datetime | None:
    """When to give up a suspended job whose copy is `finished`; None for other jobs.

    A cluster restored from a backup may have lost the end of the job. The watch may also be late: so the job is read
    once more at that time, since the elapsed time alone proves nothing after a suspend of the process or a stalled
    watch.
    """
    if not case.won.is_held:
        return None
    return min(finished.last_transition_time or LONG_AGO, case.now) + case.rules.lost_after


def finished(case: Case) -> Outcome:
    """Remove the workload from all workers, but for a retained copy and job, whose end is in its status.

    A job may finish before its win is recorded, if the process died in between. The win is recorded now if the worker
    is still nominated: Kueue's webhook accepts no other `clusterName`."""
    is_unreported = not case.has_won and _is_end_unreported(case)
    left = _retained_for(case) if case.has_won or is_unreported else None
    kept = (case.won.cluster,) if left else ()
    outcome = unchanged(case, desired=removals((*case.slice.heir, *kept), case.remotes), after=left)
    if is_unreported:
        recorded = record_win(case, outcome.desired)
        outcome = replace(recorded, again_after=sooner(recorded.again_after, left))
        case = case.after(replace(case.local, status=outcome.status)) if outcome.status is not None else case
    return replace(outcome, status=_with_end_of_logs(case))


def _is_end_unreported(case: Case) -> bool:
    return (
        case.winner is not None
        and case.is_current(case.won.job)
        and case.won.cluster in case.local.status.nominated_cluster_names
    )


def _retained_for(case: Case) -> timedelta | None:
    """How much longer a finished job stays on its worker, with its pods and their logs; None: remove it."""
    until = _retained_until(case)
    left = until - case.now if until is not None else timedelta()
    return left if left > timedelta() else None


def _retained_until(case: Case) -> datetime | None:
    finished = case.local.condition(FINISHED)
    is_over = case.winner is not None and case.won.has_ended and case.is_current(case.won.workload)
    if not is_over or finished is None or finished.last_transition_time is None:
        return None
    return finished.last_transition_time + case.copy_retention.of(finished)


def _with_end_of_logs(case: Case) -> WorkloadStatus:
    """The status with the time until which the logs stay, as long as they do. Beside Kueue it would cost a write of its own."""
    status, ended, until = case.local.status, case.local.condition(FINISHED), _retained_until(case)
    since = ended.last_transition_time if ended is not None else None
    if until is None or since is None or until <= case.now or not case.rules.has_life:
        return status
    message = render_time(until)
    conditions = with_own_condition(
        case, LOGS_UNTIL, status.conditions, reason="Finished", message=message, since=since
    )
    return replace(status, conditions=conditions)
