"""OCM's kinds for placement: clusters, cluster sets, and the decisions of Placements (ocm.md 2.1, 2.2)."""

from __future__ import annotations

from fakekube.schemas.notation import (
    QUALIFIED,
    Kind,
    Schema,
    Version,
    array,
    column,
    conditions,
    flag,
    number,
    of,
    quantities,
    quantity,
    record,
    text,
    time,
)
from multikueue.api.kueue import queues
from multikueue.api.multikueue import ocm

__all__ = ["CLUSTER", "CLUSTER_SET", "CLUSTER_SET_BINDING", "PLACEMENT", "PLACEMENT_DECISION", "SCORE"]

_GROUP = ocm.OCM_GROUP

QUALIFIED_LOOSELY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
)

_SELECTOR = of(
    queues.LabelSelector,
    matchExpressions=array(
        of(queues.LabelSelectorRequirement, needs=("key", "operator"), values=array(text(), kind="atomic")),
        kind="atomic",
    ),
) | {"x-kubernetes-map-type": "atomic"}

_CLAIMS = record(
    matchExpressions=array(
        of(queues.LabelSelectorRequirement, needs=("key", "operator"), values=array(text(), kind="atomic"))
    )
)
_CLUSTER_SELECTOR = record(labelSelector=_SELECTOR, claimSelector=_CLAIMS)

CLUSTER = Kind(
    group=_GROUP,
    kind="ManagedCluster",
    plural="managedclusters",
    short_names=("mcl", "mcls"),
    versions=(
        Version(
            name="v1",
            storage=True,
            schema=record(
                spec=record(
                    hubAcceptsClient=flag(),
                    leaseDurationSeconds=number(default=60),
                    managedClusterClientConfigs=array(
                        record(needs=("url",), url=text(), caBundle=text() | {"format": "byte"})
                    ),
                    taints=array(
                        record(
                            needs=("effect", "key"),
                            key=text(316, QUALIFIED),
                            value=text(1024),
                            effect=text(one_of=("NoSelect", "PreferNoSelect", "NoSelectIfNew")),
                            timeAdded=time() | {"nullable": True},
                        )
                    ),
                ),
                status=record(
                    conditions=conditions(keyed=False),
                    capacity=quantities(),
                    allocatable=quantities(),
                    version=record(kubernetes=text()),
                    clusterClaims=array(
                        record(name=text(253, shortest=1), value=text(1024, shortest=1)),
                    ),
                ),
            ),
            columns=(
                column("Hub Accepted", ".spec.hubAcceptsClient", "boolean"),
                column("Managed Cluster URLs", ".spec.managedClusterClientConfigs[*].url"),
                column("Joined", '.status.conditions[?(@.type=="ManagedClusterJoined")].status'),
                column("Available", '.status.conditions[?(@.type=="ManagedClusterConditionAvailable")].status'),
                column("Age", ".metadata.creationTimestamp", "date"),
            ),
        ),
    ),
)

CLUSTER_SET = Kind(
    group=_GROUP,
    kind="ManagedClusterSet",
    plural="managedclustersets",
    short_names=("mclset", "mclsets"),
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=record(
                    default={"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
                    clusterSelector=record(
                        needs=("selectorType",),
                        default={"selectorType": "ExclusiveClusterSetLabel"},
                        selectorType=text(
                            one_of=("ExclusiveClusterSetLabel", "LabelSelector"), default="ExclusiveClusterSetLabel"
                        ),
                        labelSelector=_SELECTOR,
                    ),
                ),
                status=record(conditions=conditions(keyed=False)),
            ),
            columns=(
                column("Empty", '.status.conditions[?(@.type=="ClusterSetEmpty")].status'),
                column("Age", ".metadata.creationTimestamp", "date"),
            ),
        ),
    ),
)

CLUSTER_SET_BINDING = Kind(
    group=_GROUP,
    kind="ManagedClusterSetBinding",
    plural="managedclustersetbindings",
    namespaced=True,
    short_names=("mclsetbinding", "mclsetbindings"),
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=record(clusterSet=text(shortest=1)),
                status=record(conditions=conditions(keyed=False)),
            ),
        ),
    ),
)

