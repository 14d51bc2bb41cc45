"""What the console has seen of one manager cluster: objects without what nobody looks at, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from multikueue.answers.seen import SeenJob
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import ObjectKey, ObjectMeta, encode
from multikueue.api.multikueue.clusters import MultiKueueCluster, MultiKueueConfig
from multikueue_console.model.attempts import Attempt

__all__ = ["LAST_APPLIED", "SeenObjects", "slim_job", "slim_workload"]

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_NOTHING = msgspec.Raw(b"{}")


@dataclass(slots=True, kw_only=True)
class SeenObjects:
    """Objects as last seen. A mapping that is None is of a kind that may not be listed.

    `jobs`: those that run, by UID. `attempts`: what became of each workload so far, by key.
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

    def cluster_queue_of(self, queue: ObjectKey) -> str:
        """The ClusterQueue behind a LocalQueue; empty if that is not known."""
        found = (self.local_queues or {}).get(queue)
        return found.spec.cluster_queue if found is not None else ""


def slim_workload(workload: Workload) -> Workload:
    """The workload without pod templates and without the text of `kubectl apply`: a tenth of the memory."""
    spec = workload_spec(workload)
    sets = tuple(
        msgspec.structs.replace(each, template=_NOTHING, topology_request=msgspec.Raw(b"null"))
        for each in spec.pod_sets
    )
    return msgspec.structs.replace(
        workload,
        metadata=_slim_meta(workload.metadata),
        spec=msgspec.Raw(encode(msgspec.structs.replace(spec, pod_sets=sets))),
    )


def slim_job(job: SeenJob) -> SeenJob | None:
    """What the state of a workload asks of its job: how many pods are ready, and whether it has ended. None for one that has
    ended or has nothing ready, of which the workload tells enough."""
    if job.end is not None or not job.ready:
        return None
    meta = ObjectMeta(name=job.meta.name, namespace=job.meta.namespace, uid=job.meta.uid)
    return SeenJob(kind=job.kind, meta=meta, ready=job.ready)


def _slim_meta(meta: ObjectMeta) -> ObjectMeta:
    if LAST_APPLIED not in meta.annotations:
        return meta
    kept = {name: text for name, text in meta.annotations.items() if name != LAST_APPLIED}
    return msgspec.structs.replace(meta, annotations=kept)
