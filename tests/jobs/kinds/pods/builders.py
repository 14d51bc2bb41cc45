"""Pods as the API server shows them."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from multikueue.api.jobs.pod import (
    ADMISSION_GATE,
    GROUP_COUNT_ANNOTATION,
    GROUP_LABEL,
    MANAGED_LABEL,
    POD_FINALIZER,
    TOPOLOGY_GATE,
    Pod,
    PodGroup,
)
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.api.meta import decoder, encode

Tree = dict[str, Any]

GATES = [{"name": ADMISSION_GATE}, {"name": TOPOLOGY_GATE}]
HELD = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastTransitionTime": None,
}
FRESH: Tree = {"phase": "Pending", "qosClass": "Burstable", "conditions": [HELD]}
RUNNING: Tree = {
    "phase": "Running",
    "qosClass": "Burstable",
    "startTime": "2026-01-01T12:00:00Z",
    "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
    "containerStatuses": [{"name": "main", "ready": True}],
}
OVER: Tree = RUNNING | {"phase": "Succeeded", "conditions": [{"type": "PodScheduled", "status": "True"}]}


def spec(*, gated: bool = True, **more: Any) -> Tree:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    gates = {"schedulingGates": copy.deepcopy(GATES)} if gated else {}
    return {"containers": [container], "restartPolicy": "Never", "priority": 0} | gates | more


def body(name: str = "p", *, status: Tree = FRESH, labels: Tree | None = None, gated: bool = True, **more: Any) -> Tree:
    """A Pod in the queue `main` that the webhook has held; `more` goes into its spec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {QUEUE_LABEL: "main", MANAGED_LABEL: "true"} | (labels or {}),
            "finalizers": ["example.com/other", POD_FINALIZER],
        },
        "spec": spec(gated=gated, **more),
        "status": copy.deepcopy(status),
    }


def pod(name: str = "p", **more: Any) -> Pod:
    return decoder(Pod)(encode(body(name, **more)))


def member(name: str, *, total: int = 2, annotations: Tree | None = None, **more: Any) -> Pod:
    """A Pod of the group `g`."""
    made = body(name, labels={GROUP_LABEL: "g"} | more.pop("labels", {}), **more)
    made["metadata"]["annotations"] = {GROUP_COUNT_ANNOTATION: str(total)} | (annotations or {})
    return decoder(Pod)(encode(made))


def group(*members: Pod) -> PodGroup:
    """These as one job, as the store gathers them."""
    first = members[0].metadata
    meta = msgspec.structs.replace(first, name="g", uid="uid-g", finalizers=())
    return PodGroup(metadata=meta, members=members)
