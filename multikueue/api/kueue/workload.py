"""Kueue's Workload (v1beta2), and the labels, annotations, condition types and reasons that go with it.

The spec stays raw: it is copied to workers byte for byte, and only `workload_spec` looks inside.
"""

from __future__ import annotations

from datetime import datetime
from operator import attrgetter
from typing import Literal

import msgspec

from multikueue.api.meta import (
    Condition,
    ConditionStatus,
    Decoded,
    Int64,
    Object,
    ObjectKey,
    ObjectMeta,
    OwnerReference,
    Time,
    Value,
    controller_of,
    with_condition,
    without_condition,
)
from multikueue.api.values import quantity

ORIGIN_LABEL = "kueue.x-k8s.io/multikueue-origin"
ORIGIN_UID_ANNOTATION = "kueue.x-k8s.io/multikueue-origin-uid"
PREBUILT_LABEL = PREBUILT_ANNOTATION = "kueue.x-k8s.io/prebuilt-workload-name"
"""On a job, the name of a Workload that was made for it: Kueue writes it as an annotation from 0.18 on, as a label before."""
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS_LABEL = "kueue.x-k8s.io/priority-class"
MAX_EXEC_TIME_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
JOB_OWNER_GVK_ANNOTATION = "kueue.x-k8s.io/job-owner-gvk"
JOB_OWNER_NAME_ANNOTATION = "kueue.x-k8s.io/job-owner-name"
RESOURCE_IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer that keeps objects while they are in use: Workloads, ClusterQueues, ResourceFlavors and
AdmissionChecks."""

DRAINED_FROM_ANNOTATION = "multikueue.dev/drained-from"
"""On a Workload that is held (`spec.active`) until it has given its quota back: the worker that is drained."""

DRAIN_TOLD_ANNOTATION = "multikueue.dev/drain-told"
"""On a Workload whose pods were told that their worker is drained: the worker, the drain, and until when they have time, as
`w1 signal=900s 2026-11-30T17:35:00Z`."""

GROUP_LABEL = "multikueue.dev/group"
"""On jobs and their Workloads: the name of a group, by which a strategy keeps them together or apart."""

ATTEMPT_ANNOTATION = "multikueue.dev/attempt"
"""On each remote object: the attempt (reservation) it was made for. A copy of another attempt can never win."""

NON_PREEMPTIBLE_ANNOTATION = "multikueue.dev/non-preemptible"
"""On a job or Workload, "true": it is exempt from preemption, if the setting quota.non_preemptible allows that."""

ADMISSION_GATED_BY_ANNOTATION = "kueue.x-k8s.io/admission-gated-by"
"""On a job and its Workload: who must let it in before it may have quota, separated by commas (Kueue 0.17; on since 0.19)."""

ELASTIC_ANNOTATION = "kueue.x-k8s.io/elastic-job"
"""On a job and its Workloads, "true": the job may change its size while it runs."""
REPLACES_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a slice of an elastic job: the slice that it replaces, as namespace/name."""
SLICE_NAME_ANNOTATION = "kueue.x-k8s.io/workload-slice-name"
"""On all slices of an elastic job, and on its pods: the name of the first slice."""

CLASS_VALUE_ANNOTATION = "multikueue.dev/priority-class-value"
"""On a Workload, the value of its WorkloadPriorityClass that its priority was last set to: a priority that differs while the
class has still this value was set by hand, and stays."""

UNDISPATCHABLE_ANNOTATION = "multikueue.dev/undispatchable"
"""On a Workload we keep inactive because its job can never be dispatched: why, and what the user can do."""

CLUSTER_LABEL = "multikueue.dev/cluster"
"""On a job of the manager cluster that was started: the worker where it runs, or ran when it ended."""

# Condition types.
QUOTA_RESERVED = "QuotaReserved"
ADMITTED = "Admitted"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
REQUEUED = "Requeued"
FINISHED = "Finished"
PODS_READY = "PodsReady"
WAITING_FOR_REPLACEMENT = "WaitingForReplacementPods"
PODS_FAILED = "PodsFailed"
DEACTIVATION_TARGET = "DeactivationTarget"
NOMINATED = "multikueue.dev/Nominated"
"""Ours: which strategy nominated, why, and when the newest of the nominated clusters joined; removed with the
nomination."""
FAILED_ON = "multikueue.dev/FailedOn"
"""Ours: on which clusters earlier attempts ended, and when."""
FITS_NO_WORKER = "multikueue.dev/FitsNoWorker"
"""Ours: what each worker lacks to ever hold it, from when that was found out until one admits it."""
PREEMPTED_AT = "multikueue.dev/PreemptedAt"
"""Ours: when it was preempted, while that counts against the preemption budget of its ClusterQueue."""
BACKFILLED = "multikueue.dev/Backfilled"
"""Ours: until when it may have quota that the head of its queue waits for."""
LOGS_UNTIL = "multikueue.dev/LogsUntil"
"""Ours: until when the pods of a finished job, and their logs, stay on its worker at most; the message is that time."""
MAX_CONDITIONS = 16
"""The API's limit for status.conditions."""

