"""The status of a Workload that Kueue's core writes too, and how to share it (contract 3.13).

Kueue's core uses server-side apply as one field manager, always with all fields that this manager owns. It clears
`clusterName` and the nominations by omitting them, which removes only what no other field manager owns. So a second
writer of the Workload applies under the same name, with the same fields, from the version that it read.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FAILED_ON,
    FINISHED,
    FITS_NO_WORKER,
    NOMINATED,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
    RequeueState,
    Workload,
    WorkloadStatus,
)

KUEUE_ADMISSION = "kueue-admission"
"""The field manager of Kueue's core."""

SHARED_CONDITIONS = frozenset({QUOTA_RESERVED, EVICTED, ADMITTED, PREEMPTED, REQUEUED, DEACTIVATION_TARGET, FINISHED})
"""The conditions that it owns; others, such as PodsReady, have field managers of their own."""

OUR_CONDITIONS = frozenset({NOMINATED, FAILED_ON, FITS_NO_WORKER})
"""The conditions that are ours alone, under a field manager of our own: Kueue's core would drop them."""


def shared_part(status: WorkloadStatus) -> WorkloadStatus:
    """The part of a status that Kueue's core applies, always as a whole."""
    return replace(
        status,
        conditions=tuple(c for c in status.conditions if c.type in SHARED_CONDITIONS),
        requeue_state=None if status.requeue_state == RequeueState() else status.requeue_state,
        # Once there is an admission, its resource usage takes their place.
        resource_requests=() if status.admission is not None else status.resource_requests,
        reclaimable_pods=(),
    )


def our_part(status: WorkloadStatus) -> WorkloadStatus:
    """The part of a status that is ours alone."""
    return WorkloadStatus(conditions=tuple(c for c in status.conditions if c.type in OUR_CONDITIONS))


def applied(workload: Workload, part: WorkloadStatus) -> dict[str, Any]:
    """The body that applies `part`, for exactly the version of the workload that was read."""
    meta = workload.metadata
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
        "status": part,
    }
