"""Actions of an outbox on its worker. Each is safe to repeat, and each carries its own reason."""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob


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
