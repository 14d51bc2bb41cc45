"""Phase EVICTED: stop what still runs on workers, and keep the quota reserved until then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import EVICTED, Workload
from multikueue.api.values.foreign import excerpt, moment
from multikueue.dispatch.copies.plan import Desired, Stopped
from multikueue.dispatch.remote import Remote
from multikueue.workload.case import Case
from multikueue.workload.handlers.doubts import until_lost
from multikueue.workload.handlers.outcome import Outcome, unchanged, with_check
from multikueue.workload.handlers.removal import remove_all

HELD_UP_AFTER = timedelta(minutes=1)
"""How long a job's deletion, or the end of its pods, may take before the workload reports what it waits for."""


def evicted(case: Case) -> Outcome:
    """Stop the jobs that run on workers, and remove the copies of the others."""
    evicted = case.local.condition(EVICTED)
    running = [r for r in case.remotes if r.is_reachable and r.may_be_running]
    since = evicted.last_transition_time if evicted else None
    return report_held_up(
        case, running, since, unchanged(case, desired=_stops(case), after=until_lost(case, case.remotes))
    )


def _stops(case: Case) -> Iterator[Desired]:
    for remote in case.remotes:
        if remote.is_reachable and (remote.workload is not None or remote.job_state.is_inherited):
            yield Stopped(cluster=remote.cluster, why="evicted on the manager")


def report_held_up(case: Case, by: list[Remote], since: datetime | None, decision: Outcome) -> Outcome:
    """Report a job of an earlier attempt that delays the next one, since no job may run twice.

    After HELD_UP_AFTER the workload names the worker and the cause: only people can resolve a foreign finalizer or a
    dead node."""
    left = {r.cluster: _left_of(r) for r in by}
    begun = {
        name: min(moment(item.metadata.deletion_timestamp) or since or case.now, case.now)
        for name, item in left.items()
        if item is not None
    }
    late = [r for r in by if r.cluster in begun and begun[r.cluster] + HELD_UP_AFTER <= case.now]
    waits = (decision.again_after, *(at + HELD_UP_AFTER - case.now for at in begun.values()))
    after = min((wait for wait in waits if wait is not None and wait > timedelta()), default=None)
    decision = replace(decision, again_after=after)
    is_deleted = case.local.metadata.deletion_timestamp is not None
    if not late or (case.state != "Pending" and not is_deleted):
        return decision
    what = "The deletion waits for what is left:" if is_deleted else "Waiting for what is left of an earlier attempt:"
    status = with_check(case, case.state, text := f"{what} {', '.join(map(_left_there, late))}")
    told = () if status == case.local.status else (Event("Warning", "MultiKueue", text),)
    return replace(decision, status=status, events=(*decision.events, *told))


def deleted(case: Case) -> Outcome:
    """Remove all of it, and report what does not go."""
    outcome = remove_all(case)
    if case.workload is None:
        return outcome
    left = [r for r in case.remotes if r.is_reachable and _left_of(r) is not None]
    return report_held_up(case, left, moment(case.local.metadata.deletion_timestamp), outcome)


def _left_of(remote: Remote) -> AnyJob | Workload | None:
    """What has to go there first: the job, then the copy."""
    return remote.job if remote.job is not None else remote.workload


def _left_there(remote: Remote) -> str:
    item = _left_of(remote)
    assert item is not None
    meta = item.metadata
    words = f'{type(item).__name__} {item.key} on worker cluster "{remote.cluster}"'
    if meta.deletion_timestamp is None:
        return f"{words} still has pods: see to their nodes, or delete them there" if remote.job else words
    if not meta.finalizers:
        return f"{words} is being deleted: see to its pods and their nodes there"
    return f"{words} is held by {excerpt(', '.join(meta.finalizers))}: see to who has to take it away there"


def is_holding(case: Case) -> bool:
    """Whether some pods of an evicted workload still run or may run, so that its quota must stay reserved; or its job
    has ended there, and the local job does not have the result yet. As in Kueue a result of the attempt counts more
    than its eviction, and is lost once the quota is given back.

    A lost worker does not count: that is the meaning of `worker_lost_timeout`.
    """
    return any(
        _may_have_job(case, remote) for remote in case.remotes if not remote.is_lost(case.now, case.rules.lost_after)
    )


def _may_have_job(case: Case, remote: Remote) -> bool:
    if remote.asked is not None:
        return True
    if remote.is_reachable:
        return remote.may_be_running or _is_result_unreported(case, remote)
    status = case.local.status
    recorded = status.cluster_name == remote.cluster
    # A predecessor may have made the job there just before it died, and the nomination is the only trace of it.
    unseen = not remote.link.is_known and remote.cluster in status.nominated_cluster_names
    return recorded or unseen or remote.job is not None


def _is_result_unreported(case: Case, remote: Remote) -> bool:
    """Whether the job of this attempt has ended there and the local job has no result. The watch may show the end of the
    copy first; a suspended job gets no result any more (`finishing._given_up_at`)."""
    if case.is_job_finished or not case.is_current(remote.job):
        return False
    return remote.has_job_ended or (remote.has_result and not remote.is_held)
