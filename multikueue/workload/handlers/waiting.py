"""Phases in which no copy is made yet, or none ever: no quota, another check not ready, an undispatchable job."""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import ADMITTED, EVICTED, without_nomination
from multikueue.workload import words
from multikueue.workload.case import Case
from multikueue.workload.handlers.doubts import may_hold_unseen, until_lost
from multikueue.workload.handlers.outcome import Outcome, sooner, unchanged, with_check
from multikueue.workload.handlers.removal import removals


def unreserved(case: Case) -> Outcome:
    """Without quota, clear nominations and `clusterName`: a stale name would block the next winner (CX-17). The
    nomination of a worker that may hold a job unseen stays, for it is the only trace of that job."""
    named = case.local.status.nominated_cluster_names
    unseen = [r for r in case.remotes if r.cluster in named and not r.is_reachable and may_hold_unseen(case, r)]
    status = replace(
        without_nomination(case.local.status),
        cluster_name=None,
        nominated_cluster_names=tuple(r.cluster for r in unseen),
    )
    gone = waiting(case)
    return replace(
        gone, status=status, again_after=sooner(gone.again_after, until_lost(case, unseen) if unseen else None)
    )


def waiting(case: Case) -> Outcome:
    """Remove the workload from all workers, except that a slice not yet admitted leaves the job of the slice before it
    running. An evicted slice has no such job to keep."""
    keeps = case.slice.is_elastic and not case.local.has(EVICTED) and not case.local.has(ADMITTED)
    inherited = tuple(r.cluster for r in case.remotes if r.job_state.is_inherited) if keeps else ()
    return unchanged(case, desired=removals(inherited, case.remotes))


def undispatchable(case: Case) -> Outcome:
    status = with_check(case, "Rejected", words.with_state_before(case, case.problem))
    return replace(unchanged(case), status=status, events=(Event("Warning", "MultiKueue", case.problem),))
