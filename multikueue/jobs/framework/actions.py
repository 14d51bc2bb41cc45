"""What the jobs controller shall do on the manager. Each is safe to repeat; patches carry their preconditions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from multikueue.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Create this Workload. AlreadyExists means that an older one of that name is still going: look again."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateWorkloadSpec:
    """Merge-patch the Workload itself (spec, and what marks it). Carries the resource version."""

    key: ObjectKey
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PatchWorkloadStatus:
    """Merge-patch the Workload's status. Carries the resource version."""

    key: ObjectKey
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete the Workload with this UID as precondition. Its finalizer is removed once it is being deleted."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let go of a Workload that is being deleted: nothing of its job runs any more."""

    key: ObjectKey


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Merge-patch the job. The patch already carries its preconditions."""

    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PatchJobStatus:
    """Merge-patch the job's status. The patch already carries UID and resource version.

    `is_all`: once it is written, and nothing else is new, there is nothing more to do for the job.
    """

    patch: dict[str, Any]
    is_all: bool = False

    @property
    def resource_version(self) -> str:
        return str(self.patch["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the job with this UID: one that cannot be held again is stopped so."""

    uid: str


Action = (
    CreateWorkload
    | UpdateWorkloadSpec
    | PatchWorkloadStatus
    | DeleteWorkload
    | RemoveFinalizer
    | PatchJob
    | PatchJobStatus
    | DeleteJob
)


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event to record on the job; reasons as in Kueue."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """What to do now, in this order; what to tell the user; when to look again if nothing happens."""

    actions: tuple[Action, ...] = ()
    events: tuple[JobEvent, ...] = ()
    again_after: timedelta | None = None
