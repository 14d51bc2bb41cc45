"""Elastic jobs, which may change their size while they run, and the links between their Workloads, the slices.

Scaled down, a job keeps its Workload, with lower counts. Scaled up, it gets another Workload, which replaces the first
once there is quota for it.
"""

from __future__ import annotations

from multikueue.api.kueue.workload import (
    ELASTIC_ANNOTATION,
    FINISHED,
    OUT_OF_SYNC,
    REPLACES_ANNOTATION,
    SLICE_NAME_ANNOTATION,
    SLICE_REPLACED,
    Workload,
)
from multikueue.api.meta import Object, ObjectKey, controller_of

__all__ = ["is_elastic", "is_past", "job_of", "replaced_key", "slice_name"]


def is_elastic(item: Object) -> bool:
    """Whether a job, or its Workload, is marked as elastic."""
    return item.metadata.annotations.get(ELASTIC_ANNOTATION) == "true"


def is_past(workload: Workload) -> bool:
    """Whether the Workload is finished because its job goes on without it: that says nothing about the job."""
    end = workload.condition(FINISHED)
    return end is not None and end.status == "True" and end.reason in (SLICE_REPLACED, OUT_OF_SYNC)


def job_of(workload: Workload) -> str:
    """The UID of the job that a Workload is, or may be, a slice of; empty without a controller."""
    owner = controller_of(workload.metadata)
    return owner.uid if owner is not None else ""


def replaced_key(workload: Workload) -> ObjectKey | None:
    """The slice that this one replaces or replaced; None if it is the first of its job, or no slice."""
    text = workload.metadata.annotations.get(REPLACES_ANNOTATION)
    if not text or not is_elastic(workload):
        return None
    namespace, _, name = text.rpartition("/")
    key = ObjectKey(namespace, name)
    return key if namespace == workload.metadata.namespace and key != workload.key else None


def slice_name(workload: Workload) -> str:
    """The name of the first slice of its job."""
    return workload.metadata.annotations.get(SLICE_NAME_ANNOTATION) or workload.metadata.name
