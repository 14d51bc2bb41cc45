"""The table of kinds that we read or write."""

from __future__ import annotations

from multikueue.api.jobs.job import Job, StatefulSet
from multikueue.api.jobs.pod import Pod, PodGroup
from multikueue.api.kind import Kind
from multikueue.api.kubernetes.builtins import (
    APIService,
    ConfigMap,
    Definition,
    DeviceClass,
    Lease,
    LimitRange,
    MutatingWebhookConfiguration,
    Namespace,
    PriorityClass,
    ResourceClaimTemplate,
    RuntimeClass,
    Secret,
    ServiceObject,
)
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.kueue.usage import WorkloadUsage
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Object
from multikueue.api.multikueue.clusters import ClusterProfile, MultiKueueCluster, MultiKueueConfig
from multikueue.api.multikueue.decisions import MULTICLUSTER_GROUP, SharedPlacementDecision
from multikueue.api.multikueue.ocm import (
    ACCOUNT_GROUP,
    OCM_GROUP,
    AddOnPlacementScore,
    ManagedCluster,
    ManagedClusterSet,
    ManagedServiceAccount,
    Placement,
    PlacementDecision,
)

_KUEUE = "kueue.x-k8s.io"

WORKLOADS = Kind(_KUEUE, "v1beta2", "workloads", "Workload", True, Workload)
WORKLOAD_USAGES = Kind(_KUEUE, "v1beta2", "workloads", "Workload", True, WorkloadUsage)
"""The same objects, of which only the quota counts that they use or wait for."""
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
CLUSTER_PROFILES = Kind(MULTICLUSTER_GROUP, "v1alpha1", "clusterprofiles", "ClusterProfile", True, ClusterProfile)
SERVICE_ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", True, Object)
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
DEVICE_CLASSES = Kind("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False, DeviceClass)
RESOURCE_CLAIM_TEMPLATES = Kind(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True, ResourceClaimTemplate
)
MANAGED_CLUSTERS = Kind(OCM_GROUP, "v1", "managedclusters", "ManagedCluster", False, ManagedCluster)
MANAGED_CLUSTER_SETS = Kind(OCM_GROUP, "v1beta2", "managedclustersets", "ManagedClusterSet", False, ManagedClusterSet)
MANAGED_SERVICE_ACCOUNTS = Kind(
    ACCOUNT_GROUP, "v1beta1", "managedserviceaccounts", "ManagedServiceAccount", True, ManagedServiceAccount
)
PLACEMENT_SCORES = Kind(OCM_GROUP, "v1alpha1", "addonplacementscores", "AddOnPlacementScore", True, AddOnPlacementScore)
PLACEMENTS = Kind(OCM_GROUP, "v1beta1", "placements", "Placement", True, Placement)
PLACEMENT_DECISIONS = Kind(OCM_GROUP, "v1beta1", "placementdecisions", "PlacementDecision", True, PlacementDecision)
SHARED_DECISIONS = Kind(
    MULTICLUSTER_GROUP, "v1alpha1", "placementdecisions", "PlacementDecision", True, SharedPlacementDecision
)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", True, Lease)
MUTATING_WEBHOOKS = Kind(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    False,
    MutatingWebhookConfiguration,
)
SERVICES = Kind("", "v1", "services", "Service", True, ServiceObject)
API_SERVICES = Kind("apiregistration.k8s.io", "v1", "apiservices", "APIService", False, APIService)
DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False, Definition
)
