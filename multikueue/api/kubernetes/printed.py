"""Pods and Events with the fields that people look at. The manager reads both for people only."""

from __future__ import annotations

from datetime import datetime

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.meta import Int64, Object, Time, Value

__all__ = [
    "CLUSTER_QUEUE_LABEL",
    "DEFAULT_CONTAINER_ANNOTATION",
    "LOCAL_QUEUE_LABEL",
    "PODS",
    "POD_SET_LABEL",
    "PRINTED_EVENTS",
    "WORKLOAD_ANNOTATION",
    "ContainerState",
    "ContainerStateDetails",
    "ContainerStatus",
    "PodCondition",
    "PrintedContainer",
    "PrintedEvent",
    "PrintedPod",
    "PrintedPodSpec",
    "PrintedPodStatus",
    "Reference",
    "Series",
]

POD_SET_LABEL = "kueue.x-k8s.io/podset"
"""On each pod of a job that Kueue has started: the pod set it belongs to."""

LOCAL_QUEUE_LABEL = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"
"""On the same pods, from Kueue 0.17 on: the queues they have their quota from."""

WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
"""On the same pods, while Kueue's topology-aware scheduling is on, as it is by default: the name of their Workload."""

DEFAULT_CONTAINER_ANNOTATION = "kubectl.kubernetes.io/default-container"
"""On a pod: the container whose log is meant if none is named."""


class PrintedContainer(Value):
    name: str = ""


class PrintedPodSpec(Value):
    node_name: str = ""
    init_containers: tuple[PrintedContainer, ...] = ()
    containers: tuple[PrintedContainer, ...] = ()
    ephemeral_containers: tuple[PrintedContainer, ...] = ()


class ContainerStateDetails(Value):
    """Why a container waits, or how it ended."""

    reason: str = ""
    message: str = ""
    exit_code: Int64 = 0
    signal: Int64 = 0


class ContainerState(Value):
    waiting: ContainerStateDetails | None = None
    running: ContainerStateDetails | None = None
    terminated: ContainerStateDetails | None = None


class ContainerStatus(Value):
    name: str = ""
    image: str = ""
    ready: bool = False
    restart_count: Int64 = 0
    state: ContainerState = ContainerState()


class PodCondition(Value):
    """Unlike metav1.Condition it may have no message."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class PrintedPodStatus(Value):
    phase: str = ""
    reason: str = ""
    conditions: tuple[PodCondition, ...] = ()
    pod_ip: str = msgspec.field(name="podIP", default="")
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()


class PrintedPod(Object):
    spec: PrintedPodSpec = PrintedPodSpec()
    status: PrintedPodStatus = PrintedPodStatus()


class Reference(Value):
    """The object that an event is about."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""


class Series(Value):
    last_observed_time: Time | None = None
    count: Int64 = 0


class PrintedEvent(Object):
    involved_object: Reference = Reference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: Int64 | None = None
    first_timestamp: Time | None = None
    last_timestamp: Time | None = None
    event_time: Time | None = None
    series: Series | None = None

    @property
    def at(self) -> datetime | None:
        """When the event was last seen."""
        seen = self.series.last_observed_time if self.series else None
        meta = self.metadata.creation_timestamp
        return seen or self.last_timestamp or self.event_time or self.first_timestamp or meta


PODS = Kind("", "v1", "pods", "Pod", True, PrintedPod)
PRINTED_EVENTS = Kind("", "v1", "events", "Event", True, PrintedEvent)
"""Events with the fields that people look at."""
