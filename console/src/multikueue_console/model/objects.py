"""What the console has seen of one manager cluster: objects without what nobody looks at, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar, cast

import msgspec

from multikueue.answers.seen import SeenJob
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue
from multikueue.api.kueue.workload import (
    JOB_UID_LABEL,
    Admission,
    PodSetRequest,
    Workload,
    WorkloadStatus,
    workload_spec,
)
from multikueue.api.meta import Condition, ObjectKey, ObjectMeta, decoder, encode
from multikueue.api.multikueue.clusters import MultiKueueCluster, MultiKueueConfig
from multikueue_console.model.attempts import Attempt
from multikueue_console.model.worker_figures import WorkerFigures

__all__ = ["LAST_APPLIED", "SeenObjects", "slim_job", "slim_workload"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

T = TypeVar("T")

_NOTHING = msgspec.Raw(b"{}")


@dataclass(slots=True, kw_only=True)
class SeenObjects:
    """Objects as last seen. A mapping that is None is of a kind that may not be listed.

    `jobs`: those that run, by UID. `attempts`: what became of each workload so far, by key. `figures`: what the manager's
    metrics tell of its workers, by name.
    """

    workloads: Mapping[ObjectKey, Workload] = field(default_factory=dict)
    jobs: Mapping[str, SeenJob] = field(default_factory=dict)
    local_queues: Mapping[ObjectKey, LocalQueue] | None = None
    cluster_queues: Mapping[ObjectKey, ClusterQueue] | None = None
    cohorts: Mapping[ObjectKey, Cohort] | None = None
    checks: Mapping[ObjectKey, AdmissionCheck] | None = None
    configs: Mapping[ObjectKey, MultiKueueConfig] | None = None
    clusters: Mapping[ObjectKey, MultiKueueCluster] | None = None
    attempts: Mapping[ObjectKey, tuple[Attempt, ...]] = field(default_factory=dict)
    figures: Mapping[str, WorkerFigures] = field(default_factory=dict)

    def cluster_queue_of(self, queue: ObjectKey) -> str:
        """The ClusterQueue behind a LocalQueue; empty if that is not known."""
        found = (self.local_queues or {}).get(queue)
        return found.spec.cluster_queue if found is not None else ""


def slim_workload(workload: Workload) -> Workload:
    """The workload without pod templates, without its resource version and without the text of `kubectl apply`. What many
    workloads have in common, such as reasons and the words of an admission, is there once for all of them: together that takes
    a twentieth of the memory."""
    spec = workload_spec(workload)
    sets = tuple(
        msgspec.structs.replace(each, template=_NOTHING, topology_request=msgspec.Raw(b"null"))
        for each in spec.pod_sets
    )
    return msgspec.structs.replace(
        workload,
        metadata=_slim_meta(workload.metadata),
        spec=_raw(encode(msgspec.structs.replace(spec, pod_sets=sets))),
        status=_slim_status(workload.status),
    )


def slim_job(job: SeenJob) -> SeenJob | None:
    """What the state of a workload asks of its job: how many pods are ready, and whether it has ended. None for one that has
    ended or has nothing ready, of which the workload tells enough."""
    if job.end is not None or not job.ready:
        return None
    meta = ObjectMeta(name=job.meta.name, namespace=job.meta.namespace, uid=job.meta.uid)
    return SeenJob(kind=job.kind, meta=meta, ready=job.ready)


def _slim_meta(meta: ObjectMeta) -> ObjectMeta:
    owners = tuple(
        msgspec.structs.replace(each, api_version=_same(each.api_version), kind=_same(each.kind))
        for each in meta.owner_references
    )
    return msgspec.structs.replace(
        meta,
        namespace=_same(meta.namespace),
        resource_version="",
        creation_timestamp=_same(meta.creation_timestamp),
        labels=_without(meta.labels, JOB_UID_LABEL) if owners else meta.labels,
        annotations=_without(meta.annotations, LAST_APPLIED),
        owner_references=owners,
    )


def _without(texts: dict[str, str], name: str) -> dict[str, str]:
    return {each: text for each, text in texts.items() if each != name} or _NO_TEXTS


def _slim_status(status: WorkloadStatus) -> WorkloadStatus:
    return msgspec.structs.replace(
        status,
        conditions=tuple(map(_slim_condition, status.conditions)),
        admission=_admission(encode(status.admission)) if status.admission is not None else None,
        resource_requests=_requests(encode(status.resource_requests)) if status.resource_requests else (),
        cluster_name=_same(status.cluster_name),
    )


def _slim_condition(each: Condition) -> Condition:
    return msgspec.structs.replace(
        each,
        type=_same(each.type),
        reason=_same(each.reason),
        message=_same(each.message),
        last_transition_time=_same(each.last_transition_time),
    )


# What is there once for all that have it, of the values that were seen last.

_kept = lru_cache(maxsize=4096)(lambda value: value)


def _same(value: T) -> T:
    return cast("T", _kept(value))


_raw = lru_cache(maxsize=1024)(msgspec.Raw)
_admission = lru_cache(maxsize=1024)(decoder(Admission))
_requests: Callable[[bytes], tuple[PodSetRequest, ...]] = lru_cache(maxsize=1024)(
    msgspec.json.Decoder(tuple[PodSetRequest, ...]).decode
)
_NO_TEXTS: dict[str, str] = {}
