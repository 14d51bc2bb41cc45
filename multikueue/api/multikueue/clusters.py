"""Kueue's MultiKueueConfig and MultiKueueCluster (v1beta2): which workers there are, and how each is reached."""

from __future__ import annotations

from multikueue.api.kueue.admission_checks import ConditionedStatus
from multikueue.api.meta import Object, Value

KUBECONFIG_KEY = "kubeconfig"
CORDON_ANNOTATION = "multikueue.dev/cordon"
"""On a MultiKueueCluster: `true` keeps new workloads away from it."""


class MultiKueueConfigSpec(Value):
    """`quota_management`: Manual or Automated, since Kueue 0.18 (KEP 9988)."""

    clusters: tuple[str, ...] = ()
    quota_management: str = ""


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
