"""Removals of copies and jobs that are not wanted on a worker."""

from __future__ import annotations

from collections.abc import Iterator

from multikueue.dispatch.copies.plan import Absent, Alone, Desired
from multikueue.dispatch.remote import Remote
from multikueue.workload.case import Case
from multikueue.workload.handlers.outcome import Outcome, unchanged


def remove_all(case: Case) -> Outcome:
    """Remove the workload from all workers, but keep the objects that a later slice of the job takes over."""
    return unchanged(case, desired=removals(case.slice.heir, case.remotes))


def removals(keep: tuple[str, ...], remotes: tuple[Remote, ...]) -> Iterator[Desired]:
    """Removals on all remotes but those in `keep`. A kept UID stays under every name: two names may lead to one
    cluster, and a UID exists on one cluster only."""
    kept = _kept_uids(keep, remotes)
    for remote in remotes:
        if remote.is_reachable and remote.own_uids and kept.isdisjoint(remote.own_uids):
            yield Absent(cluster=remote.cluster, why="not wanted there", uids=remote.own_uids)


def loser_removals(case: Case) -> Iterator[Desired]:
    keep = (case.won.cluster,)
    yield from removals(keep, case.remotes)
    yield Alone(cluster=case.won.cluster, why="somebody else won", kept=_kept_uids(keep, case.remotes))


def _kept_uids(keep: tuple[str, ...], remotes: tuple[Remote, ...]) -> frozenset[str]:
    names = frozenset(keep)
    return frozenset().union(*[remote.own_uids for remote in remotes if remote.cluster in names])


def job_removal(remote: Remote, why: str) -> Desired:
    """Of the job alone, where there is one."""
    assert remote.job is not None
    return Absent(cluster=remote.cluster, why=why, uids=frozenset({remote.job.metadata.uid}))
