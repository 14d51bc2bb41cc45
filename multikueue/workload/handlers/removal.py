"""Removals of what is not wanted on a worker, and the phases in which nothing is wanted there.

These have no quota, another check that is not ready, or a job that cannot be dispatched.
"""

from __future__ import annotations

from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import ADMITTED, EVICTED, without_nomination
from multikueue.dispatch.copies.plan import Absent, Alone, Desired
from multikueue.dispatch.remote import Remote
from multikueue.workload import words
from multikueue.workload.case import Case
from multikueue.workload.handlers.doubts import may_hold_unseen, until_lost
from multikueue.workload.handlers.outcome import Outcome, sooner, unchanged, with_check


def remove_all(case: Case) -> Outcome:
    """Remove the workload from all workers, but keep the objects that a later slice of the job takes over."""
    return unchanged(case, desired=removals(case.slice.heir, case.remotes))


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
    keeps = case.slice.is_elastic and case.true.isdisjoint((EVICTED, ADMITTED))
    inherited = tuple(r.cluster for r in case.remotes if r.job_state.is_inherited) if keeps else ()
    return unchanged(case, desired=removals(inherited, case.remotes))


def undispatchable(case: Case) -> Outcome:
    status = with_check(case, "Rejected", words.with_state_before(case, case.problem))
    return replace(unchanged(case), status=status, events=(Event("Warning", "MultiKueue", case.problem),))


def removals(keep: tuple[str, ...], remotes: tuple[Remote, ...]) -> list[Desired]:
    """Removals on all remotes but those in `keep`."""
    return _removed(_kept_uids(keep, remotes), remotes)


def loser_removals(case: Case) -> list[Desired]:
    kept = _kept_uids((case.won.cluster,), case.remotes)
    alone = Alone(cluster=case.won.cluster, why="somebody else won", kept=kept)
    return [*_removed(kept, case.remotes), alone]


def _kept_uids(keep: tuple[str, ...], remotes: tuple[Remote, ...]) -> frozenset[str]:
    names, kept = frozenset(keep), frozenset[str]()
    for remote in remotes:
        if remote.cluster in names:
            kept |= remote.own_uids
    return kept


def _removed(kept: frozenset[str], remotes: tuple[Remote, ...]) -> list[Desired]:
    """A kept UID stays under every name: two names may lead to one cluster, and a UID exists on one cluster only."""
    return [
        Absent(cluster=remote.cluster, why="not wanted there", uids=remote.own_uids)
        for remote in remotes
        if remote.is_reachable and remote.own_uids and kept.isdisjoint(remote.own_uids)
    ]


def job_removal(remote: Remote, why: str) -> Desired:
    """Of the job alone, where there is one."""
    assert remote.job is not None
    return Absent(cluster=remote.cluster, why=why, uids=frozenset({remote.job.metadata.uid}))
