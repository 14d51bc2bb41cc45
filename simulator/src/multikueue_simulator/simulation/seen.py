"""Accessors of plain objects, for the stage and the invariants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fakekube.model.wire import Object
from multikueue.api.kueue.workload import ATTEMPT_ANNOTATION, ORIGIN_LABEL, PREBUILT_LABEL
from multikueue.api.meta import ObjectKey

__all__ = [
    "attempt",
    "condition",
    "condition_of",
    "is_active",
    "is_leaving",
    "is_ours",
    "is_running",
    "is_true",
    "key",
    "labels",
    "owner",
    "owner_uid",
    "result",
    "workload_key",
]


def key(body: Object) -> ObjectKey:
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def labels(body: Object) -> Object:
    return body["metadata"].get("labels") or {}


def is_ours(body: Object) -> bool:
    """Whether an object has a manager's origin label."""
    return ORIGIN_LABEL in labels(body)


def is_leaving(body: Object) -> bool:
    return "deletionTimestamp" in body["metadata"]


def attempt(body: Object) -> str:
    """The mark of the reservation for which a remote object was created."""
    found: str = (body["metadata"].get("annotations") or {}).get(ATTEMPT_ANNOTATION, "")
    return found


def condition_of(conditions: Iterable[Object], type_: str) -> Object | None:
    return next((each for each in conditions if each["type"] == type_), None)


def condition(body: Object, type_: str) -> Object | None:
    return condition_of((body.get("status") or {}).get("conditions") or (), type_)


def is_true(body: Object, type_: str) -> bool:
    found = condition(body, type_)
    return found is not None and found["status"] == "True"


def owner(workload: Object) -> str:
    """The name of the job that owns a workload."""
    name: str = _controller(workload).get("name", "")
    return name


def owner_uid(workload: Object) -> str:
    """The UID of the job that owns a workload."""
    uid: str = _controller(workload).get("uid", "")
    return uid


def _controller(body: Object) -> Any:
    owners = body["metadata"].get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), {})


def workload_key(remote_job: Object) -> ObjectKey:
    """The key of the workload for which a remote job was created."""
    return ObjectKey(remote_job["metadata"].get("namespace", ""), labels(remote_job).get(PREBUILT_LABEL, ""))


def is_active(workload: Object) -> bool:
    """Whether a workload is not deactivated."""
    return bool(workload["spec"].get("active", True))


def is_running(job: Object) -> bool:
    return bool((job.get("status") or {}).get("active"))


def result(job: Object) -> str:
    """`Complete` or `Failed`; empty for an unfinished job."""
    return next((type_ for type_ in ("Complete", "Failed") if is_true(job, type_)), "")
