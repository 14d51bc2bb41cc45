"""What the decision wants done on a worker. Each is safe to repeat, and each carries its own reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from multikueue.api.job import AnyJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    cluster: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateWorkload(Action):
    """Make our copy of the workload."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWorkload(Action):
    """Remove our copy; `uid` is the precondition that keeps us from deleting anything else."""

    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchWorkload(Action):
    """Bring the copy's spec in step: its priority, or the counts of an elastic one."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deactivate(Action):
    """Ask the worker's Kueue to evict the copy: the manager has evicted the workload."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateJob(Action):
    """Make the job of the winner: the one irreversible step. `attempt` is the reservation it is made for."""

    attempt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchJob(Action):
    """Make that job, of an elastic workload, the one of this slice, in its present size."""

    job: AnyJob
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindJob(Action):
    """Learn what became of a job on a worker: of one we asked for, without an answer, or of which no news come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob(Action):
    """Remove our job and what it runs; `uid` is the precondition."""

    uid: str
