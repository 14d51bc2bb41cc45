"""The Workload made for a job, as far as all kinds share it (quota-engine 6.2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from hashlib import sha1, sha256
from itertools import count
from typing import Any

from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import GROUP_ANNOTATION, GROUP_WORKLOAD_ANNOTATION, PodGroup
from multikueue.api.kind import Kind
from multikueue.api.kinds import STATEFUL_SETS, WORKLOADS
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    ATTEMPT_ANNOTATION,
    CLUSTER_LABEL,
    JOB_UID_LABEL,
    MAX_EXEC_TIME_LABEL,
    NON_PREEMPTIBLE_ANNOTATION,
    ORIGIN_LABEL,
    PREBUILT_ANNOTATION,
    PREBUILT_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    RESOURCE_IN_USE,
    SLICE_NAME_ANNOTATION,
    Workload,
    WorkloadSpec,
    owner_of,
    prebuilt_workload,
)
from multikueue.api.meta import Object, ObjectMeta
from multikueue.jobs.framework.priority import Priority, class_marks

MIN_PARALLELISM_ANNOTATION = "kueue.x-k8s.io/job-min-parallelism"

LONGEST_NAME = 63
"""The limit of a label value: a label of the remote job holds the name (contract 9.1)."""

_HASH_LENGTH = 5
_LONG_HASH_LENGTH = 20
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"
_TRAVELLING = (NON_PREEMPTIBLE_ANNOTATION, ADMISSION_GATED_BY_ANNOTATION)
_IDENTIFIERS = frozenset({PREBUILT_ANNOTATION, GROUP_ANNOTATION})
_KEPT_HOME = (_LAST_APPLIED, PREBUILT_ANNOTATION, ADMISSION_GATED_BY_ANNOTATION)
_LABEL_VALUE = re.compile(r"^(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_TOPOLOGY_CHOICES = (
    ("kueue.x-k8s.io/podset-required-topology", "required"),
    ("kueue.x-k8s.io/podset-preferred-topology", "preferred"),
)
_UNCONSTRAINED_TOPOLOGY = "kueue.x-k8s.io/podset-unconstrained-topology"
_SLICE_TOPOLOGY = "kueue.x-k8s.io/podset-slice-required-topology"
_SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"
_POD_SET_GROUP = "kueue.x-k8s.io/podset-group-name"
_GO_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_GO_FALSE = ("0", "f", "F", "false", "FALSE", "False")


def workload_name(kind: Kind[Any], meta: ObjectMeta) -> str:
    """The Workload's name, the same as Kueue's, so that either manager recognises the other's.

    Lower-case kind, `-`, name of the job, `-`, first five hex digits of SHA-1 over kind, group, name and UID, newline
    separated. Kueue cuts the prefix at 247 characters, and then cannot dispatch a name longer than 63; we cut the
    prefix so that the whole fits into a label. Short names are the same either way. Five digits can collide with
    another job's, and any user can create a Workload of that name: `free_name` then gives another name.
    """
    return named(kind, meta)


def named(kind: Kind[Any], meta: ObjectMeta, *more: str) -> str:
    """`workload_name` of one of several Workloads of a job; `more` tells them apart at the end of the hashed text."""
    text = "\n".join((kind.kind, kind.group, meta.name, meta.uid, *more))
    digest = sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    prefix = f"{kind.kind.lower()}-{meta.name}"
    longest = LONGEST_NAME - _HASH_LENGTH - 1
    # A cut may end at a separator, after which no `-` may follow.
    prefix = prefix if len(prefix) <= longest else prefix[:longest].rstrip("-.")
    return f"{prefix}-{digest}"


def free_name(wanted: str, uid: str, is_taken: Callable[[str], bool]) -> str:
    """A free name for the Workload of the job with this UID, whose wanted name belongs to another Workload."""
    for number in count():
        digest = sha256(f"{wanted}\n{uid}\n{number}".encode()).hexdigest()[:_LONG_HASH_LENGTH]
        name = f"{wanted[: LONGEST_NAME - _LONG_HASH_LENGTH - 1].rstrip('-.')}-{digest}"
        if not is_taken(name):
            return name
    raise AssertionError("numbers do not end")


def may_be_its(name: str, kind: Kind[Any], job: Object) -> bool:
    """Whether a Workload of which only the name can be decoded may be that of the job."""
    if name in (prebuilt_name(job), job.metadata.name):
        return True
    whole = f"{kind.kind.lower()}-{job.metadata.name}-"
    cut = whole[: LONGEST_NAME - _LONG_HASH_LENGTH - 1]
    return name.startswith(whole if cut == whole else cut.rstrip("-."))


def renamed(body: dict[str, Any], name: str) -> dict[str, Any]:
    """The Workload under another name; in the first slice of an elastic job the annotation with its own name changes
    too."""
    meta = body["metadata"]
    annotations = meta.get("annotations", {})
    if annotations.get(SLICE_NAME_ANNOTATION) == meta["name"]:
        meta = meta | {"annotations": annotations | {SLICE_NAME_ANNOTATION: name}}
    return body | {"metadata": meta | {"name": name}}


def is_referred_to_by_name(body: dict[str, Any]) -> bool:
    """Whether other objects refer to the Workload by name, so that it cannot be renamed: Pods name their group, and its
    Workload has the group's name."""
    return bool(body["metadata"].get("annotations", {}).get(GROUP_WORKLOAD_ANNOTATION) == "true")


