"""The status of a Pod on a worker, as its gated Pod on the manager cluster gets it (contract 1.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import PENDING, pod_status
from multikueue.api.meta import encode
from multikueue.api.values.canonical import canonical

__all__ = ["HELD", "at_home", "is_fresh", "news"]

Tree = dict[str, Any]

HELD = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""The condition that the API server sets on a gated Pod."""


def is_fresh(pod: AnyJob) -> bool:
    status = pod_status(pod)
    return status.phase in ("", PENDING) and status.start_time is None and not status.has("PodScheduled")


def at_home(status: Tree) -> Tree:
    """The status for the local Pod. A PodScheduled that is not True gets the reason SchedulingGated: for Unschedulable,
    a cluster autoscaler here would add a node."""
    conditions = status.get("conditions") or []
    unscheduled = [each for each in conditions if each.get("type") == "PodScheduled" and each.get("status") != "True"]
    if not unscheduled:
        return status
    explained = [each | {"reason": HELD["reason"]} if each in unscheduled else each for each in conditions]
    return status | {"conditions": explained}


def news(ours: Tree, theirs: Tree) -> msgspec.Raw | None:
    """The status `theirs` for a Pod whose own is `ours`; None if it is not new. A Pod's QoS class never changes."""
    kept = {"qosClass": ours["qosClass"]} if "qosClass" in ours else {}
    wanted = {key: value for key, value in theirs.items() if key != "qosClass"} | kept
    return msgspec.Raw(encode(wanted)) if canonical(wanted) != canonical(ours) else None
