"""Elastic batch Jobs: which Workload is that of their present size, and what their copy on a worker must have.

Kueue's rules (contract 1.5, 3.5, 5.3): the size of a job that has quota is changed downwards in its Workload, upwards by
another Workload, a slice, that takes the place of the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from multikueue.api.job import AnyJob, Job, job_spec
from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectMeta, encode
from multikueue.api.slices import is_elastic, is_past, replaced_key, slice_name
from multikueue.api.workload import (
    ATTEMPT_ANNOTATION,
    ELASTIC_ANNOTATION,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    REPLACES_ANNOTATION,
    SLICE_NAME_ANNOTATION,
    Workload,
    workload_spec,
)
from multikueue.jobs.batch_job.adapter import BATCH_JOB
from multikueue.jobs.batch_job.size import pods_count
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import named, prebuilt_name, precisely

__all__ = [
    "count_patch",
    "in_order",
    "is_sliced",
    "present",
    "remote_patch",
    "size",
    "slice_body",
    "suits",
]

Tree = dict[str, Any]


def is_sliced(job: AnyJob, workloads: Iterable[Workload] = ()) -> bool:
    """Whether it is an elastic job of a kind that can be, whose Workloads we make. What began as one stays so, whatever
    is said on it later."""
    return type(job) is Job and not prebuilt_name(job) and (is_elastic(job) or any(map(is_elastic, workloads)))


def present(workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
    """The Workloads without the slices whose place others have taken."""
    return tuple(w for w in workloads if not is_past(w))


def in_order(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """The oldest first; times are in whole seconds, so that the one which replaces another comes after it."""
    found = sorted(workloads, key=lambda w: (_created(w), w.metadata.name))
    for index in range(len(found) - 1):
        if replaced_key(found[index]) == found[index + 1].key:
            found[index], found[index + 1] = found[index + 1], found[index]
    return tuple(found)


def _created(workload: Workload) -> str:
    created = workload.metadata.creation_timestamp
    return created.isoformat() if created else ""


def slice_body(job: AnyJob, *, priority: Priority, replaces: Workload | None = None) -> Tree:
    """The Workload of the job in its present size, named by its generation, as Kueue's."""
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
    """For how many pods it is."""
    return sum(pod_set.count for pod_set in workload_spec(workload).pod_sets)


def suits(job: AnyJob, workload: Workload) -> bool:
    """Whether the Workload is a slice that describes the job, or would with another count."""
    if not is_elastic(workload) or workload.metadata.deletion_timestamp is not None:
        return False
    return BATCH_JOB.matches(job, workload) or BATCH_JOB.matches(job, _with_count(workload, pods_count(job)))


def count_patch(job: AnyJob, workload: Workload) -> Tree:
    """The merge patch that gives a Workload the job's present size, and changes nothing else."""
    resized = _with_count(workload, pods_count(job))
    return {
        "metadata": {"resourceVersion": workload.metadata.resource_version},
        "spec": {"podSets": msgspec.json.decode(resized.spec)["podSets"]},
    }


def _with_count(workload: Workload, count: int) -> Workload:
    spec: Tree = msgspec.json.decode(workload.spec)
    pod_sets = [pod_set | {"count": count} for pod_set in spec.get("podSets") or ()]
    return msgspec.structs.replace(workload, spec=msgspec.Raw(encode(spec | {"podSets": pod_sets})))


def remote_patch(job: AnyJob, remote: AnyJob, workload: Workload, *, attempt: str) -> Tree | None:
    """The merge patch that makes the remote job that of this Workload, in its size; None if it is.

    While the Workload tells of another size than the job has, a later slice may be on its way to be admitted: then the
    size stays as it is.
    """
    if type(job) is not Job or type(remote) is not Job:
        return None
    meta = remote.metadata
    # One that Kueue's own MultiKueue made may be named by an annotation, which goes before a label.
    prebuilt = {PREBUILT_LABEL: workload.metadata.name}
    by_label = PREBUILT_ANNOTATION not in meta.annotations
    labels = _differing(prebuilt if by_label else {}, meta.labels)
    annotations = _differing({ATTEMPT_ANNOTATION: attempt} | ({} if by_label else prebuilt), meta.annotations)
    spec = _resized(job, remote) if size(workload) == pods_count(job) else {}
    if not (labels or annotations or spec):
        return None
    marks = {key: value for key, value in (("labels", labels), ("annotations", annotations)) if value}
    return {"metadata": precisely(remote)["metadata"] | marks} | ({"spec": spec} if spec else {})


def _differing(wanted: dict[str, str], found: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in wanted.items() if found.get(name) != value}


def _resized(job: AnyJob, remote: AnyJob) -> Tree:
    """With indexes, completions change along with the parallelism; else the API server lets them never change."""
    ours, theirs = job_spec(job), job_spec(remote)
    pairs = (
        ("parallelism", ours.parallelism, theirs.parallelism),
        ("completions", ours.completions, theirs.completions),
    )
    return {name: wanted for name, wanted, found in pairs if wanted != found}
