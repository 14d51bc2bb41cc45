"""The actions of one outbox: its part of a plan compared with the objects on its worker.

Each action is safe to repeat, and carries its own reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import DEACTIVATION_TARGET, EVICTED, FINISHED, Workload
from multikueue.api.values.foreign import answer_or
from multikueue.dispatch.copies import preemption_gates
from multikueue.dispatch.copies import remote as remotes
from multikueue.dispatch.copies.plan import (
    Absent,
    Copied,
    Desired,
    Found,
    InStep,
    Plan,
    Running,
    Scaled,
    Stopped,
    Ungated,
)
from multikueue.dispatch.remote import Remote
from multikueue.dispatch.slices import scale_down_patch

__all__ = [
    "OUT_OF_STEP",
    "Action",
    "CreateJob",
    "CreateWorkload",
    "DeleteJob",
    "DeleteWorkload",
    "FindJob",
    "PatchJob",
    "PatchStatus",
    "PatchWorkload",
    "effects",
]


class Action(msgspec.Struct, frozen=True, kw_only=True):
    cluster: str
    why: str = ""


class CreateWorkload(Action, frozen=True, kw_only=True):
    """Create our copy of the workload."""

    body: dict[str, Any]


class DeleteWorkload(Action, frozen=True, kw_only=True):
    """Delete our copy; the precondition `uid` protects any other object of its name."""

    uid: str


class PatchWorkload(Action, frozen=True, kw_only=True):
    """Update the copy's spec: its priority, or the counts of an elastic one."""

    body: dict[str, Any]


class PatchStatus(Action, frozen=True, kw_only=True):
    """Tell the worker's Kueue by the copy's status: to evict it, as the manager has evicted the workload, or that it
    may preempt."""

    body: dict[str, Any]


class CreateJob(Action, frozen=True, kw_only=True):
    """Create the job on the winner: the one irreversible step. `attempt` is the reservation it is made for."""

    attempt: str


class PatchJob(Action, frozen=True, kw_only=True):
    """Give the job of an elastic workload the name, attempt and present size of this slice."""

    job: AnyJob
    body: dict[str, Any]


class FindJob(Action, frozen=True, kw_only=True):
    """Read a job live from the worker, if its creation got no answer, or if it has no events."""


class DeleteJob(Action, frozen=True, kw_only=True):
    """Delete our job and its pods; `uid` is the precondition."""

    uid: str


OUT_OF_STEP = "out of step in"
"""How the reason begins for which a copy is removed that differs from its workload."""


def effects(plan: Plan, remote: Remote, now: datetime) -> tuple[Action, ...]:
    """The actions still to perform there, in order; none once all are performed and seen."""
    if not remote.is_reachable:
        return ()
    if remote.workload is not None and remote.job is None and plan.is_too_late(remote.workload, remote.cluster):
        return tuple(_removal(remote, "somebody else won"))
    found: list[Action] = []
    for desired in plan.on.get(remote.cluster, ()):
        found += _EFFECTS[type(desired)](desired, plan, remote, now)
    return tuple(found)


def _absent(desired: Absent, _plan: Plan, remote: Remote, _now: datetime) -> Iterable[Action]:
    return _removal(remote, desired.why, desired.uids)


def _copied(desired: Copied, plan: Plan, remote: Remote, _now: datetime) -> Sequence[Action]:
    """Creates a missing copy, and repairs or removes one that differs."""
    assert plan.local is not None
    takes_over = remote.job_state.is_inherited and remote.cluster == plan.slice.stays
    priority = remotes.LOWEST if desired.yields else None
    if remote.workload is None and (remote.job is None or takes_over) and remote.unfit is None:
        body = plan.yielding_copy if desired.yields else plan.copy
        return (CreateWorkload(cluster=remote.cluster, why=desired.why, body=body),)
    if remote.workload is None or not plan.is_current(remote.workload, remote):
        return _removal(remote, "left from an earlier attempt")
    return _updates(plan, plan.local, remote, remote.workload, priority=priority)


def _ungated(desired: Ungated, plan: Plan, remote: Remote, now: datetime) -> Iterator[Action]:
    if (
        remote.workload is not None
        and plan.is_current(remote.workload, remote)
        and not preemption_gates.is_open(remote)
    ):
        body = preemption_gates.opening_patch(remote.workload, now)
        yield PatchStatus(cluster=remote.cluster, why=desired.why, body=body)


