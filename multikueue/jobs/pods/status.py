"""What the status of a Pod on a worker says at home, where its Pod is held (contract 1.7)."""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.canonical import canonical
from multikueue.api.job import AnyJob
from multikueue.api.meta import encode
from multikueue.api.pod import PENDING, pod_status

__all__ = ["HELD", "at_home", "is_fresh", "news"]

Tree = dict[str, Any]

HELD = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""What the API server says of a Pod that has a gate."""


def is_fresh(pod: AnyJob) -> bool:
    status = pod_status(pod)
    return status.phase in ("", PENDING) and status.start_time is None and not status.has("PodScheduled")


def at_home(status: Tree) -> Tree:
    """That no node of the worker takes the Pod is said in other words, or an autoscaler here would make one for it."""
    conditions = status.get("conditions") or []
    unscheduled = [each for each in conditions if each.get("type") == "PodScheduled" and each.get("status") != "True"]
    if not unscheduled:
        return status
    mended = [each | {"reason": HELD["reason"]} if each in unscheduled else each for each in conditions]
    return status | {"conditions": mended}


def news(ours: Tree, theirs: Tree) -> msgspec.Raw | None:
    """That status for a Pod whose own is `ours`; None if it says nothing new. A Pod's class of service never changes."""
    kept = {"qosClass": ours["qosClass"]} if "qosClass" in ours else {}
    wanted = {key: value for key, value in theirs.items() if key != "qosClass"} | kept
    return msgspec.Raw(encode(wanted)) if canonical(wanted) != canonical(ours) else None
