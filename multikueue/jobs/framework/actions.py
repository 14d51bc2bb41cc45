"""Actions of the jobs controller on the manager cluster. Each is safe to repeat; patches carry their preconditions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from multikueue.api.kubernetes.event import Event
from multikueue.api.meta import ObjectKey


@dataclass(frozen=True, slots=True)
class CreateWorkload:
    """Create this Workload. AlreadyExists: an older one of that name is still being deleted, so reconcile again."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateWorkloadSpec:
    """Merge-patch the Workload outside its status (spec, labels, annotations). Carries the resource version."""

    key: ObjectKey
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PatchWorkloadStatus:
    """Merge-patch the Workload's status. Carries the resource version."""

    key: ObjectKey
    patch: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DeleteWorkload:
    """Delete the Workload with this UID as precondition. RemoveFinalizer follows once it has a deletion timestamp."""

    key: ObjectKey
    uid: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Remove our finalizer from a Workload that is being deleted: nothing of its job runs any more."""

    key: ObjectKey


@dataclass(frozen=True, slots=True)
class PatchJob:
    """Merge-patch the job. The patch already carries its preconditions. `is_all`: as of `PatchJobStatus`, and the
    workload does not depend on what is patched."""

    patch: dict[str, Any]
    is_all: bool = False


@dataclass(frozen=True, slots=True)
class PatchJobStatus:
    """Merge-patch the job's status. The patch already carries UID and resource version.

    `is_all`: no reconcile is needed after this write, unless something else changes.
    """

    patch: dict[str, Any]
    is_all: bool = False

    @property
    def resource_version(self) -> str:
        return str(self.patch["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete the job with this UID: the way to stop a job that cannot be suspended again."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecision:
    """Actions in order, Events for the user, and the time to the next reconcile if nothing happens (None: no timer)."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    again_after: timedelta | None = None