def stateful_set_workload_name(name: str) -> str:
    """The name of a StatefulSet's Workload. Its Pods derive it from the StatefulSet's name alone, so the UID is not
    hashed."""
    return workload_name(STATEFUL_SETS, ObjectMeta(name=name))


def prebuilt_name(job: Object) -> str:
    """The Workload that the user made for the job and named on it; empty if none."""
    return prebuilt_workload(job.metadata)


def owner_reference(kind: Kind[Any], meta: ObjectMeta) -> dict[str, Any]:
    return member_reference(kind, meta) | {"controller": True, "blockOwnerDeletion": True}


def member_reference(kind: Kind[Any], meta: ObjectMeta) -> dict[str, Any]:
    """An owner reference that is not the controller's."""
    return {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta.name, "uid": meta.uid}


def job_uid_labels(meta: ObjectMeta) -> dict[str, str]:
    """The label with the owner's UID, if the UID is a valid label value."""
    return {JOB_UID_LABEL: meta.uid} if meta.uid and _LABEL_VALUE.match(meta.uid) else {}


def workload_body(
    kind: Kind[Any], job: Object, *, pod_sets: list[dict[str, Any]], priority: Priority
) -> dict[str, Any]:
    """The complete Workload of a job with these pod sets."""
    meta = job.metadata
    annotations = travelling(meta) | class_marks(priority)
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": workload_name(kind, meta),
            "namespace": meta.namespace,
            "labels": job_uid_labels(meta),
            **({"annotations": annotations} if annotations else {}),
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": [owner_reference(kind, meta)],
        },
        "spec": workload_spec_body(job, pod_sets=pod_sets, priority=priority),
    }


def group_workload_body(
    job: Object, *, name: str, owners: list[dict[str, Any]], pod_sets: list[dict[str, Any]], priority: Priority
) -> dict[str, Any]:
    """The complete Workload of a group of Pods. It has no controller reference."""
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "annotations": travelling(job.metadata) | class_marks(priority) | {GROUP_WORKLOAD_ANNOTATION: "true"},
            "finalizers": [RESOURCE_IN_USE],
            "ownerReferences": owners,
        },
        "spec": workload_spec_body(job, pod_sets=pod_sets, priority=priority),
    }


def travelling(meta: ObjectMeta) -> dict[str, str]:
    """The annotations of a job that are copied to its Workload."""
    found = meta.annotations.items()
    return {name: text for name, text in found if name in _TRAVELLING or name.startswith(_PROVISIONING_PREFIX)}


def workload_spec_body(job: Object, *, pod_sets: list[dict[str, Any]], priority: Priority) -> dict[str, Any]:
    seconds = maximum_execution_time(job)
    return {
        "podSets": pod_sets,
        "queueName": job.metadata.labels.get(QUEUE_LABEL, ""),
        "priority": priority.value,
        **({"priorityClassRef": priority.class_ref} if priority.class_ref else {}),
        **({"maximumExecutionTimeSeconds": seconds} if seconds else {}),
    }


def remote_metadata(job: Object, *, workload_name: str, origin: str, attempt: str, queue: str | None) -> dict[str, Any]:
    """The metadata of a job's copy (contract 1.6): the job's labels and annotations, and our marks.

    `queue` is the Workload's queue: the job's label may have changed since the reservation.
    """
    meta = job.metadata
    labels = {k: v for k, v in meta.labels.items() if k not in (PREBUILT_LABEL, CLUSTER_LABEL)} | {ORIGIN_LABEL: origin}
    annotations = {k: v for k, v in meta.annotations.items() if k not in _KEPT_HOME}
    metadata = {
        "name": meta.name,
        "namespace": meta.namespace,
        "labels": labels | ({QUEUE_LABEL: queue} if queue else {}),
        "annotations": annotations | {ATTEMPT_ANNOTATION: attempt},
    }
    return with_identifier(metadata, PREBUILT_LABEL, workload_name)


