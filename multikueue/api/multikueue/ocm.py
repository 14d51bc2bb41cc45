"""The fields that we read of OCM's Placement, PlacementDecision and ManagedCluster.

They are of cluster.open-cluster-management.io, the first two in v1beta1, the last in v1. OCM's placement controller alone
writes the first two; docs/ocm.md says how and in which order (ocm.md 2.2, 2.4).
"""

from __future__ import annotations

from multikueue.api.meta import Condition, Int64, Object, Value
from multikueue.api.multikueue.clusters import KubernetesVersion

OCM_GROUP = "cluster.open-cluster-management.io"
PLACEMENT_LABEL = f"{OCM_GROUP}/placement"
"""On a PlacementDecision: the name of its Placement, in the same namespace."""

GROUP_INDEX_LABEL = f"{OCM_GROUP}/decision-group-index"
"""On a PlacementDecision: the number of its decision group, from 0, as text."""

FROZEN_ANNOTATION = f"{OCM_GROUP}/experimental-scheduling-disable"
"""On a Placement: `true` keeps the controller from writing decisions."""

MISCONFIGURED = "PlacementMisconfigured"
SATISFIED = "PlacementSatisfied"


class DecisionGroup(Value):
    """One group in the status of a Placement: the names of the PlacementDecisions it is written to, in order."""

    decision_group_index: Int64 = 0
    decisions: tuple[str, ...] = ()


class PlacementStatus(Value):
    conditions: tuple[Condition, ...] = ()
    decision_groups: tuple[DecisionGroup, ...] = ()


class Placement(Object):
    status: PlacementStatus = PlacementStatus()


class ClusterDecision(Value):
    cluster_name: str = ""


class PlacementDecisionStatus(Value):
    decisions: tuple[ClusterDecision, ...] = ()


class PlacementDecision(Object):
    """One part of the answer, at most 100 clusters. It is created without a status: empty is its first state."""

    status: PlacementDecisionStatus = PlacementDecisionStatus()


class ClientConfig(Value):
    """One way to the API server of a ManagedCluster."""

    url: str = ""


class ManagedClusterSpec(Value):
    managed_cluster_client_configs: tuple[ClientConfig, ...] = ()


class ManagedClusterStatus(Value):
    conditions: tuple[Condition, ...] = ()
    version: KubernetesVersion = KubernetesVersion()


class ManagedCluster(Object):
    """A cluster that the hub manages."""

    spec: ManagedClusterSpec = ManagedClusterSpec()
    status: ManagedClusterStatus = ManagedClusterStatus()
