"""Which workers there are, and how each is reached: MultiKueueConfig and MultiKueueCluster, and what they refer to.

These are Kueue's (v1beta2); a MultiKueueCluster may name a ClusterProfile of SIG Multicluster (v1alpha1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from multikueue.api.kueue.admission_checks import AdmissionCheck, ConditionedStatus
from multikueue.api.meta import Condition, Object, Value
from multikueue.durations import Drain, parse_drain

KUBECONFIG_KEY = "kubeconfig"
CORDON_ANNOTATION = "multikueue.dev/cordon"
"""On a MultiKueueCluster: `true` keeps new workloads away from it."""

DRAIN_ANNOTATION = "multikueue.dev/drain"
"""On a MultiKueueCluster: keeps new workloads away, and says what becomes of those there. `requeue`: they queue again, `wait`:
they go on to their end, `wait=8h`: they queue again after that time, `signal=15m`: so, and their pods are told before."""

DRAINED = "multikueue.dev/Drained"
"""A condition of a MultiKueueCluster with `DRAIN_ANNOTATION`: whether anything of ours is left there, and how much."""

HUB_TAINTS_ANNOTATION = "multikueue.dev/hub-taints"
"""On a MultiKueueCluster: taints of its hub that are not tolerated, comma separated, as `key=value:NoSelect`."""

FLEET_LABEL = "multikueue.dev/fleet"
"""On a MultiKueueCluster, MultiKueueConfig or Secret: that the manager of this origin keeps it equal to its inventory."""

FOLLOWED_ANNOTATION = "multikueue.dev/followed-labels"
"""On a MultiKueueCluster of the fleet: the keys of those labels that follow the inventory, comma separated."""

LEAVING_ANNOTATION = "multikueue.dev/leaving"
"""On a MultiKueueCluster of the fleet: since when it leaves, as RFC 3339."""

MAY_LEAVE_ANNOTATION = "multikueue.dev/may-leave"
"""On a MultiKueueCluster of the fleet: `true` lets it leave, however many others do. It is the word of a person."""

LEFT_ANNOTATION = "multikueue.dev/left"
"""On the MultiKueueConfig of the fleet: the workers that left recently, and when: `w1=2026-11-30T12:00:00Z, ...`."""

IN_FLEET = "multikueue.dev/InFleet"
"""A condition of a MultiKueueCluster that its inventory does not have any more: whether it leaves, or is held back."""

PRICES_ANNOTATION = "multikueue.dev/prices"
"""On a MultiKueueCluster: money for an hour of a unit, by resource or flavor: `cpu=0.04, h100/nvidia.com/gpu=2.5`."""

_NAME = re.compile(r"\S+")
_NUMBER = re.compile(r"\d{1,9}(?:\.\d{0,12})?|\.\d{1,12}")


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
    """`unschedulable`: no new workloads go there. Kueue's own definition has no such field up to 0.20."""

    cluster_source: ClusterSource = ClusterSource()
    unschedulable: bool = False


class MultiKueueCluster(Object):
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: ConditionedStatus = ConditionedStatus()


CLUSTERS_ANNOTATION = "multikueue.dev/clusters"
"""On a MultiKueueConfig: more cluster names, comma separated, beyond the 20 that its spec may hold."""

CLUSTER_UID_ANNOTATION = "multikueue.dev/cluster-uid"
"""On a MultiKueueCluster: the UID of the namespace kube-system of the cluster that its name stands for."""


OTHER_THAN_ANNOTATION = "multikueue.dev/other-than"
"""On a MultiKueueCluster: names, comma separated, that were recorded earlier with the same UID, and were proven to lead to
other clusters."""


def is_cordoned(cluster: MultiKueueCluster) -> bool:
    return bool(why_cordoned(cluster))


def why_cordoned(cluster: MultiKueueCluster) -> str:
    """`cordoned`, and by what if not by the annotation for it; empty if new workloads may go there."""
    annotations = cluster.metadata.annotations
    if annotations.get(CORDON_ANNOTATION) == "true":
        return "cordoned"
    if cluster.spec.unschedulable:
        return "cordoned (spec.unschedulable)"
    if DRAIN_ANNOTATION in annotations:
        return "cordoned (it is drained)"
    taints = annotations.get(HUB_TAINTS_ANNOTATION, "")
    return f"cordoned (taint {taints})" if taints else ""