_SCORE = record(
    needs=("type",),
    type=text(one_of=("BuiltIn", "AddOn"), default="BuiltIn"),
    builtIn=text(),
    addOn=record(needs=("resourceName", "scoreName"), resourceName=text(), scoreName=text()),
)

SCORE = Kind(
    group=_GROUP,
    kind="AddOnPlacementScore",
    plural="addonplacementscores",
    namespaced=True,
    versions=(
        Version(
            name="v1alpha1",
            storage=True,
            schema=record(
                status=record(
                    conditions=conditions(),
                    scores=array(record(needs=("name", "value"), name=text(), value=number(-100, 100)), keys=("name",)),
                    validUntil=time(),
                ),
            ),
        ),
    ),
)

_TOLERATION = record(
    key=text(316, QUALIFIED),
    operator=text(default="Equal"),
    value=text(1024),
    effect=text(one_of=("NoSelect", "PreferNoSelect", "NoSelectIfNew")),
    tolerationSeconds=number(bits=64),
)

_GROUPS = record(
    clustersPerDecisionGroup=quantity() | {"pattern": r"^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$", "default": "100%"},
    decisionGroups=array(
        record(
            needs=("groupClusterSelector", "groupName"),
            groupName=text(pattern="^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$"),
            groupClusterSelector=_CLUSTER_SELECTOR,
        )
    ),
)


def _placement() -> Schema:
    spec = record(
        clusterSets=array(text()),
        numberOfClusters=number(),
        predicates=array(
            record(
                requiredClusterSelector=record(
                    labelSelector=_SELECTOR,
                    claimSelector=_CLAIMS,
                    celSelector=record(celExpressions=array(text())),
                )
            )
        ),
        prioritizerPolicy=record(
            mode=text(default="Additive"),
            configurations=array(
                record(
                    needs=("scoreCoordinate",),
                    scoreCoordinate=_SCORE,
                    weight=number(-10, 10, default=1),
                )
            ),
        ),
        spreadPolicy=record(
            spreadConstraints=array(
                record(
                    needs=("topologyKey", "topologyKeyType"),
                    topologyKey=text(316, QUALIFIED_LOOSELY),
                    topologyKeyType=text(one_of=("Label", "Claim")),
                    maxSkew=number(1, default=1),
                    whenUnsatisfiable=text(one_of=("DoNotSchedule", "ScheduleAnyway"), default="ScheduleAnyway"),
                ),
                most=8,
            )
        ),
        tolerations=array(_TOLERATION),
        decisionStrategy=record(groupStrategy=_GROUPS),
    )
    groups = of(
        ocm.DecisionGroup,
        decisionGroupIndex=number(),
        decisionGroupName=text(),
        decisions=array(text()),
        clusterCount=number(default=0),
    )
    status = of(
        ocm.PlacementStatus,
        numberOfSelectedClusters=number(),
        decisionGroups=array(groups),
        conditions=conditions(keyed=False),
    )
    return record(needs=("spec",), spec=spec, status=status)


PLACEMENT = Kind(
    group=_GROUP,
    kind="Placement",
    plural="placements",
    namespaced=True,
    versions=(
        Version(
            name="v1beta1",
            storage=True,
            schema=_placement(),
            columns=(
                column("Succeeded", '.status.conditions[?(@.type=="PlacementSatisfied")].status'),
                column("Reason", '.status.conditions[?(@.type=="PlacementSatisfied")].reason'),
                column("SelectedClusters", ".status.numberOfSelectedClusters", "integer"),
            ),
        ),
    ),
)

PLACEMENT_DECISION = Kind(
    group=_GROUP,
    kind="PlacementDecision",
    plural="placementdecisions",
    namespaced=True,
    versions=(
        Version(
            name="v1beta1",
            storage=True,
            schema=record(
                status=record(
                    needs=("decisions",),
                    decisions=array(
                        of(
                            ocm.ClusterDecision,
                            needs=("clusterName", "reason"),
                            clusterName=text(),
                            reason=text(),
                        )
                    ),
                )
            ),
        ),
    ),
)