# Reasons that decisions depend on.
SUCCEEDED = "Succeeded"
FAILED = "Failed"
OUT_OF_SYNC = "OutOfSync"
OWNER_NOT_FOUND = "OwnerNotFound"
FAILED_TO_START = "FailedToStart"
"""The reason of a Finished condition: the pod set info contradicts itself, or the pods."""
SLICE_REPLACED = "WorkloadSliceReplaced"
EVICTED_ON_MANAGER = "EvictedOnManagerCluster"
DEACTIVATED = "Deactivated"
OUT_OF_TIME = "MaximumExecutionTimeExceeded"
PODS_READY_TIMEOUT = "PodsReadyTimeout"

CheckState = Literal["Pending", "Ready", "Retry", "Rejected"]


class Finish(Value):
    """How a job ended, in the words of a Finished condition: reason `Succeeded` or `Failed`, and the job's message."""

    reason: str
    message: str


class PriorityClassRef(Value):
    group: str = ""
    kind: str = ""
    name: str = ""


class PodSet(Value):
    name: str = "main"
    count: Int64 = 1
    min_count: Int64 | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")
    topology_request: msgspec.Raw = msgspec.Raw(b"null")


class PreemptionGate(Value):
    """One entry of spec.preemptionGates (KEP 8303)."""

    name: str = ""


class WorkloadSpec(Value):
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int64 = 0
    active: bool = True
    maximum_execution_time_seconds: Int64 | None = None
    preemption_gates: tuple[PreemptionGate, ...] = ()


class PodSetAssignment(Value):
    """`count`: the number of admitted pods, maybe 0; None: the writer did not say, so all."""

    name: str = ""
    flavors: dict[str, str] = {}
    resource_usage: dict[str, str] = {}
    count: Int64 | None = None
    topology_assignment: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    delayed_topology_request: str = ""


class Admission(Value):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()

    @property
    def flavors(self) -> set[str]:
        """The names of all flavors in it."""
        return {name for each in self.pod_set_assignments for name in each.flavors.values()}


class AdmissionCheckState(Value):
    """One entry of status.admissionChecks. The API requires the fields without default even when empty."""

    name: str
    state: CheckState
    message: str
    last_transition_time: Time | None = None
    requeue_after_seconds: Int64 | None = None
    retry_count: Int64 | None = None
    pod_set_updates: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class RequeueState(Value):
    count: Int64 | None = None
    requeue_at: Time | None = None


class ReclaimablePod(Value):
    """One entry of status.reclaimablePods. The API requires all fields."""

    name: str
    count: Int64


class PodSetRequest(Value):
    name: str = ""
    resources: dict[str, str] = {}


class EvictionCount(Value):
    """One entry of status.schedulingStats.evictions. The API requires all fields, even an empty cause."""

    reason: str
    underlying_cause: str
    count: Int64


class SchedulingStats(Value):
    evictions: tuple[EvictionCount, ...] = ()


class PreemptionGateState(Value, omit_defaults=False):
    """One entry of status.preemptionGates (KEP 8303). The API requires all fields."""

    name: str = ""
    position: str = "Closed"
    last_transition_time: Time | None = None


class WorkloadStatus(Value):
    conditions: tuple[Condition, ...] = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    scheduling_stats: SchedulingStats | None = None
    accumulated_past_execution_time_seconds: Int64 | None = None
    nominated_cluster_names: tuple[str, ...] = ()
    cluster_name: str | None = None
    unhealthy_nodes: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    preemption_gates: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def has_failed_checks(self) -> bool:
        return any(check.state in ("Retry", "Rejected") for check in self.admission_checks)


class Workload(Object):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: WorkloadStatus = WorkloadStatus()

    def condition(self, type_: str) -> Condition | None:
        for condition in self.status.conditions:  # as `find_condition`, on the spot, as below
            if condition.type == type_:
                return condition
        return None

    def has(self, type_: str) -> bool:
        """Whether the condition of that type is True."""
        for condition in self.status.conditions:  # as `is_true`, on the spot: asked some hundred times per workload
            if condition.type == type_:
                return condition.status == "True"
        return False

    def since(self, type_: str) -> datetime | None:
        """When the condition of that type became True; None if it is not, or does not say when."""
        found = self.condition(type_)
        return found.last_transition_time if found is not None and found.status == "True" else None


def without_nomination(status: WorkloadStatus) -> WorkloadStatus:
    """The status without nominated clusters, and without the condition about them."""
    conditions = without_condition(status.conditions, NOMINATED)
    if not status.nominated_cluster_names and conditions is status.conditions:
        return status
    return msgspec.structs.replace(status, nominated_cluster_names=(), conditions=conditions)