def _stopped(desired: Stopped, plan: Plan, remote: Remote, now: datetime) -> Iterator[Action]:
    assert plan.local is not None
    if (
        remote.workload is None
        or remote.job_state.is_inherited
        or remote.job is None
        or not plan.is_current(remote.workload, remote)
    ):
        yield from _removal(remote, desired.why)
    elif remote.may_be_running and remote.true.isdisjoint((DEACTIVATION_TARGET, EVICTED)):
        body = remotes.deactivation_patch(plan.local, remote.workload, now)
        yield PatchStatus(cluster=remote.cluster, why=desired.why, body=body)


def _in_step(_desired: InStep, plan: Plan, remote: Remote, _now: datetime) -> Sequence[Action]:
    """Once the job of this attempt is there, the next decision records the win, and may be doing so."""
    assert plan.local is not None
    if remote.workload is None:
        return ()
    runs = plan.is_ready or (remote.job is not None and plan.is_current(remote.job, remote))
    return _updates(plan, plan.local, remote, remote.workload, is_running=runs)


def _running(desired: Running, plan: Plan, remote: Remote, _now: datetime) -> Sequence[Action]:
    """The irreversible step: only beside a copy of this attempt that is neither evicted nor finished, and never beside
    a job of an earlier attempt."""
    admitted = plan.is_current(remote.workload, remote) and remote.true.isdisjoint((EVICTED, FINISHED))
    missing = remote.job is None or (remote.job_state.is_incomplete and plan.is_current(remote.job, remote))
    if not admitted or not missing:
        return ()
    return (CreateJob(cluster=remote.cluster, why=desired.why, attempt=plan.attempt),)


def _scaled(desired: Scaled, _plan: Plan, remote: Remote, _now: datetime) -> Iterator[Action]:
    if remote.job is not None and remote.job_state.patch is not None:
        yield PatchJob(cluster=remote.cluster, why=desired.why, job=remote.job, body=remote.job_state.patch)


def _found(desired: Found, plan: Plan, remote: Remote, _now: datetime) -> Iterator[Action]:
    """Once per plan, unless the outcome is known by then."""
    if (remote.asked is not None or remote.job is not None) and (remote.read_at is None or remote.read_at < plan.at):
        yield FindJob(cluster=remote.cluster, why=desired.why)


def _updates(
    plan: Plan,
    local: Workload,
    remote: Remote,
    copy: Workload,
    *,
    is_running: bool = False,
    priority: int | None = None,
) -> Sequence[Action]:
    fields = remotes.drift(local, copy, priority)
    if not fields:
        return ()
    if remotes.is_priority_only(fields, local, copy, priority):
        body = remotes.priority_patch(local, copy, priority)
        return (PatchWorkload(cluster=remote.cluster, why="the priority changed", body=body),)
    if plan.slice.is_elastic and "podSets" in fields and (scaled := _scaled_down(local, copy)):
        return (PatchWorkload(cluster=remote.cluster, why="scaled down", body=scaled),)
    return () if is_running else _removal(remote, f"{OUT_OF_STEP} {', '.join(sorted(fields))}")


def _scaled_down(local: Workload, copy: Workload) -> dict[str, Any] | None:
    """None also if the copy is malformed."""
    return answer_or(lambda: scale_down_patch(local, copy), otherwise=None)


def _removal(remote: Remote, why: str, uids: frozenset[str] | None = None) -> Sequence[DeleteJob | DeleteWorkload]:
    """Of those with these UIDs; None: of all. The job first, so that its controller creates nothing again once the workload is
    gone (contract 3.1)."""
    found: list[DeleteJob | DeleteWorkload] = []
    for delete, item in ((DeleteJob, remote.job), (DeleteWorkload, remote.workload)):
        meta = item.metadata if item is not None else None
        if meta is not None and meta.deletion_timestamp is None and (uids is None or meta.uid in uids):
            found.append(delete(cluster=remote.cluster, why=why, uid=meta.uid))
    return found


_EFFECTS: dict[type[Desired], Callable[[Any, Plan, Remote, datetime], Iterable[Action]]] = {
    Absent: _absent,
    Copied: _copied,
    Ungated: _ungated,
    Stopped: _stopped,
    InStep: _in_step,
    Running: _running,
    Scaled: _scaled,
    Found: _found,
}
