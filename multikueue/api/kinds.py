"""The table of kinds: the REST path of each, and the type it decodes to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from multikueue.api.core import (
    APIService,
    ConfigMap,
    LimitRange,
    MutatingWebhookConfiguration,
    Namespace,
    PriorityClass,
    RuntimeClass,
    Secret,
)
from multikueue.api.definition import Definition
from multikueue.api.job import Job
from multikueue.api.lease import Lease
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.multikueue import AdmissionCheck, ClusterProfile, MultiKueueCluster, MultiKueueConfig
from multikueue.api.ocm import OCM_GROUP, Placement, PlacementDecision
from multikueue.api.pod import Pod, PodGroup
from multikueue.api.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.stateful_set import StatefulSet
from multikueue.api.workload import Workload

T_co = TypeVar("T_co", bound=Object, covariant=True)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """One kind: API group (empty for core), version, plural, kind, scope, and value type.

    `name` is the kind with its group, without the version: `JobSet.jobset.x-k8s.io`, `Job.batch`, `Pod`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    type: type[T_co]
    name: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", f"{self.kind}.{self.group}" if self.group else self.kind)

    @property
    def is_optional(self) -> bool:
        """Whether a cluster may lack this kind of jobs, or hide it from us: all but batch Jobs."""
        return self.group != "batch"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, key: ObjectKey | None = None, *, subresource: str = "") -> str:
        """The URL path of the collection over all namespaces, or of one object and its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if key is None:
            return f"{root}/{self.plural}"
        tail = f"/{subresource}" if subresource else ""
        return f"{self.collection(key.namespace)}/{key.name}{tail}"

    def collection(self, namespace: str) -> str:
        """The URL path to create objects at."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"


_KUEUE = "kueue.x-k8s.io"

WORKLOADS = Kind(_KUEUE, "v1beta2", "workloads", "Workload", True, Workload)
CLUSTER_QUEUES = Kind(_KUEUE, "v1beta2", "clusterqueues", "ClusterQueue", False, ClusterQueue)
LOCAL_QUEUES = Kind(_KUEUE, "v1beta2", "localqueues", "LocalQueue", True, LocalQueue)
COHORTS = Kind(_KUEUE, "v1beta2", "cohorts", "Cohort", False, Cohort)
RESOURCE_FLAVORS = Kind(_KUEUE, "v1beta2", "resourceflavors", "ResourceFlavor", False, ResourceFlavor)
WORKLOAD_PRIORITY_CLASSES = Kind(
    _KUEUE, "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", False, WorkloadPriorityClass
)
ADMISSION_CHECKS = Kind(_KUEUE, "v1beta2", "admissionchecks", "AdmissionCheck", False, AdmissionCheck)
MULTIKUEUE_CONFIGS = Kind(_KUEUE, "v1beta2", "multikueueconfigs", "MultiKueueConfig", False, MultiKueueConfig)
MULTIKUEUE_CLUSTERS = Kind(_KUEUE, "v1beta2", "multikueueclusters", "MultiKueueCluster", False, MultiKueueCluster)
CLUSTER_PROFILES = Kind("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile", True, ClusterProfile)
JOBS = Kind("batch", "v1", "jobs", "Job", True, Job)
PODS = Kind("", "v1", "pods", "Pod", True, Pod)
POD_GROUPS = Kind("", "v1", "", "PodGroup", True, PodGroup)
"""No API has this kind: a group has a key of its own, and is read and written as Pods."""
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment", True, Object)
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet", True, StatefulSet)
EVENTS = Kind("", "v1", "events", "Event", True, Object)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", False, Namespace)
SECRETS = Kind("", "v1", "secrets", "Secret", True, Secret)
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", True, ConfigMap)
LIMIT_RANGES = Kind("", "v1", "limitranges", "LimitRange", True, LimitRange)
PRIORITY_CLASSES = Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, PriorityClass)
RUNTIME_CLASSES = Kind("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, RuntimeClass)
PLACEMENTS = Kind(OCM_GROUP, "v1beta1", "placements", "Placement", True, Placement)
PLACEMENT_DECISIONS = Kind(OCM_GROUP, "v1beta1", "placementdecisions", "PlacementDecision", True, PlacementDecision)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    MutatingWebhookConfiguration,
)
API_SERVICES = Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, APIService)
DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, Definition
)
