"""Kueue's MultiKueue objects (v1beta2), and the ClusterProfile (v1alpha1) that a MultiKueueCluster may name."""

from __future__ import annotations

import msgspec

from multikueue.api.meta import Condition, Object, Value

CONTROLLER_NAME = "kueue.x-k8s.io/multikueue"
"""AdmissionCheck.spec.controllerName, the jobs' managedBy, and Kueue's field manager: one string, three uses."""

ACTIVE = "Active"
KUBECONFIG_KEY = "kubeconfig"
CORDON_ANNOTATION = "multikueue.dev/cordon"
"""On a MultiKueueCluster: `true` keeps new workloads away from it."""


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


class AccessProvider(Value):
    """One way to reach a cluster; `cluster` has the fields of a cluster in a kubeconfig, in the same spelling."""

    name: str = ""
    cluster: msgspec.Raw = msgspec.Raw(b"{}")


class ClusterProfileStatus(Value):
    access_providers: tuple[AccessProvider, ...] = ()
    credential_providers: tuple[AccessProvider, ...] = ()


class ClusterProfile(Object):
    """`multicluster.x-k8s.io`: a cluster as its inventory knows it."""

    status: ClusterProfileStatus = ClusterProfileStatus()

    @property
    def providers(self) -> tuple[AccessProvider, ...]:
        """All ways to reach it. Of two with one name, the one in the field that is not deprecated comes first."""
        return (*self.status.access_providers, *self.status.credential_providers)
