"""The status of a Workload that Kueue's core writes too: what one must say to share it (contract 3.13, design 5.7).

Kueue's core applies on the server side as one field manager, always with everything that this manager holds. It clears
`clusterName` and the nominations by leaving them out, which takes away only what nobody else holds. So whoever shares the
Workload applies under the same name, with the same fields, from the version that was read.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from multikueue.api.workload import (
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
"""The conditions that it holds; others, as PodsReady, have field managers of their own."""

OUR_CONDITIONS = frozenset({NOMINATED, FAILED_ON, FITS_NO_WORKER})
"""The conditions that are ours alone, so under a field manager of our own: Kueue's core would drop them."""


def shared_part(status: WorkloadStatus) -> WorkloadStatus:
    """What Kueue's core applies of a status, always all of it."""
    return replace(
        status,
        conditions=tuple(c for c in status.conditions if c.type in SHARED_CONDITIONS),
        requeue_state=None if status.requeue_state == RequeueState() else status.requeue_state,
        # Once there is an admission, its resource usage takes their place.
        resource_requests=() if status.admission is not None else status.resource_requests,
        reclaimable_pods=(),
    )


def our_part(status: WorkloadStatus) -> WorkloadStatus:
    """What is ours alone of a status."""
    return WorkloadStatus(conditions=tuple(c for c in status.conditions if c.type in OUR_CONDITIONS))


def applied(workload: Workload, part: WorkloadStatus) -> dict[str, Any]:
    """The body to apply that part with, for exactly the version of the workload that was read."""
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
