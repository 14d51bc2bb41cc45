"""Actions of an outbox on its worker. Each is safe to repeat, and each carries its own reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from multikueue.api.jobs.job import AnyJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    cluster: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWorkload(Action):
    """Create our copy of the workload."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkload(Action):
    """Delete our copy; the precondition `uid` protects any other object of its name."""

    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchWorkload(Action):
    """Update the copy's spec: its priority, or the counts of an elastic one."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStatus(Action):
    """Tell the worker's Kueue by the copy's status: to evict it, as the manager has evicted the workload, or that it
    may preempt."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob(Action):
    """Create the job on the winner: the one irreversible step. `attempt` is the reservation it is made for."""

    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchJob(Action):
    """Give the job of an elastic workload the name, attempt and present size of this slice."""

    job: AnyJob
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindJob(Action):
    """Read a job live from the worker: one whose creation got no answer, or one without events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(Action):
    """Delete our job and its pods; `uid` is the precondition."""

    uid: str
