"""Actions of the jobs controller on the manager cluster. Each is safe to repeat; patches carry their preconditions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from multikueue.api.kubernetes.event import Event
from multikueue.api.meta import ObjectKey


class CreateWorkload(msgspec.Struct, frozen=True):
    """Create this Workload. AlreadyExists: an older one of that name is still being deleted, so reconcile again."""

    body: dict[str, Any]


class UpdateWorkloadSpec(msgspec.Struct, frozen=True):
    """Merge-patch the Workload outside its status (spec, labels, annotations). Carries the resource version."""

    key: ObjectKey
    patch: dict[str, Any]


class PatchWorkloadStatus(msgspec.Struct, frozen=True):
    """Merge-patch the Workload's status. Carries the resource version."""

    key: ObjectKey
    patch: dict[str, Any]


class DeleteWorkload(msgspec.Struct, frozen=True):
    """Delete the Workload with this UID as precondition. RemoveFinalizer follows once it has a deletion timestamp."""

    key: ObjectKey
    uid: str


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Remove our finalizer from a Workload that is being deleted: nothing of its job runs any more."""

    key: ObjectKey


class PatchJob(msgspec.Struct, frozen=True):
    """Merge-patch the job. The patch already carries its preconditions. `is_all`: as of `PatchJobStatus`, and the
    workload does not depend on what is patched."""

    patch: dict[str, Any]
    is_all: bool = False


class PatchJobStatus(msgspec.Struct, frozen=True):
    """Merge-patch the job's status. The patch already carries UID and resource version.

    `is_all`: no reconcile is needed after this write, unless something else changes.
    """

    patch: dict[str, Any]
    is_all: bool = False

    @property
    def resource_version(self) -> str:
        return str(self.patch["metadata"]["resourceVersion"])


class DeleteJob(msgspec.Struct, frozen=True):
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


class JobDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Actions in order, Events for the user, and the time to the next reconcile if nothing happens (None: no timer)."""

    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    again_after: timedelta | None = None