_SPECS: Decoded[Workload, WorkloadSpec] = Decoded(WorkloadSpec, attrgetter("spec"), most=1024, most_bytes=2**19)

workload_spec = _SPECS.of
"""The typed view of the raw spec, decoded once while it is in use."""


def fewer_pods(workload: Workload) -> dict[str, int]:
    """How many pods got quota, by pod set, where that is fewer than asked for: partial admission, which a pod set allows
    by its `minCount`."""
    admission = workload.status.admission
    if admission is None or b'"minCount"' not in bytes(workload.spec):
        return {}
    counts = {each.name: each.count for each in admission.pod_set_assignments if each.count is not None}
    sets = ((each, counts.get(each.name, each.count)) for each in workload_spec(workload).pod_sets)
    return {each.name: count for each, count in sets if each.min_count is not None and count < each.count}


def prebuilt_workload(meta: ObjectMeta) -> str:
    """The Workload that was made for a job, and is named on it; empty if none. As in Kueue, the annotation goes first."""
    return meta.annotations.get(PREBUILT_ANNOTATION) or meta.labels.get(PREBUILT_LABEL, "")


def admission_gates(meta: ObjectMeta) -> str:
    """The holders of admission gates on a job or Workload, which gets no quota before they are gone; empty without gates."""
    return meta.annotations.get(ADMISSION_GATED_BY_ANNOTATION, "")


def queue_of(workload: Workload) -> ObjectKey:
    """The key of the LocalQueue that a workload names."""
    name = workload_spec(workload).queue_name
    return tuple.__new__(ObjectKey, (workload.metadata.namespace, name))  # as `Object.key`


def granted(workload: Workload) -> dict[str, int]:
    """What the quota that a workload has is for, by resource, summed over pod sets; as Kueue counts amounts."""
    total: dict[str, int] = {}
    for assignment in workload.status.admission.pod_set_assignments if workload.status.admission else ():
        for name, text in assignment.resource_usage.items():
            total[name] = total.get(name, 0) + quantity.counted(name, text)
    return total


def waits_for_quota(workload: Workload) -> bool:
    """Whether it has none and may get some."""
    return not workload.has(QUOTA_RESERVED) and not workload.has(FINISHED) and workload_spec(workload).active


def owner_of(workload: Workload) -> OwnerReference | None:
    """The job that the Workload is made for: the owner named by its annotations, else its controller (contract 3.1
    E3)."""
    meta = workload.metadata
    kind, name = meta.annotations.get(JOB_OWNER_GVK_ANNOTATION), meta.annotations.get(JOB_OWNER_NAME_ANNOTATION)
    if kind is None or name is None:
        return controller_of(meta)
    named = (each for each in meta.owner_references if (owner_kind(each), each.name) == (kind, name))
    return next(named, None) or controller_of(meta)


def logs_until(workload: Workload) -> datetime | None:
    """Until when the logs of a finished workload stay at most, by its status; None if that does not say."""
    kept = workload.condition(LOGS_UNTIL)
    try:
        return datetime.fromisoformat(kept.message) if kept is not None else None
    except ValueError:
        return None  # we did not write that


def put_condition(
    status: WorkloadStatus,
    type_: str,
    value: ConditionStatus,
    *,
    reason: str,
    message: str,
    generation: int,
    now: datetime,
) -> WorkloadStatus:
    """The status with that condition; it observed `generation`, and its transition time moves as in Kubernetes."""
    condition = Condition(type=type_, status=value, reason=reason, message=message, observed_generation=generation)
    conditions = with_condition(status.conditions, condition, now)
    return status if conditions is status.conditions else msgspec.structs.replace(status, conditions=conditions)


def is_orphan(workload: Workload) -> bool:
    """Whether it was made for a job that has let it go: it has the mark of one, and no owner any more."""
    meta = workload.metadata
    return not meta.owner_references and meta.deletion_timestamp is None and bool(meta.labels.get(JOB_UID_LABEL))


def has_given_back(workload: Workload) -> bool:
    """Whether a workload that is held has no quota any more, and no back-off: released earlier, it would go on where it is."""
    return workload.has(EVICTED) and not workload.has(QUOTA_RESERVED) and workload.status.requeue_state is None


def is_made_of_another(workload: Workload) -> bool:
    """Whether another Workload controls it, as those that Kueue makes of one for each flavor (KEP 8691)."""
    for owner in workload.metadata.owner_references:
        if owner.controller and owner.kind == "Workload" and owner.api_version.startswith("kueue.x-k8s.io/"):
            return True
    return False


def any_owner_of(workload: Workload) -> OwnerReference | None:
    """The job that the Workload is made for (`owner_of`); its first owner if none is named and none controls it."""
    return owner_of(workload) or next(iter(workload.metadata.owner_references), None)


def owner_kind(owner: OwnerReference) -> str:
    """The kind of an owner as Kueue writes it."""
    return f"{owner.api_version}, Kind={owner.kind}"
