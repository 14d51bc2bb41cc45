"""Pods that are jobs: Kueue's labels, annotations and gates, and the parts of spec and status that we read."""

from __future__ import annotations

from typing import Any

from multikueue.api.jobs.job import AnyJob, JobCondition
from multikueue.api.meta import ObjectMeta, Time, Value, decoder

MANAGED_LABEL = "kueue.x-k8s.io/managed"
POD_FINALIZER = MANAGED_LABEL
ADMISSION_GATE = "kueue.x-k8s.io/admission"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
PARENT_ANNOTATION = "kueue.x-k8s.io/pod-suspending-parent"
STATEFUL_SET = "statefulset"
"""The value of that annotation on the Pods of a StatefulSet: they and the StatefulSet have one Workload."""

ROLE_HASH_ANNOTATION = "kueue.x-k8s.io/role-hash"
GROUP_LABEL = GROUP_ANNOTATION = "kueue.x-k8s.io/pod-group-name"
GROUP_COUNT_ANNOTATION = "kueue.x-k8s.io/pod-group-total-count"
GROUP_FAST_ANNOTATION = "kueue.x-k8s.io/pod-group-fast-admission"
GROUP_SERVING_ANNOTATION = "kueue.x-k8s.io/pod-group-serving"
RETRIABLE_ANNOTATION = "kueue.x-k8s.io/retriable-in-group"
GROUP_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/is-group-workload"
POD_INDEX_LABEL = "kueue.x-k8s.io/pod-group-pod-index"
POD_INDEX_LABEL_ANNOTATION = "kueue.x-k8s.io/pod-group-pod-index-label"

PENDING, RUNNING, SUCCEEDED_PHASE, FAILED_PHASE = "Pending", "Running", "Succeeded", "Failed"
OVER = (SUCCEEDED_PHASE, FAILED_PHASE)
"""The phases in which nothing of a Pod runs any more."""


class Pod(AnyJob):
    """v1 Pod."""


class PodGroup(AnyJob):
    """The Pods of one group, oldest first, as one job: with the name of the group and the labels and annotations of the
    oldest Pod, but the attempt only if all share it. Its UID and generation change with its members."""

    members: tuple[Pod, ...] = ()


def group_of(meta: ObjectMeta) -> str:
    """The name of a Pod's group; empty if it is in none. As in Kueue, the annotation goes first."""
    return meta.annotations.get(GROUP_ANNOTATION) or meta.labels.get(GROUP_LABEL, "")


def is_of_stateful_set(pod: AnyJob) -> bool:
    """Whether a Pod or a group belongs to a StatefulSet: the Workload is made for that, and it recreates a deleted
    Pod."""
    return pod.metadata.annotations.get(PARENT_ANNOTATION) == STATEFUL_SET


class SchedulingGate(Value):
    name: str = ""


class PodSpec(Value):
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    priority_class_name: str = ""

    def has_gate(self, name: str) -> bool:
        return any(gate.name == name for gate in self.scheduling_gates)


class AskedResources(Value):
    requests: dict[str, Any] = {}
    limits: dict[str, Any] = {}

    @property
    def asked(self) -> dict[str, Any]:
        """By resource; a limit stands in for a request."""
        return self.limits | self.requests


class AskedContainer(Value):
    restart_policy: str = ""
    resources: AskedResources = AskedResources()


class AskedClaim(Value):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodAmounts(Value):
    """The parts of a pod's spec that decide about the amounts it takes."""

    containers: tuple[AskedContainer, ...] = ()
    init_containers: tuple[AskedContainer, ...] = ()
    resources: AskedResources | None = None
    overhead: dict[str, Any] = {}
    runtime_class_name: str = ""
    resource_claims: tuple[AskedClaim, ...] = ()


class PodStatus(Value):
    phase: str = ""
    message: str = ""
    start_time: Time | None = None
    conditions: tuple[JobCondition, ...] = ()

    def has(self, type_: str) -> bool:
        return any(condition.type == type_ and condition.status == "True" for condition in self.conditions)


def pod_spec(pod: AnyJob) -> PodSpec:
    return decoder(PodSpec)(pod.spec)


def pod_status(pod: AnyJob) -> PodStatus:
    return decoder(PodStatus)(pod.status)