def with_identifier(metadata: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """The metadata of a copy with the name of a Workload or group, in a label, which every worker knows. But one may be too
    long for a label, and goes into the annotation of the same key, which takes Kueue 0.18."""
    place, other = ("labels", "annotations") if len(name) <= LONGEST_NAME else ("annotations", "labels")
    elsewhere = {each: text for each, text in metadata[other].items() if each != key}
    return metadata | {place: metadata[place] | {key: name}, other: elsewhere}


def by_label(job: AnyJob) -> AnyJob:
    """The job without the annotations that name its Workload and its group, which count nothing before Kueue 0.18."""
    meta = job.metadata
    if not meta.annotations.keys() & _IDENTIFIERS:
        return job
    kept = {key: text for key, text in meta.annotations.items() if key not in _IDENTIFIERS}
    return replace(job, metadata=replace(meta, annotations=kept))


def precisely(job: Object) -> dict[str, Any]:
    """Preconditions of a patch: the job's UID and resource version as seen."""
    return {"metadata": {"uid": job.metadata.uid, "resourceVersion": job.metadata.resource_version}}


def maximum_execution_time(job: Object) -> int | None:
    """The job's maximum execution time in seconds; None without the label, or if it is no positive 32 bit number."""
    return positive(job.metadata.labels.get(MAX_EXEC_TIME_LABEL, ""))


def may_be_of(workload: Workload, spec: WorkloadSpec, job: Object) -> bool:
    """Whether no other job owns the Workload, and the execution times agree. Checked before pod sets are compared."""
    owner = owner_of(workload)
    return (owner is None or owner.name == job.metadata.name) and has_time_of(spec, job)


def has_time_of(spec: WorkloadSpec, job: Object) -> bool:
    """Whether the Workload's maximum execution time is the job's."""
    return (spec.maximum_execution_time_seconds or None) == maximum_execution_time(job)


def workload_priority_class(job: Object) -> str:
    return job.metadata.labels.get(PRIORITY_CLASS_LABEL, "")


def is_owned(workload: Workload, job: Object) -> bool:
    if isinstance(job, PodGroup):
        return is_of_group(workload) and workload.metadata.name == job.metadata.name
    owner = owner_of(workload)
    return owner is not None and owner.uid == job.metadata.uid


def is_of_group(workload: Workload) -> bool:
    """Whether the Workload is that of a group of Pods: all Pods own it, or their StatefulSet does, and nothing controls
    it."""
    return workload.metadata.annotations.get(GROUP_WORKLOAD_ANNOTATION) == "true"


def positive(text: str) -> int | None:
    """A positive 32 bit number as Kueue reads it from a label; None for any other text."""
    if not re.fullmatch(r"\+?[0-9]{1,10}", text):
        return None
    number = int(text)
    return number if 0 < number < 2**31 else None


def topology_request(
    annotations: Mapping[str, str], *, pod_index_label: str, groups: tuple[str, int] | None = None
) -> dict[str, Any]:
    """The topology request of a pod set, from the annotations of its template; empty if none.

    `groups` is the label that numbers the groups of its pods, and the number of groups. Values that Kueue refuses are
    left out.
    """
    request: dict[str, Any] = {"podIndexLabel": pod_index_label} if pod_index_label else {}
    if groups is not None:
        request |= {"subGroupIndexLabel": groups[0], "subGroupCount": groups[1]}
    chosen = next(((field, annotations[key]) for key, field in _TOPOLOGY_CHOICES if key in annotations), None)
    if chosen:
        request[chosen[0]] = chosen[1]
        if _POD_SET_GROUP in annotations:
            request["podSetGroupName"] = annotations[_POD_SET_GROUP]
    elif annotations.get(_UNCONSTRAINED_TOPOLOGY) in (*_GO_TRUE, *_GO_FALSE):
        request["unconstrained"] = annotations[_UNCONSTRAINED_TOPOLOGY] in _GO_TRUE
    size = positive(annotations.get(_SLICE_SIZE, ""))
    if size and _SLICE_TOPOLOGY in annotations:
        request |= {"podSetSliceRequiredTopology": annotations[_SLICE_TOPOLOGY], "podSetSliceSize": size}
    return request
