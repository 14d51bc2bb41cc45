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
from multikueue.dispatch.remote import Remote
from multikueue.workload import words
from multikueue.workload.case import MAX_NOMINATED, Case
from multikueue.workload.handlers.doubts import may_be_there, until_doubtful, until_lost
from multikueue.workload.handlers.evicting import report_held_up
from multikueue.workload.handlers.outcome import Outcome, unchanged, with_check
from multikueue.workload.handlers.removal import job_removal, loser_removals
from multikueue.workload.handlers.retrying import winner_gone


def admitted(case: Case) -> Outcome:
    losers = tuple(loser_removals(case))
    in_step = (InStep(cluster=case.won.cluster, why="it runs there"),)
    if case.won.job_state.is_incomplete and case.is_current(case.won.job):
        after = case.won.unfit.until - case.now if case.won.unfit is not None else None
        return unchanged(case, desired=(*losers, *in_step, *_completion(case)), after=after)
    if case.has_won:
        # Beside Kueue a separate write after the win clears the condition: the process may have died in between.
        settled = status_of_win(case) if case.state == "Pending" else without_nomination(case.local.status)
        return replace(unchanged(case, desired=(*losers, *in_step, _scaled(case))), status=settled)
    if case.is_current(case.won.job):
        return record_win(case, (*losers, *in_step, _scaled(case)))
    if _can_take_over(case, case.won):
        return unchanged(case, desired=(*losers, *in_step, _scaled(case)))
    left = [r for r in case.remotes if r.job is not None and r.is_reachable]
    if left:  # one left from an earlier attempt must be gone first (I1)
        goes = (job_removal(case.won, "left from an earlier attempt"),) if case.won.job is not None else in_step
        reserved = case.local.condition(QUOTA_RESERVED)
        since = reserved.last_transition_time if reserved else None
        return report_held_up(case, left, since, unchanged(case, desired=(*losers, *goes)))
    away = [r for r in case.remotes if not (r.is_reachable and r.link.is_known) and may_be_there(case, r)]
    if away:
        return unchanged(case, desired=in_step, after=until_lost(case, away))
    if not case.may_copy_job and case.slice.stays:
        return winner_gone(case)  # the slice was to take over that job; only a new attempt stops the local one
    if not case.may_copy_job:
        return unchanged(case, desired=(*losers, *in_step))  # the local job is not seen yet, or not fully stopped
    if not _is_named(case):
        return _name(case, (*losers, *in_step))
    run, again = Running(cluster=case.won.cluster, why="first to admit"), until_doubtful(case, case.won)
    # Later the job is read, once no request can make it any more.
    is_asked = again is None or again > timedelta()
    return unchanged(
        case, desired=(*losers, *in_step, *((run,) if is_asked else ())), after=again if is_asked else None
    )


def _can_take_over(case: Case, remote: Remote) -> bool:
    """Whether the job there is the one of the slice before it, to take over; else it is left from an earlier
    attempt."""
    return remote.job_state.is_inherited and remote.cluster == case.slice.stays


def _scaled(case: Case) -> Desired:
    """Scale the winner's job to its copy, whose pod counts are the admitted ones."""
    return Scaled(cluster=case.won.cluster, why="the elastic job was scaled")


def _completion(case: Case) -> Iterator[Desired]:
    """Create the missing members of a pod group on the winner. If the worker refused one, remove the others, so that
    the workload can go elsewhere, unless it runs already."""
    if case.won.unfit is None:
        yield Running(cluster=case.won.cluster, why="a part of it is missing")
    elif not case.has_won:
        yield job_removal(case.won, "it cannot be whole there")


def unrecorded(case: Case) -> Outcome:
    """Record the win, though the ClusterQueue has dropped our check: the job stays where it runs (contract 3.1 E2), and
    the workload is never Admitted without a cluster, for which its job would be stopped, or start here too."""
    return record_win(case, loser_removals(case))


def record_win(case: Case, desired: Iterable[Desired]) -> Outcome:
    """Record the win in one write. Before it are the write that clears a stale `clusterName`, and that of a winner that
    is not recorded as nominated."""
    if case.local.status.cluster_name not in (None, case.won.cluster):
        stale = replace(case.local.status, cluster_name=None)
        return replace(unchanged(case, desired=desired, after=timedelta()), status=stale)
    if not _is_named(case):
        return _name(case, desired)
    told = Event("Normal", "MultiKueue", words.won(case, case.won.cluster), is_routine=True)
    return replace(unchanged(case, desired=desired), status=status_of_win(case), events=(told,))


def _is_named(case: Case) -> bool:
    """Whether the worker that is to win is recorded as nominated, as Kueue's webhook demands of a winner. Where more are
    nominated than can be recorded, it need not be."""
    named = case.local.status.nominated_cluster_names
    return len(named) < MAX_NOMINATED or case.won.cluster in named


def _name(case: Case, desired: Iterable[Desired]) -> Outcome:
    """Record it as nominated, in the place of another one, and go on. None of the others may hold an unseen job."""
    named = case.local.status.nominated_cluster_names
    status = replace(case.local.status, nominated_cluster_names=(*named[: MAX_NOMINATED - 1], case.won.cluster))
    return replace(unchanged(case, desired=desired, after=timedelta()), status=status)


def status_of_win(case: Case) -> WorkloadStatus:
    """The status of a win: check Ready, `clusterName`, no nominations, delayed topology requests Ready."""
    status = with_check(case, "Ready", words.won(case, case.won.cluster), without_nomination(case.local.status))
    conditions = without_condition(status.conditions, FITS_NO_WORKER)
    return replace(status, cluster_name=case.won.cluster, admission=_with_topology(case), conditions=conditions)


def _with_topology(case: Case) -> Admission | None:
    """The local admission, with delayed topology requests Ready that the worker has assigned (contract 3.9)."""
    admission = case.local.status.admission
    theirs = case.won.workload.status.admission if case.won.workload else None
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


def winner_unreachable(case: Case) -> Outcome:
    return unchanged(case, desired=loser_removals(case), after=until_lost(case, (case.won,)))
