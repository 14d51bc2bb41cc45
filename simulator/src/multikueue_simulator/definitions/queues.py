"""Kueue's ClusterQueue, LocalQueue, Cohort and ResourceFlavor."""

from __future__ import annotations

from fakekube.schemas.notation import (
    SUBDOMAIN,
    Kind,
    Version,
    array,
    column,
    conditions,
    number,
    of,
    quantities,
    quantity,
    record,
    table,
    text,
    time,
)
from multikueue.api.kueue import queues
from multikueue_simulator.definitions import rules

__all__ = ["CLUSTER_QUEUE", "COHORT", "CONSUMED", "LOCAL_QUEUE", "RESOURCE_FLAVOR", "USAGE_OF_LOCAL_QUEUE"]

_NAME = text(253, SUBDOMAIN)
_STOP = text(one_of=("None", "Hold", "HoldAndDrain"), default="None")
_FAIR_SHARING = of(queues.FairSharing, weight=quantity() | {"default": 1})

_RESOURCE_GROUPS = array(
    of(
        queues.ResourceGroup,
        needs=("coveredResources", "flavors"),
        rules=rules.RESOURCE_GROUP,
        coveredResources=array(text(), kind="atomic", least=1, most=64),
        flavors=array(
            of(
                queues.FlavorQuotas,
                needs=("name", "resources"),
                name=_NAME,
                resources=array(
                    of(queues.ResourceQuota, needs=("name", "nominalQuota")), keys=("name",), least=1, most=64
                ),
            ),
            keys=("name",),
            least=1,
            most=64,
        ),
    ),
    kind="atomic",
    most=16,
)

_SELECTOR = of(
    queues.LabelSelector,
    matchExpressions=array(
        of(queues.LabelSelectorRequirement, needs=("key", "operator"), values=array(kind="atomic")), kind="atomic"
    ),
) | {"x-kubernetes-map-type": "atomic"}

_PREEMPTION = of(
    queues.Preemption,
    rules=rules.PREEMPTION,
    default={},
    reclaimWithinCohort=text(one_of=("Never", "LowerPriority", "Any"), default="Never"),
    borrowWithinCohort=of(
        queues.BorrowWithinCohort,
        default={},
        policy=text(one_of=("Never", "LowerPriority"), default="Never"),
    ),
    withinClusterQueue=text(one_of=("Never", "LowerPriority", "LowerOrNewerEqualPriority"), default="Never"),
)

_FUNGIBILITY = of(
    queues.FlavorFungibility,
    rules=rules.FUNGIBILITY,
    default={},
    whenCanBorrow=text(one_of=("MayStopSearch", "TryNextFlavor"), default="MayStopSearch"),
    whenCanPreempt=text(one_of=("MayStopSearch", "TryNextFlavor"), default="TryNextFlavor"),
    preference=text(one_of=("BorrowingOverPreemption", "PreemptionOverBorrowing")),
)

_USAGE = array(
    of(
        queues.FlavorUsage,
        needs=("name", "resources"),
        name=_NAME,
        resources=array(
            of(queues.ResourceUsage, needs=("name",), total=quantity(), borrowed=quantity()), keys=("name",), most=64
        ),
    ),
    keys=("name",),
    most=64,
)
USAGE_OF_LOCAL_QUEUE = array(
    record(
        needs=("name", "resources"),
        name=_NAME,
        resources=array(record(needs=("name",), name=text(), total=quantity()), keys=("name",), most=16),
    ),
    keys=("name",),
    most=16,
)

_SHARE = record(needs=("weightedShare",), weightedShare=number(bits=64))

CONSUMED = record(needs=("consumedResources", "lastUpdate"), consumedResources=quantities(), lastUpdate=time())
"""Recently consumed resources of a queue, for usage-based fair sharing."""

_SHARE_OF_LOCAL_QUEUE = record(
    needs=("weightedShare",), weightedShare=number(bits=64), admissionFairSharingStatus=CONSUMED
)

