"""The CustomResourceDefinitions of the kinds that managers and workers use: Kueue's, OCM's, and ClusterProfile.

They are generated from the manager's own types (`notation`) and rules (`rules`), not copied. The real suite compares
them with the real ones, field by field and verdict by verdict, and lists the intended differences. Installers of
simulated clusters call `all_definitions` and the others; the room knows no server.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fakekube.schemas.notation import Kind, defined
from multikueue_simulator.definitions import accounts, clusters, profiles, queues, topology, workloads
from multikueue_simulator.definitions import ocm as ocm_kinds
from multikueue_simulator.definitions.older import with_v1beta1

__all__ = ["all_definitions", "cluster_profiles", "kueue", "kueue_alone", "managed_service_accounts", "ocm"]

Object = dict[str, Any]

_KUEUE: tuple[Kind, ...] = (
    workloads.WORKLOAD,
    workloads.PRIORITY_CLASS,
    queues.CLUSTER_QUEUE,
    queues.LOCAL_QUEUE,
    queues.COHORT,
    queues.RESOURCE_FLAVOR,
    clusters.ADMISSION_CHECK,
    clusters.MULTIKUEUE_CONFIG,
    clusters.MULTIKUEUE_CLUSTER,
    clusters.PROVISIONING_REQUEST_CONFIG,
    topology.TOPOLOGY,
)

_OCM: tuple[Kind, ...] = (
    ocm_kinds.CLUSTER,
    ocm_kinds.CLUSTER_SET,
    ocm_kinds.CLUSTER_SET_BINDING,
    ocm_kinds.PLACEMENT,
    ocm_kinds.PLACEMENT_DECISION,
    ocm_kinds.SCORE,
)


@cache
def all_definitions() -> tuple[Object, ...]:
    """The definitions that the real suite compares, ready to be created; cached, so never change them."""
    return *kueue(), *ocm(), *cluster_profiles()


@cache
def kueue() -> tuple[Object, ...]:
    return tuple(defined(with_v1beta1(kind)) for kind in _KUEUE)


@cache
def kueue_alone() -> tuple[Object, ...]:
    """Kueue's definitions as we tell people to install them where no Kueue runs: v1beta2 alone is served."""
    return tuple(defined(kind) for kind in _KUEUE)


@cache
def ocm() -> tuple[Object, ...]:
    return tuple(defined(kind) for kind in _OCM)


@cache
def cluster_profiles() -> tuple[Object, ...]:
    return (defined(profiles.CLUSTER_PROFILE),)


@cache
def managed_service_accounts() -> tuple[Object, ...]:
    """With the rights that come by a ManifestWork. ManagedServiceAccount is of a part of OCM by itself, whose definition the
    testbed does not have."""
    return defined(accounts.MANAGED_SERVICE_ACCOUNT), defined(accounts.MANIFEST_WORK)
