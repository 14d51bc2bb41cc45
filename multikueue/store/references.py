"""The references between the objects of a MultiKueue setup: checks, configs, clusters, kubeconfigs."""

from __future__ import annotations

from collections.abc import Iterable

from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.multikueue.clusters import MultiKueueCluster, MultiKueueConfig

__all__ = [
    "CLUSTERS_ANNOTATION",
    "CLUSTER_UID_ANNOTATION",
    "OTHER_THAN_ANNOTATION",
    "clusters_of",
    "config_of",
    "file_of",
    "other_than",
    "source_of",
    "uid_of",
]

CLUSTERS_ANNOTATION = "multikueue.dev/clusters"
"""On a MultiKueueConfig: more cluster names, comma separated, beyond the 20 that its spec may hold."""

CLUSTER_UID_ANNOTATION = "multikueue.dev/cluster-uid"
"""On a MultiKueueCluster: the UID of the namespace kube-system of the cluster that its name stands for."""


OTHER_THAN_ANNOTATION = "multikueue.dev/other-than"
"""On a MultiKueueCluster: names, comma separated, that were recorded earlier with the same UID, and were proven to lead to
other clusters."""


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


def source_of(cluster: MultiKueueCluster) -> tuple[tuple[str, str], ...]:
    """The source of a cluster's kubeconfig: type and location. Several clusters may share one."""
    source = cluster.spec.cluster_source
    if source.kube_config is not None:
        return ((source.kube_config.location_type, source.kube_config.location),)
    profile = source.cluster_profile_ref
    return (("ClusterProfile", profile.name),) if profile is not None else ()


def file_of(cluster: MultiKueueCluster) -> tuple[str, ...]:
    return tuple(location for type_, location in source_of(cluster) if type_ == "Path")