def drain_of(cluster: MultiKueueCluster) -> Drain | None:
    """What the annotation asks for; None without one, and where it cannot be read: then the worker is cordoned only."""
    return parse_drain(cluster.metadata.annotations.get(DRAIN_ANNOTATION, ""))


def drain_problem(cluster: MultiKueueCluster) -> str:
    """What is wrong with the annotation; empty if nothing is."""
    text = cluster.metadata.annotations.get(DRAIN_ANNOTATION)
    if text is None or drain_of(cluster) is not None:
        return ""
    return (
        f"MultiKueueCluster {cluster.metadata.name}: annotation {DRAIN_ANNOTATION}: expected requeue, wait, or wait or signal"
        f" with a time, such as wait=8h, got {text[:100]!r}; it is cordoned until then"
    )


def config_of(check: AdmissionCheck) -> tuple[str, ...]:
    return (check.spec.parameters.name,) if check.spec.parameters else ()


def clusters_of(config: MultiKueueConfig) -> tuple[str, ...]:
    """The clusters of a MultiKueueConfig, in order: its spec, then the annotation for more than 20."""
    more = config.metadata.annotations.get(CLUSTERS_ANNOTATION, "")
    return tuple(dict.fromkeys((*config.spec.clusters, *(n.strip() for n in more.split(",") if n.strip()))))


def uid_of(cluster: MultiKueueCluster) -> Iterable[str]:
    uid = cluster.metadata.annotations.get(CLUSTER_UID_ANNOTATION)
    return (uid,) if uid else ()


def other_than(cluster: MultiKueueCluster) -> tuple[str, ...]:
    """The names of the annotation."""
    names = cluster.metadata.annotations.get(OTHER_THAN_ANNOTATION, "")
    return tuple(filter(None, names.split(",")))


def prices_of(cluster: MultiKueueCluster) -> Mapping[str, float]:
    """The prices in the annotation, which count together or, where one of them cannot be read, not at all."""
    if prices_problem(cluster):
        return {}
    return {name: float(text) for name, text in _priced(cluster)}


def prices_problem(cluster: MultiKueueCluster) -> str:
    """What is wrong with the annotation; empty if nothing is."""
    wrong = next(
        (
            f"{name}={text}"
            for name, text in _priced(cluster)
            if not _NAME.fullmatch(name) or not _NUMBER.fullmatch(text)
        ),
        "",
    )
    if not wrong:
        return ""
    return (
        f"MultiKueueCluster {cluster.metadata.name}: annotation {PRICES_ANNOTATION}: expected resources or flavors with "
        f"their price for an hour, such as cpu=0.04,h100/nvidia.com/gpu=2.5, got {wrong[:100]!r}; it has no prices until then"
    )


def _priced(cluster: MultiKueueCluster) -> Iterator[tuple[str, str]]:
    for part in filter(str.strip, cluster.metadata.annotations.get(PRICES_ANNOTATION, "").split(",")):
        name, _, text = part.rpartition("=")
        yield name.strip(), text.strip()


def source_of(cluster: MultiKueueCluster) -> tuple[tuple[str, str], ...]:
    """The source of a cluster's kubeconfig: type and location. Several clusters may share one."""
    source = cluster.spec.cluster_source
    if source.kube_config is not None:
        return ((source.kube_config.location_type, source.kube_config.location),)
    profile = source.cluster_profile_ref
    return (("ClusterProfile", profile.name),) if profile is not None else ()


def file_of(cluster: MultiKueueCluster) -> tuple[str, ...]:
    return tuple(location for type_, location in source_of(cluster) if type_ == "Path")


class AccessProvider(Value):
    """One way to reach a cluster; `cluster` has the fields of a cluster in a kubeconfig, in the same spelling."""

    name: str = ""
    cluster: msgspec.Raw = msgspec.Raw(b"{}")


class KubernetesVersion(Value):
    kubernetes: str = ""


class ClusterProfileStatus(Value):
    conditions: tuple[Condition, ...] = ()
    version: KubernetesVersion = KubernetesVersion()
    access_providers: tuple[AccessProvider, ...] = ()
    credential_providers: tuple[AccessProvider, ...] = ()


class ClusterProfile(Object):
    """`multicluster.x-k8s.io`: a cluster as its inventory knows it."""

    status: ClusterProfileStatus = ClusterProfileStatus()

    @property
    def providers(self) -> tuple[AccessProvider, ...]:
        """All ways to reach it. Of two with one name, the one in the field that is not deprecated comes first."""
        return (*self.status.access_providers, *self.status.credential_providers)
