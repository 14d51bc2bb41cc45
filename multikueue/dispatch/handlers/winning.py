"""Phase ADMITTED: the job for the winner, then the record of the win. And UNRECORDED, and a winner out of reach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import FITS_NO_WORKER, QUOTA_RESERVED, Admission, WorkloadStatus, without_nomination
from multikueue.api.meta import without_condition
from multikueue.dispatch.copies.plan import Desired, InStep, Running, Scaled
from multikueue.dispatch.group import words
from multikueue.dispatch.group.group import MAX_NOMINATED, Remote
from multikueue.dispatch.group.phases import View, readmitted_until
from multikueue.dispatch.handlers.doubts import until_doubtful
from multikueue.dispatch.handlers.evicting import report_held_up
from multikueue.dispatch.handlers.outcome import Outcome, unchanged, with_check
from multikueue.dispatch.handlers.removal import job_removal, loser_removals
from multikueue.dispatch.handlers.retrying import winner_gone
from multikueue.dispatch.handlers.unreachable import may_hold_unseen, until_lost


def admitted(v: View) -> Outcome:
    losers = tuple(loser_removals(v))
    in_step = (InStep(cluster=v.won.cluster, why="it runs there"),) if v.won.workload else ()
    if v.won.job_state.is_incomplete and v.group.is_current(v.won.job):
        after = v.won.unfit.until - v.now if v.won.unfit is not None else None
        return unchanged(v, desired=(*losers, *in_step, *_completion(v)), after=after)
    if v.has_won:
        # Beside Kueue a separate write after the win clears the condition: the process may have died in between.
        settled = status_of_win(v) if v.state == "Pending" else without_nomination(v.local.status)
        return replace(unchanged(v, desired=(*losers, *in_step, _scaled(v))), status=settled)
    if v.group.is_current(v.won.job):
        return record_win(v, (*losers, *in_step, _scaled(v)))
    if _can_take_over(v, v.won):
        return unchanged(v, desired=(*losers, *in_step, _scaled(v)))
    left = [r for r in v.group.remotes if r.job is not None and r.is_reachable]
    if left:  # one left from an earlier attempt must be gone first (I1)
        goes = (job_removal(v.won, "left from an earlier attempt"),) if v.won.job is not None else in_step
        reserved = v.local.condition(QUOTA_RESERVED)
        since = reserved.last_transition_time if reserved else None
        return report_held_up(v, left, since, unchanged(v, desired=(*losers, *goes)))
    away = [r for r in v.group.remotes if may_hold_unseen(v, r) or _has_unreachable_job(v, r)]
    if away:
        return unchanged(v, desired=in_step, after=until_lost(v, away))
    if not v.group.may_copy_job and v.group.slice.stays:
        return winner_gone(v)  # the slice was to take over that job; only a new attempt stops the local one
    if not v.group.may_copy_job:
        return unchanged(v, desired=(*losers, *in_step))  # the local job is not seen yet, or not fully stopped
    if not _is_named(v):
        return _name(v, (*losers, *in_step))
    run, again = Running(cluster=v.won.cluster, why="first to admit"), until_doubtful(v.group, v.won, v.now)
    # Later the job is read, once no request can make it any more.
    is_asked = again is None or again > timedelta()
    return unchanged(v, desired=(*losers, *in_step, *((run,) if is_asked else ())), after=again if is_asked else None)


def _can_take_over(v: View, remote: Remote) -> bool:
    """Whether the job there is the one of the slice before it, to take over; else it is left from an earlier
    attempt."""
    return remote.job_state.is_inherited and remote.cluster == v.group.slice.stays


def _scaled(v: View) -> Desired:
    """Scale the winner's job to its copy, whose pod counts are the admitted ones."""
    return Scaled(cluster=v.won.cluster, why="the elastic job was scaled")


def _completion(v: View) -> Iterator[Desired]:
    """Create the missing members of a pod group on the winner. If the worker refused one, remove the others, so that
    the workload can go elsewhere, unless it runs already."""
    if v.won.unfit is None:
        yield Running(cluster=v.won.cluster, why="a part of it is missing")
    elif not v.has_won:
        yield job_removal(v.won, "it cannot be whole there")


def _has_unreachable_job(v: View, remote: Remote) -> bool:
    """Whether an unreachable worker has a job of an earlier attempt that could not be removed: it may still start."""
    return not remote.is_reachable and remote.job is not None and not remote.is_lost(v.now, v.group.lost_after)


def unrecorded(v: View) -> Outcome:
    """Record the win, though the ClusterQueue has dropped our check: the job stays where it runs (contract 3.1 E2), and
    the workload is never Admitted without a cluster, for which its job would be stopped, or start here too."""
    return record_win(v, loser_removals(v))


def record_win(v: View, desired: Iterable[Desired]) -> Outcome:
    """Record the win in one write. Before it are the write that clears a stale `clusterName`, and that of a winner that
    is not recorded as nominated."""
    if v.local.status.cluster_name not in (None, v.won.cluster):
        stale = replace(v.local.status, cluster_name=None)
        return replace(unchanged(v, desired=desired, after=timedelta()), status=stale)
    if not _is_named(v):
        return _name(v, desired)
    told = Event("Normal", "MultiKueue", words.won(v.group, v.won.cluster), is_routine=True)
    return replace(unchanged(v, desired=desired), status=status_of_win(v), events=(told,))


def _is_named(v: View) -> bool:
    """Whether the worker that is to win is recorded as nominated, as Kueue's webhook demands of a winner. Where more are
    nominated than can be recorded, it need not be."""
    named = v.local.status.nominated_cluster_names
    return len(named) < MAX_NOMINATED or v.won.cluster in named


def _name(v: View, desired: Iterable[Desired]) -> Outcome:
    """Record it as nominated, in the place of another one, and go on. None of the others may hold an unseen job."""
    named = v.local.status.nominated_cluster_names
    status = replace(v.local.status, nominated_cluster_names=(*named[: MAX_NOMINATED - 1], v.won.cluster))
    return replace(unchanged(v, desired=desired, after=timedelta()), status=status)


def status_of_win(v: View) -> WorkloadStatus:
    """The status of a win: check Ready, `clusterName`, no nominations, delayed topology requests Ready."""
    status = with_check(v, "Ready", words.won(v.group, v.won.cluster), without_nomination(v.local.status))
    conditions = without_condition(status.conditions, FITS_NO_WORKER)
    return replace(status, cluster_name=v.won.cluster, admission=_with_topology(v), conditions=conditions)


def _with_topology(v: View) -> Admission | None:
    """The local admission, with delayed topology requests Ready that the worker has assigned (contract 3.9)."""
    admission = v.local.status.admission
    theirs = v.won.workload.status.admission if v.won.workload else None
    if admission is None or theirs is None:
        return admission
    placed = {a.name for a in theirs.pod_set_assignments if a.topology_assignment is not msgspec.UNSET}
    assignments = tuple(
        replace(a, delayed_topology_request="Ready")
        if a.delayed_topology_request == "Pending" and a.name in placed
        else a
        for a in admission.pod_set_assignments
    )
    return replace(admission, pod_set_assignments=assignments)


def readmitted(v: View) -> Outcome:
    until = readmitted_until(v)
    return unchanged(v, desired=loser_removals(v), after=until - v.now if until is not None else None)


def winner_unreachable(v: View) -> Outcome:
    return unchanged(v, desired=loser_removals(v), after=until_lost(v, (v.won,)))
