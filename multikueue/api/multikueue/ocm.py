"""The fields that we read of OCM's kinds: of placement, of clusters, and of accounts on these.

OCM's placement controller alone writes the decisions; docs/ocm.md says how and in which order (ocm.md 2.1, 2.2, 2.4).
"""

from __future__ import annotations

from multikueue.api.kueue.queues import LabelSelector
from multikueue.api.meta import Condition, Int64, Object, Time, Value
from multikueue.api.multikueue.clusters import KubernetesVersion

OCM_GROUP = "cluster.open-cluster-management.io"
ACCOUNT_GROUP = "authentication.open-cluster-management.io"
CLUSTER_SET_LABEL = f"{OCM_GROUP}/clusterset"
"""On a ManagedCluster: the one ManagedClusterSet of the type `ExclusiveClusterSetLabel` that it is in."""

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
    """One way to the API server of a ManagedCluster. `ca_bundle` is PEM in base64."""

    url: str = ""
    ca_bundle: str = ""


class ManagedClusterTaint(Value):
    """`effect`: NoSelect, PreferNoSelect or NoSelectIfNew."""

    key: str = ""
    value: str = ""
    effect: str = ""

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class ManagedClusterSpec(Value):
    managed_cluster_client_configs: tuple[ClientConfig, ...] = ()
    taints: tuple[ManagedClusterTaint, ...] = ()


class ManagedClusterStatus(Value):
    conditions: tuple[Condition, ...] = ()
    version: KubernetesVersion = KubernetesVersion()


class ManagedCluster(Object):
    """A cluster that the hub manages."""

    spec: ManagedClusterSpec = ManagedClusterSpec()
    status: ManagedClusterStatus = ManagedClusterStatus()


class PlacementScore(Value):
    """From -100 to 100."""

    name: str = ""
    value: Int64 = 0


class AddOnPlacementScoreStatus(Value):
    """`valid_until`: after that the scores count for nothing; None: they have no end."""

    scores: tuple[PlacementScore, ...] = ()
    valid_until: Time | None = None


class AddOnPlacementScore(Object):
    """Scores of a cluster, in the namespace of the cluster's name."""

    status: AddOnPlacementScoreStatus = AddOnPlacementScoreStatus()


class ManagedClusterSelector(Value):
    """`selector_type`: ExclusiveClusterSetLabel or LabelSelector."""

    selector_type: str = ""
    label_selector: LabelSelector | None = None


class ManagedClusterSetSpec(Value):
    cluster_selector: ManagedClusterSelector = ManagedClusterSelector()


class ManagedClusterSet(Object):
    """A set of clusters, by a label of membership or by a selector."""

    spec: ManagedClusterSetSpec = ManagedClusterSetSpec()


class TokenSecretRef(Value):
    """`last_refresh_timestamp` changes with each new token."""

    name: str = ""
    last_refresh_timestamp: str = ""


class ManagedServiceAccountStatus(Value):
    token_secret_ref: TokenSecretRef | None = None


class ManagedServiceAccount(Object):
    """An account on a cluster, in the namespace of that cluster's name. Its token is in a Secret there."""

    status: ManagedServiceAccountStatus = ManagedServiceAccountStatus()
