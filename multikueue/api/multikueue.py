"""Kueue's MultiKueue objects (v1beta2): AdmissionCheck, MultiKueueConfig, MultiKueueCluster."""

from __future__ import annotations

from multikueue.api.meta import Condition, Object, Value

CONTROLLER_NAME = "kueue.x-k8s.io/multikueue"
"""AdmissionCheck.spec.controllerName, the jobs' managedBy, and Kueue's field manager: one string, three uses."""

ACTIVE = "Active"
KUBECONFIG_KEY = "kubeconfig"


class ConditionedStatus(Value):
    conditions: tuple[Condition, ...] = ()


class Parameters(Value):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(Value):
    controller_name: str = ""
    parameters: Parameters | None = None


class AdmissionCheck(Object):
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: ConditionedStatus = ConditionedStatus()


class MultiKueueConfigSpec(Value):
    clusters: tuple[str, ...] = ()


class MultiKueueConfig(Object):
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfigSource(Value):
    location: str = ""
    location_type: str = "Secret"


class ClusterProfileRef(Value):
    name: str = ""


class ClusterSource(Value):
    kube_config: KubeConfigSource | None = None
    cluster_profile_ref: ClusterProfileRef | None = None


class MultiKueueClusterSpec(Value):
    cluster_source: ClusterSource = ClusterSource()


class MultiKueueCluster(Object):
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: ConditionedStatus = ConditionedStatus()