CLUSTER_QUEUE = Kind(
    group="kueue.x-k8s.io",
    kind="ClusterQueue",
    plural="clusterqueues",
    short_names=("cq",),
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=of(
                    queues.ClusterQueueSpec,
                    rules=rules.CLUSTER_QUEUE,
                    resourceGroups=_RESOURCE_GROUPS,
                    cohortName=_NAME,
                    queueingStrategy=text(one_of=("StrictFIFO", "BestEffortFIFO"), default="BestEffortFIFO"),
                    namespaceSelector=_SELECTOR,
                    flavorFungibility=_FUNGIBILITY,
                    preemption=_PREEMPTION,
                    admissionChecksStrategy=of(
                        queues.AdmissionChecksStrategy,
                        needs=("admissionChecks",),
                        admissionChecks=array(
                            of(
                                queues.AdmissionCheckRule,
                                needs=("name",),
                                name=text(316, shortest=1),
                                onFlavors=array(_NAME, kind="set", most=64),
                            ),
                            keys=("name",),
                            least=1,
                            most=64,
                        ),
                    ),
                    stopPolicy=_STOP,
                    fairSharing=_FAIR_SHARING,
                    admissionScope=record(
                        needs=("admissionMode",),
                        admissionMode=text(one_of=("NoAdmissionFairSharing", "UsageBasedAdmissionFairSharing")),
                    ),
                ),
                status=of(
                    queues.QueueStatus,
                    conditions=conditions(16),
                    flavorsReservation=_USAGE,
                    flavorsUsage=_USAGE,
                    fairSharing=_SHARE,
                ),
            ),
            columns=(
                column("Cohort", ".spec.cohortName"),
                column("Strategy", ".spec.queueingStrategy", priority=1),
                column("Pending Workloads", ".status.pendingWorkloads", "integer"),
                column("Admitted Workloads", ".status.admittedWorkloads", "integer", priority=1),
            ),
        ),
    ),
)

LOCAL_QUEUE = Kind(
    group="kueue.x-k8s.io",
    kind="LocalQueue",
    plural="localqueues",
    namespaced=True,
    short_names=("queue", "queues", "lq"),
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=of(
                    queues.LocalQueueSpec,
                    clusterQueue=text(253, SUBDOMAIN, rules=rules.FIXED),
                    stopPolicy=_STOP,
                    fairSharing=_FAIR_SHARING,
                ),
                status=of(
                    queues.QueueStatus,
                    conditions=conditions(16),
                    flavorsReservation=USAGE_OF_LOCAL_QUEUE,
                    flavorsUsage=USAGE_OF_LOCAL_QUEUE,
                    fairSharing=_SHARE_OF_LOCAL_QUEUE,
                ),
            ),
            columns=(
                column("ClusterQueue", ".spec.clusterQueue"),
                column("Pending Workloads", ".status.pendingWorkloads", "integer"),
                column("Admitted Workloads", ".status.admittedWorkloads", "integer"),
            ),
        ),
    ),
)

COHORT = Kind(
    group="kueue.x-k8s.io",
    kind="Cohort",
    plural="cohorts",
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            schema=record(
                spec=of(
                    queues.CohortSpec,
                    parentName=_NAME,
                    resourceGroups=_RESOURCE_GROUPS,
                    fairSharing=_FAIR_SHARING,
                ),
                status=record(fairSharing=_SHARE),
            ),
        ),
    ),
)

RESOURCE_FLAVOR = Kind(
    group="kueue.x-k8s.io",
    kind="ResourceFlavor",
    plural="resourceflavors",
    short_names=("flavor", "flavors", "rf"),
    versions=(
        Version(
            name="v1beta2",
            storage=True,
            status=False,
            schema=record(
                spec=of(
                    queues.ResourceFlavorSpec,
                    rules=rules.RESOURCE_FLAVOR,
                    nodeLabels=table(text(), most=8, atomic=True),
                    nodeTaints=array(
                        of(queues.Taint, needs=("effect", "key"), timeAdded=time()),
                        kind="atomic",
                        most=8,
                        rules=rules.TAINTS,
                    ),
                    tolerations=array(
                        of(queues.Toleration, tolerationSeconds=number(bits=64)),
                        kind="atomic",
                        most=8,
                        rules=rules.TOLERATIONS,
                    ),
                    topologyName=_NAME,
                ),
            ),
        ),
    ),
)
