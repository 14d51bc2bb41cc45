"""Elastic batch Jobs: the Workload of the present size, and the patch of the copy on a worker.

Kueue's rules (contract 1.5, 3.5, 5.3): a job with quota is scaled down in its Workload, and scaled up by another
Workload, a slice, that replaces the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob, Job
from multikueue.api.kinds import JOBS
from multikueue.api.kueue.slices import is_elastic, is_past, replaced_key, slice_name
from multikueue.api.kueue.workload import (
    ATTEMPT_ANNOTATION,
    ELASTIC_ANNOTATION,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    REPLACES_ANNOTATION,
    SLICE_NAME_ANNOTATION,
    ReclaimablePod,
    Workload,
    workload_spec,
)
from multikueue.api.meta import ObjectMeta, encode
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import named, prebuilt_name, precisely
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.batch_job.template import pods_count

__all__ = [
    "count_patch",
    "freed",
    "in_order",
    "is_sliced",
    "may_be_slice_of",
    "present",
    "remote_patch",
    "size",
    "slice_body",
]

Tree = dict[str, Any]


def is_sliced(job: AnyJob, workloads: Iterable[Workload] = ()) -> bool:
    """Whether it is an elastic batch Job whose Workloads we create. A job with an elastic Workload stays elastic, even
    if the annotation is removed later."""
    return type(job) is Job and not prebuilt_name(job) and (is_elastic(job) or any(map(is_elastic, workloads)))


def present(workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    """The Workloads without replaced slices."""
    return tuple(w for w in workloads if not is_past(w))


def in_order(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """The oldest first. Creation times are in whole seconds, so a slice is moved after the one it replaces."""
    found = sorted(workloads, key=lambda w: (_created(w), w.metadata.name))
    for index in range(len(found) - 1):
        if replaced_key(found[index]) == found[index + 1].key:
            found[index], found[index + 1] = found[index + 1], found[index]
    return tuple(found)


def _created(workload: Workload) -> str:
    created = workload.metadata.creation_timestamp
    return created.isoformat() if created else ""


def slice_body(job: AnyJob, *, priority: Priority, replaces: Workload | None = None) -> Tree:
    """The Workload of the job in its present size. The generation is part of the name, as in Kueue."""
    body = BATCH_JOB.workload_body(job, priority=priority)
    meta = body["metadata"]
    name = slice_workload_name(job.metadata)
    marks = {ELASTIC_ANNOTATION: "true", SLICE_NAME_ANNOTATION: slice_name(replaces) if replaces else name}
    if replaces is not None:
        marks[REPLACES_ANNOTATION] = str(replaces.key)
    return body | {"metadata": meta | {"name": name, "annotations": meta.get("annotations", {}) | marks}}


def slice_workload_name(meta: ObjectMeta) -> str:
    return named(JOBS, meta, str(meta.generation))


def size(workload: Workload) -> int:
    """The number of pods that the Workload asks for."""
    return sum(pod_set.count for pod_set in workload_spec(workload).pod_sets)


def freed(told: tuple[ReclaimablePod, ...], job: AnyJob, workload: Workload) -> tuple[ReclaimablePod, ...]:
    """The pods of the Workload that neither run nor may run again, by what is `told` of the job that runs for it.

    An elastic Workload that is scaled down has its new size before that job has it. Of 6 pods of which 4 run, 2 are over,
    and none of the 4 that are left.
    """
    if not told or type(job) is not Job or not is_elastic(workload):
        return told
    ahead = max(0, pods_count(job) - size(workload))
    return tuple(replace(pods, count=pods.count - ahead) for pods in told if pods.count > ahead)


def may_be_slice_of(job: AnyJob, workload: Workload) -> bool:
    """Whether the Workload is a slice that describes the job, apart from the count."""
    if not is_elastic(workload) or workload.metadata.deletion_timestamp is not None:
        return False
    return BATCH_JOB.is_equivalent(job, workload) or BATCH_JOB.is_equivalent(
        job, _with_count(workload, pods_count(job))
    )


def count_patch(job: AnyJob, workload: Workload) -> Tree:
    """The merge patch that changes only the Workload's count to the job's."""
    resized = _with_count(workload, pods_count(job))
    return {
        "metadata": {"resourceVersion": workload.metadata.resource_version},
        "spec": {"podSets": msgspec.json.decode(resized.spec)["podSets"]},
    }


def _with_count(workload: Workload, count: int) -> Workload:
    spec: Tree = msgspec.json.decode(workload.spec)
    pod_sets = [pod_set | {"count": count} for pod_set in spec.get("podSets") or ()]
    return msgspec.structs.replace(workload, spec=msgspec.Raw(encode(spec | {"podSets": pod_sets})))


def remote_patch(
    job: AnyJob, remote: AnyJob, workload: Workload, *, attempt: str, adapter: Adapter = BATCH_JOB
) -> Tree | None:
    """The merge patch that gives the remote job this Workload's name, attempt and size; None if it has them.

    The size stays while the Workload's differs from the job's: a later slice may be about to be admitted.
    """
    spec = adapter.resized(job, remote, pods=size(workload)) if type(job) is type(remote) else None
    if spec is None:
        return None
    meta = remote.metadata
    # One that Kueue's own MultiKueue made may be named by an annotation, which goes before a label.
    prebuilt = {PREBUILT_LABEL: workload.metadata.name}
    by_label = PREBUILT_ANNOTATION not in meta.annotations
    labels = _differing(prebuilt if by_label else {}, meta.labels)
    annotations = _differing({ATTEMPT_ANNOTATION: attempt} | ({} if by_label else prebuilt), meta.annotations)
    if not (labels or annotations or spec):
        return None
    marks = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return {"metadata": precisely(remote)["metadata"] | marks} | ({"spec": spec} if spec else {})


def _differing(wanted: dict[str, str], found: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if found.get(name) != value}
