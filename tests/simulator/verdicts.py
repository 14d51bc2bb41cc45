"""Changes that an API server accepts or refuses by a kind's definition: one file, a table that the real suite reads too.

The fast tests ask the sandbox's definitions about each, the real suite a real API server with the real ones: both must
give the verdict that is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["CASES", "Case"]

Object = dict[str, Any]

KUEUE = "kueue.x-k8s.io/v1beta2"
OCM = "cluster.open-cluster-management.io"
NOW = "2026-11-21T12:00:00Z"


@dataclass(frozen=True, slots=True)
class Case:
    """An object, what is then done to it, and the fields that the last step is refused for, if it is.

    A step is the part it writes (`spec` with all but the status, or `status`) and a merge patch for that part. Without
    steps the creation itself is judged; all before the last step must be accepted.
    """

    sentence: str
    first: Object
    steps: Sequence[tuple[str, Object]] = ()
    refused: frozenset[str] = frozenset()


def of(kind: str, api_version: str = KUEUE, /, **parts: Any) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, **parts}


TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}


def pod_set(name: str = "main", **more: Any) -> Object:
    return {"name": name, "count": 1, "template": TEMPLATE} | more


def workload(*sets: Object, **spec: Any) -> Object:
    return of("Workload", spec={"queueName": "queue", "podSets": list(sets) or [pod_set()]} | spec)


def condition(type_: str, status: str = "True") -> Object:
    return {"type": type_, "status": status, "reason": "Test", "message": "m", "lastTransitionTime": NOW}


def admission(*names: str) -> Object:
    return {"clusterQueue": "cq", "podSetAssignments": [{"name": name} for name in names or ("main",)]}


def reserved(**more: Any) -> tuple[str, Object]:
    return "status", {"conditions": [condition("QuotaReserved")], "admission": admission()} | more


def admitted(**more: Any) -> tuple[str, Object]:
    both = [condition("QuotaReserved"), condition("Admitted")]
    return "status", {"conditions": both, "admission": admission()} | more


def check(state: str = "Pending", name: str = "mk", **more: Any) -> Object:
    return {"name": name, "state": state, "message": "", "lastTransitionTime": NOW} | more


CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}


def refused(*fields: str) -> frozenset[str]:
    return frozenset(fields)


_WORKLOADS = [
    Case("a plain workload", workload()),
    Case("a workload without pod sets", workload(podSets=[]), refused=refused("spec.podSets")),
    Case("eight pod sets", workload(*(pod_set(f"s{n}") for n in range(8)))),
    Case("nine pod sets", workload(*(pod_set(f"s{n}") for n in range(9))), refused=refused("spec.podSets")),
    Case("two pod sets of one name", workload(pod_set("a"), pod_set("a")), refused=refused("spec.podSets[1]")),
    Case("a pod set without template", workload({"name": "a"}), refused=refused("spec.podSets[0].template")),
    Case("a pod set without count and name", workload({"template": TEMPLATE})),
    Case("a pod set of no pods", workload(pod_set(count=0))),
    Case("a negative count", workload(pod_set(count=-1)), refused=refused("spec.podSets[0].count")),
    Case("a count that is text", workload(pod_set(count="1")), refused=refused("spec.podSets[0].count")),
    Case("a minCount within the count", workload(pod_set(count=3, minCount=2))),
    Case("a minCount above the count", workload(pod_set(count=3, minCount=4)), refused=refused("spec.podSets[0]")),
    Case("a minCount of zero", workload(pod_set(count=3, minCount=0)), refused=refused("spec.podSets[0].minCount")),
    Case(
        "two pod sets with a minCount",
        workload(pod_set("a", count=2, minCount=1), pod_set("b", count=2, minCount=1)),
    ),
    Case("a pod set's name in capitals", workload(pod_set("A")), refused=refused("spec.podSets[0].name")),
    Case("a queue's name in capitals", workload(queueName="Q"), refused=refused("spec.queueName")),
    Case("a priority class and a priority", workload(priorityClassRef=CLASS, priority=5)),
    Case("a pod's priority class", workload(priorityClassRef=POD_CLASS, priority=5)),
    Case("a priority class without a priority", workload(priorityClassRef=CLASS), refused=refused("spec")),
    Case(
        "a priority class of another group's kind",
        workload(priorityClassRef=CLASS | {"kind": "PriorityClass"}, priority=1),
        refused=refused("spec.priorityClassRef"),
    ),
    Case(
        "a pod's priority class of Kueue's kind",
        workload(priorityClassRef=POD_CLASS | {"kind": "WorkloadPriorityClass"}, priority=1),
        refused=refused("spec.priorityClassRef"),
    ),
    Case(
        "a priority class of a foreign group",
        workload(priorityClassRef=CLASS | {"group": "x"}, priority=1),
        refused=refused("spec.priorityClassRef.group"),
    ),
    Case(
        "no time at all to run",
        workload(maximumExecutionTimeSeconds=0),
        refused=refused("spec.maximumExecutionTimeSeconds"),
    ),
    Case("active that is text", workload(active="yes"), refused=refused("spec.active")),
    Case("fields that nobody knows", workload(nonsense=1)),
    # Status.
    Case("a reservation", workload(), [reserved()]),
    Case(
        "a reservation of more pod sets", workload(), [reserved(admission=admission("main", "more"))], refused("<nil>")
    ),
    Case(
        "an admission without reservation of more pod sets",
        workload(),
        [("status", {"admission": admission("a", "b")})],
    ),
    Case(
        "an assignment's count below zero",
        workload(),
        [reserved(admission={"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": -1}]})],
        refused("status.admission.podSetAssignments[0].count"),
    ),
    Case(
        "a usage that is no quantity",
        workload(),
        [
            reserved(
                admission={
                    "clusterQueue": "cq",
                    "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": "much"}}],
                }
            )
        ],
        refused("status.admission.podSetAssignments[0].resourceUsage.cpu"),
    ),
    Case(
        "a usage that is a number",
        workload(),
        [
            reserved(
                admission={"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "resourceUsage": {"cpu": 1}}]}
            )
        ],
    ),
    Case(
        "a condition without reason",
        workload(),
        [("status", {"conditions": [condition("A") | {"reason": ""}]})],
        refused("status.conditions[0].reason"),
    ),
    Case(
        "a condition without message",
        workload(),
        [("status", {"conditions": [{k: v for k, v in condition("A").items() if k != "message"}]})],
        refused("status.conditions[0].message"),
    ),
    Case(
        "a condition of no such status",
        workload(),
        [("status", {"conditions": [condition("A", "Perhaps")]})],
        refused("status.conditions[0].status"),
    ),
    Case(
        "a condition at no such time",
        workload(),
        [("status", {"conditions": [condition("A") | {"lastTransitionTime": "now"}]})],
        refused("status.conditions[0].lastTransitionTime"),
    ),
    Case(
        "a condition of a type with a domain",
        workload(),
        [("status", {"conditions": [condition("multikueue.dev/Nominated")]})],
    ),
    Case(
        "a condition of a type with a blank",
        workload(),
        [("status", {"conditions": [condition("No Type")]})],
        refused("status.conditions[0].type"),
    ),
    Case(
        "two conditions of one type",
        workload(),
        [("status", {"conditions": [condition("A"), condition("A", "False")]})],
        refused("status.conditions[1]"),
    ),
    Case("sixteen conditions", workload(), [("status", {"conditions": [condition(f"C{n}") for n in range(16)]})]),
    Case(
        "seventeen conditions",
        workload(),
        [("status", {"conditions": [condition(f"C{n}") for n in range(17)]})],
        refused("status.conditions"),
    ),
    Case("a check that waits", workload(), [("status", {"admissionChecks": [check()]})]),
    Case(
        "a check in no such state",
        workload(),
        [("status", {"admissionChecks": [check("Perhaps")]})],
        refused("status.admissionChecks[0].state"),
    ),
    Case(
        "two states of one check",
        workload(),
        [("status", {"admissionChecks": [check(), check("Ready")]})],
        refused("status.admissionChecks[1]"),
    ),
    Case(
        "nine checks",
        workload(),
        [("status", {"admissionChecks": [check(name=f"c{n}") for n in range(9)]})],
        refused("status.admissionChecks"),
    ),
    Case(
        "a check's message that is endless",
        workload(),
        [("status", {"admissionChecks": [check(message="m" * 32769)]})],
        refused("status.admissionChecks[0].message"),
    ),
    Case(
        "a check that names no time",
        workload(),
        [("status", {"admissionChecks": [{"name": "mk", "state": "Ready", "message": ""}]})],
        refused("status.admissionChecks[0].lastTransitionTime"),
    ),
    Case(
        "reclaimable pods below zero",
        workload(),
        [("status", {"reclaimablePods": [{"name": "main", "count": -1}]})],
        refused("status.reclaimablePods[0].count"),
    ),
    Case(
        "an eviction without cause",
        workload(),
        [("status", {"schedulingStats": {"evictions": [{"reason": "R", "count": 1}]}})],
        refused("status.schedulingStats.evictions[0].underlyingCause"),
    ),
    Case(
        "evictions of two causes",
        workload(),
        [
            (
                "status",
                {
                    "schedulingStats": {
                        "evictions": [{"reason": "R", "underlyingCause": c, "count": 1} for c in ("", "C")]
                    }
                },
            )
        ],
    ),
    # MultiKueue's part of it.
    Case("nominations", workload(), [("status", {"nominatedClusterNames": ["a", "b"]})]),
    Case(
        "more nominations than may be",
        workload(),
        [("status", {"nominatedClusterNames": [f"c{n}" for n in range(21)]})],
        refused("status.nominatedClusterNames"),
    ),
    Case("a nomination twice", workload(), [("status", {"nominatedClusterNames": ["a", "a"]})]),
    Case(
        "a winner",
        workload(),
        [("status", {"nominatedClusterNames": ["a"]}), ("status", {"nominatedClusterNames": None, "clusterName": "a"})],
    ),
    Case("a winner that was not nominated", workload(), [("status", {"clusterName": "a"})]),
    Case(
        "a winner beside nominations",
        workload(),
        [("status", {"nominatedClusterNames": ["a"], "clusterName": "a"})],
        refused("status"),
    ),
    Case("a winner beside no nominations", workload(), [("status", {"nominatedClusterNames": [], "clusterName": "a"})]),
    Case(
        "another winner",
        workload(),
        [("status", {"clusterName": "a"}), ("status", {"clusterName": "b"})],
        refused("status"),
    ),
    Case("the winner given up", workload(), [("status", {"clusterName": "a"}), ("status", {"clusterName": None})]),
    Case(
        "a winner after one that was given up",
        workload(),
        [("status", {"clusterName": "a"}), ("status", {"clusterName": None}), ("status", {"clusterName": "b"})],
    ),
    Case(
        "nominations beside the winner of before",
        workload(),
        [("status", {"clusterName": "a"}), ("status", {"nominatedClusterNames": ["b"]})],
        refused("status"),
    ),
    Case(
        "a winner's name that is too long",
        workload(),
        [("status", {"clusterName": "a" * 257})],
        refused("status.clusterName"),
    ),
    Case("a winner while the conditions change", workload(), [reserved(clusterName="a"), admitted(clusterName="a")]),
    # What may not change while there is a reservation.
    Case("another queue", workload(), [("spec", {"queueName": "other"})]),
    Case(
        "another queue while quota is reserved",
        workload(),
        [reserved(), ("spec", {"queueName": "other"})],
        refused("<nil>"),
    ),
    Case(
        "no queue while quota is reserved",
        workload(),
        [reserved(), ("spec", {"queueName": None})],
    ),
    Case("a queue while quota is reserved", workload(queueName=None), [reserved(), ("spec", {"queueName": "q"})]),
    Case(
        "another queue once the reservation is gone",
        workload(),
        [
            reserved(),
            ("status", {"conditions": [condition("QuotaReserved", "False")], "admission": None}),
            ("spec", {"queueName": "other"}),
        ],
    ),
    Case("more pods", workload(), [("spec", {"podSets": [pod_set(count=5)]})]),
    Case("more pods while quota is reserved", workload(), [reserved(), ("spec", {"podSets": [pod_set(count=5)]})]),
    Case(
        "another pod set while quota is reserved",
        workload(),
        [reserved(), ("spec", {"podSets": [pod_set(), pod_set("b")]})],
        refused("<nil>"),
    ),
    Case(
        "another time to run while quota is reserved",
        workload(maximumExecutionTimeSeconds=5),
        [reserved(), ("spec", {"maximumExecutionTimeSeconds": 6})],
    ),
    Case(
        "another time to run while admitted",
        workload(maximumExecutionTimeSeconds=5),
        [admitted(), ("spec", {"maximumExecutionTimeSeconds": 6})],
        refused("<nil>"),
    ),
    Case(
        "no end of the time to run while admitted",
        workload(maximumExecutionTimeSeconds=5),
        [admitted(), ("spec", {"maximumExecutionTimeSeconds": None})],
        refused("<nil>"),
    ),
    Case(
        "an end of the time to run while admitted",
        workload(),
        [admitted(), ("spec", {"maximumExecutionTimeSeconds": 6})],
        refused("<nil>"),
    ),
    Case(
        "another class before the reservation",
        workload(priorityClassRef=CLASS, priority=1),
        [("spec", {"priorityClassRef": POD_CLASS})],
    ),
    Case(
        "another name of a class while quota is reserved",
        workload(priorityClassRef=CLASS, priority=1),
        [reserved(), ("spec", {"priorityClassRef": {"name": "low"}, "priority": 2})],
    ),
    Case(
        "another name of a pod's class while quota is reserved",
        workload(priorityClassRef=POD_CLASS, priority=1),
        [reserved(), ("spec", {"priorityClassRef": {"name": "low"}})],
        refused("<nil>"),
    ),
    Case(
        "another kind of class while quota is reserved",
        workload(priorityClassRef=CLASS, priority=1),
        [reserved(), ("spec", {"priorityClassRef": POD_CLASS})],
        refused("<nil>"),
    ),
    Case(
        "a class while quota is reserved",
        workload(priority=1),
        [reserved(), ("spec", {"priorityClassRef": CLASS})],
        refused("<nil>"),
    ),
    Case(
        "no class while quota is reserved",
        workload(priorityClassRef=CLASS, priority=1),
        [reserved(), ("spec", {"priorityClassRef": None})],
        refused("<nil>"),
    ),
    Case(
        "another priority while quota is reserved",
        workload(priorityClassRef=CLASS, priority=1),
        [reserved(), ("spec", {"priority": 7})],
    ),
    Case("an end while quota is reserved", workload(), [reserved(), ("spec", {"active": False})]),
    Case(
        "another admission while quota is reserved",
        workload(),
        [reserved(), reserved(admission={"clusterQueue": "other", "podSetAssignments": [{"name": "main"}]})],
    ),
    Case(
        "fewer reclaimable pods while quota is reserved",
        workload(),
        [reserved(reclaimablePods=[{"name": "main", "count": 1}]), reserved(reclaimablePods=[])],
    ),
    Case(
        "other updates of a check that is ready",
        workload(),
        [
            ("status", {"admissionChecks": [check("Ready", podSetUpdates=[{"name": "main", "labels": {"a": "1"}}])]}),
            ("status", {"admissionChecks": [check("Ready", podSetUpdates=[{"name": "main", "labels": {"a": "2"}}])]}),
        ],
    ),
    Case(
        "a toleration of a check without key and operator",
        workload(),
        [
            (
                "status",
                {
                    "admissionChecks": [
                        check("Ready", podSetUpdates=[{"name": "main", "tolerations": [{"value": "1"}]}])
                    ]
                },
            )
        ],
        refused("status.admissionChecks[0].podSetUpdates[0].tolerations"),
    ),
]


def placed(**assignment: Any) -> Sequence[tuple[str, Object]]:
    """The steps that give the pods of the only pod set their places."""
    made = {"name": "main", "topologyAssignment": assignment}
    return [reserved(admission={"clusterQueue": "cq", "podSetAssignments": [made]})]


def placed_in(podCounts: Object, *values: Object) -> Object:  # noqa: N803 - the API's word
    return {"domainCount": 2, "podCounts": podCounts, "valuesPerLevel": list(values)}


_PLACE = "status.admission.podSetAssignments[0].topologyAssignment"
_EACH = {"individual": {"roots": ["a", "b"]}}

_PLACES = [
    Case("places", workload(), placed(levels=["host"], slices=[placed_in({"universal": 1}, _EACH)])),
    Case(
        "places of one value",
        workload(),
        placed(levels=["host"], slices=[placed_in({"individual": [1, 2]}, {"universal": "a"})]),
    ),
    Case(
        "a count too few",
        workload(),
        placed(levels=["host"], slices=[placed_in({"individual": [1]}, _EACH)]),
        refused(f"{_PLACE}.slices[0]"),
    ),
    Case(
        "a value too few",
        workload(),
        placed(levels=["host"], slices=[placed_in({"universal": 1}, {"individual": {"roots": ["a"]}})]),
        refused(f"{_PLACE}.slices[0]"),
    ),
    Case(
        "no counts",
        workload(),
        placed(levels=["host"], slices=[placed_in({}, _EACH)]),
        refused(f"{_PLACE}.slices[0].podCounts"),
    ),
    Case(
        "counts told twice",
        workload(),
        placed(levels=["host"], slices=[placed_in({"universal": 1, "individual": [1, 1]}, _EACH)]),
        refused(f"{_PLACE}.slices[0].podCounts"),
    ),
    Case(
        "values told twice",
        workload(),
        placed(levels=["host"], slices=[placed_in({"universal": 1}, _EACH | {"universal": "a"})]),
        refused(f"{_PLACE}.slices[0].valuesPerLevel[0]"),
    ),
    Case(
        "values of more levels",
        workload(),
        placed(levels=["host"], slices=[placed_in({"universal": 1}, _EACH, _EACH)]),
        refused(_PLACE),
    ),
    Case("places without levels", workload(), placed(slices=[]), refused(f"{_PLACE}.levels")),
]


def cluster_queue(**spec: Any) -> Object:
    return of("ClusterQueue", spec=spec)


def flavor(name: str = "default", *resources: Object) -> Object:
    return {"name": name, "resources": list(resources) or [{"name": "cpu", "nominalQuota": "5"}]}


def group(*flavors: Object, covered: Sequence[str] = ("cpu",)) -> Object:
    return {"coveredResources": list(covered), "flavors": list(flavors) or [flavor()]}


def quota(**more: Any) -> Object:
    return {"name": "cpu", "nominalQuota": 5} | more


_QUEUES = [
    Case("a cluster queue without anything", cluster_queue()),
    Case("a cluster queue with a group", cluster_queue(resourceGroups=[group()])),
    Case(
        "a flavor without its resources",
        cluster_queue(resourceGroups=[group(covered=("cpu", "memory"))]),
        refused=refused("spec.resourceGroups[0]"),
    ),
    Case(
        "a flavor twice in a group",
        cluster_queue(resourceGroups=[group(flavor(), flavor())]),
        refused=refused("spec.resourceGroups[0].flavors[1]"),
    ),
    Case(
        "a group of no flavors",
        cluster_queue(resourceGroups=[{"coveredResources": ["cpu"], "flavors": []}]),
        refused=refused("spec.resourceGroups[0].flavors"),
    ),
    Case(
        "a quota that is no quantity",
        cluster_queue(resourceGroups=[group(flavor("f", quota(nominalQuota="five")))]),
        refused=refused("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"),
    ),
    Case("a quota below zero", cluster_queue(resourceGroups=[group(flavor("f", quota(nominalQuota="-1")))])),
    Case(
        "a quota that is left out",
        cluster_queue(resourceGroups=[group(flavor("f", {"name": "cpu"}))]),
        refused=refused("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"),
    ),
    Case(
        "a limit of borrowing without cohort",
        cluster_queue(resourceGroups=[group(flavor("f", quota(borrowingLimit=1)))]),
        refused=refused("spec"),
    ),
    Case(
        "a limit of borrowing in a cohort",
        cluster_queue(cohortName="all", resourceGroups=[group(flavor("f", quota(borrowingLimit=1)))]),
    ),
    Case(
        "a limit of lending without cohort", cluster_queue(resourceGroups=[group(flavor("f", quota(lendingLimit=1)))])
    ),
    Case(
        "a strategy that does not exist",
        cluster_queue(queueingStrategy="LIFO"),
        refused=refused("spec.queueingStrategy"),
    ),
    Case("a stop policy that does not exist", cluster_queue(stopPolicy="Now"), refused=refused("spec.stopPolicy")),
    Case(
        "another strategy",
        cluster_queue(queueingStrategy="StrictFIFO"),
        [("spec", {"queueingStrategy": "BestEffortFIFO"})],
    ),
    Case(
        "preemption that only borrows",
        cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
        refused=refused("spec.preemption"),
    ),
    Case(
        "preemption that reclaims and borrows",
        cluster_queue(
            preemption={
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 5},
            }
        ),
    ),
    Case(
        "a preference with the default order",
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption"}),
        refused=refused("spec.flavorFungibility"),
    ),
    Case(
        "a preference that may choose",
        cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption", "whenCanBorrow": "TryNextFlavor"}),
    ),
    Case(
        "a selector's operator that does not exist",
        cluster_queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
    ),
    Case("a selector of all", cluster_queue(namespaceSelector={})),
    Case(
        "no admission checks",
        cluster_queue(admissionChecksStrategy={"admissionChecks": []}),
        refused=refused("spec.admissionChecksStrategy.admissionChecks"),
    ),
    Case(
        "an admission check twice",
        cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "a"}, {"name": "a"}]}),
        refused=refused("spec.admissionChecksStrategy.admissionChecks[1]"),
    ),
    Case("a weight", cluster_queue(fairSharing={"weight": "0.5"})),
    Case(
        "a status",
        cluster_queue(),
        [
            (
                "status",
                {
                    "pendingWorkloads": 1,
                    "flavorsUsage": [{"name": "f", "resources": [{"name": "cpu", "total": "1", "borrowed": 0}]}],
                    "conditions": [condition("Active")],
                },
            )
        ],
    ),
    Case("a local queue", of("LocalQueue", spec={"clusterQueue": "cq"})),
    Case(
        "a local queue of another cluster queue",
        of("LocalQueue", spec={"clusterQueue": "cq"}),
        [("spec", {"clusterQueue": "other"})],
        refused("spec.clusterQueue"),
    ),
    Case(
        "a local queue without its cluster queue",
        of("LocalQueue", spec={"clusterQueue": "cq"}),
        [("spec", {"clusterQueue": None})],
    ),
    Case("a local queue that stops", of("LocalQueue", spec={"clusterQueue": "cq"}), [("spec", {"stopPolicy": "Hold"})]),
    Case(
        "a local queue's stop policy that does not exist",
        of("LocalQueue", spec={"clusterQueue": "cq", "stopPolicy": "Now"}),
        refused=refused("spec.stopPolicy"),
    ),
    Case("a cohort", of("Cohort", spec={"parentName": "root", "resourceGroups": [group()]})),
    Case(
        "a cohort without parent that limits",
        of("Cohort", spec={"resourceGroups": [group(flavor("f", quota(borrowingLimit=1)))]}),
    ),
    Case(
        "a cohort's group without quota",
        of("Cohort", spec={"resourceGroups": [group(covered=("cpu", "memory"))]}),
        refused=refused("spec.resourceGroups[0]"),
    ),
    Case("a priority class of Kueue's", of("WorkloadPriorityClass", value=5, description="d")),
    Case("a priority class without value", of("WorkloadPriorityClass"), refused=refused("value")),
]


def resource_flavor(**spec: Any) -> Object:
    return of("ResourceFlavor", spec=spec)


def tolerating(**toleration: Any) -> Object:
    return resource_flavor(tolerations=[toleration])


_FLAVORS = [
    Case("a flavor", resource_flavor(nodeLabels={"a": "b"})),
    Case("a flavor without spec", of("ResourceFlavor")),
    Case(
        "nine labels", resource_flavor(nodeLabels={f"l{n}": "" for n in range(9)}), refused=refused("spec.nodeLabels")
    ),
    Case("a taint", resource_flavor(nodeTaints=[{"key": "a", "effect": "NoSchedule"}])),
    Case(
        "a taint of no such effect",
        resource_flavor(nodeTaints=[{"key": "a", "effect": "Never"}]),
        refused=refused("spec.nodeTaints"),
    ),
    Case(
        "a taint without effect",
        resource_flavor(nodeTaints=[{"key": "a"}]),
        refused=refused("spec.nodeTaints[0].effect"),
    ),
    Case("a toleration of all", tolerating(operator="Exists")),
    Case("a toleration without key", tolerating(operator="Equal", value="a"), refused=refused("spec.tolerations")),
    Case(
        "a toleration that exists with a value",
        tolerating(key="a", operator="Exists", value="b"),
        refused=refused("spec.tolerations"),
    ),
    Case("a toleration of no such operator", tolerating(key="a", operator="Like"), refused=refused("spec.tolerations")),
    Case("a toleration of no such effect", tolerating(key="a", effect="Never"), refused=refused("spec.tolerations")),
    Case("a toleration for some time", tolerating(key="a", effect="NoExecute", tolerationSeconds=5)),
    Case(
        "a toleration for some time of scheduling",
        tolerating(key="a", effect="NoSchedule", tolerationSeconds=5),
        refused=refused("spec.tolerations"),
    ),
    Case("a topology without label", resource_flavor(topologyName="t"), refused=refused("spec")),
    Case("a topology with a label", resource_flavor(topologyName="t", nodeLabels={"a": "b"})),
    Case(
        "another topology",
        resource_flavor(topologyName="t", nodeLabels={"a": "b"}),
        [("spec", {"topologyName": "u"})],
        refused("spec"),
    ),
    Case(
        "another label beside a topology",
        resource_flavor(topologyName="t", nodeLabels={"a": "b"}),
        [("spec", {"nodeLabels": {"a": "c"}})],
        refused("spec"),
    ),
    Case(
        "a topology for a flavor that had none",
        resource_flavor(nodeLabels={"a": "b"}),
        [("spec", {"topologyName": "t"})],
    ),
    Case("another label", resource_flavor(nodeLabels={"a": "b"}), [("spec", {"nodeLabels": {"a": "c"}})]),
    Case("levels", of("Topology", spec={"levels": [{"nodeLabel": "block"}, {"nodeLabel": "kubernetes.io/hostname"}]})),
    Case(
        "a level twice",
        of("Topology", spec={"levels": [{"nodeLabel": "block"}, {"nodeLabel": "block"}]}),
        refused=refused("spec.levels"),
    ),
    Case(
        "a host above others",
        of("Topology", spec={"levels": [{"nodeLabel": "kubernetes.io/hostname"}, {"nodeLabel": "block"}]}),
        refused=refused("spec.levels"),
    ),
    Case("no levels", of("Topology", spec={"levels": []}), refused=refused("spec.levels")),
    Case(
        "other levels",
        of("Topology", spec={"levels": [{"nodeLabel": "block"}]}),
        [("spec", {"levels": [{"nodeLabel": "rack"}]})],
        refused("spec.levels"),
    ),
]

_PARAMETERS = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}


def admission_check(**spec: Any) -> Object:
    return of("AdmissionCheck", spec={"controllerName": "kueue.x-k8s.io/multikueue"} | spec)


def cluster(**source: Any) -> Object:
    return of("MultiKueueCluster", spec={"clusterSource": source})


_MULTIKUEUE = [
    Case("an admission check", admission_check(parameters=_PARAMETERS)),
    Case(
        "an admission check without controller", of("AdmissionCheck", spec={}), refused=refused("spec.controllerName")
    ),
    Case(
        "an admission check of another controller",
        admission_check(),
        [("spec", {"controllerName": "other"})],
        refused("spec.controllerName"),
    ),
    Case(
        "an admission check of other parameters",
        admission_check(parameters=_PARAMETERS),
        [("spec", {"parameters": {"name": "few"}})],
    ),
    Case(
        "parameters without a name",
        admission_check(parameters={"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig"}),
        refused=refused("spec.parameters.name"),
    ),
    Case(
        "parameters of no name",
        admission_check(parameters=_PARAMETERS | {"name": ""}),
        refused=refused("spec.parameters.name"),
    ),
    Case("clusters", of("MultiKueueConfig", spec={"clusters": ["a", "b"]})),
    Case(
        "a cluster twice",
        of("MultiKueueConfig", spec={"clusters": ["a", "b", "a"]}),
        refused=refused("spec.clusters[2]"),
    ),
    Case("no clusters", of("MultiKueueConfig", spec={"clusters": []}), refused=refused("spec.clusters")),
    Case(
        "more clusters than may be",
        of("MultiKueueConfig", spec={"clusters": [f"c{n}" for n in range(21)]}),
        refused=refused("spec.clusters"),
    ),
    Case("other clusters", of("MultiKueueConfig", spec={"clusters": ["a"]}), [("spec", {"clusters": ["b"]})]),
    Case("a cluster by a secret", cluster(kubeConfig={"location": "secret"})),
    Case("a cluster by a file", cluster(kubeConfig={"location": "/a", "locationType": "Path"})),
    Case("a cluster by its profile", cluster(clusterProfileRef={"name": "a"})),
    Case(
        "a cluster by both",
        cluster(kubeConfig={"location": "a"}, clusterProfileRef={"name": "a"}),
        refused=refused("spec.clusterSource"),
    ),
    Case("a cluster by neither", cluster(), refused=refused("spec.clusterSource")),
    Case("a cluster without spec", of("MultiKueueCluster")),
    Case(
        "a cluster at no such kind of place",
        cluster(kubeConfig={"location": "a", "locationType": "Web"}),
        refused=refused("spec.clusterSource.kubeConfig.locationType"),
    ),
    Case(
        "a cluster at a place of no name",
        cluster(kubeConfig={"location": ""}),
        refused=refused("spec.clusterSource.kubeConfig.location"),
    ),
    Case(
        "a cluster at another place",
        cluster(kubeConfig={"location": "a"}),
        [("spec", {"clusterSource": {"kubeConfig": {"location": "b"}}})],
    ),
    Case(
        "a cluster that is active",
        cluster(kubeConfig={"location": "a"}),
        [("status", {"conditions": [condition("Active")]})],
    ),
    Case("a class of provisioning", of("ProvisioningRequestConfig", spec={"provisioningClassName": "c"})),
    Case(
        "a class of provisioning with endless parameters",
        of("ProvisioningRequestConfig", spec={"provisioningClassName": "c", "parameters": {"a": "b" * 256}}),
        refused=refused("spec.parameters.a"),
    ),
]

_V1BETA1 = "kueue.x-k8s.io/v1beta1"


def older(**spec: Any) -> Object:
    return of("Workload", _V1BETA1, spec={"queueName": "queue", "podSets": [pod_set()]} | spec)


_OLDER = [
    Case(
        "an older workload of another queue", older(), [reserved(), ("spec", {"queueName": "other"})], refused("<nil>")
    ),
    Case(
        "an older winner",
        older(),
        [("status", {"clusterName": "a"}), ("status", {"clusterName": "b"})],
        refused("status"),
    ),
    Case(
        "an older workload",
        of(
            "Workload",
            _V1BETA1,
            spec={
                "podSets": [pod_set()],
                "priorityClassName": "a",
                "priority": 1,
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
            },
        ),
    ),
    Case("an older workload without pod sets", of("Workload", _V1BETA1, spec={}), refused=refused("spec.podSets")),
    Case(
        "an older priority class without a priority",
        of("Workload", _V1BETA1, spec={"podSets": [pod_set()], "priorityClassName": "a"}),
        refused=refused("spec"),
    ),
    Case(
        "an older cluster without kubeConfig",
        of("MultiKueueCluster", _V1BETA1, spec={}),
        refused=refused("spec.kubeConfig"),
    ),
    Case(
        "an older cluster queue that limits without cohort",
        of("ClusterQueue", _V1BETA1, spec={"resourceGroups": [group(flavor("f", quota(borrowingLimit=1)))]}),
        refused=refused("spec"),
    ),
    Case(
        "an older cluster queue's words",
        of(
            "ClusterQueue",
            _V1BETA1,
            spec={"cohort": "all", "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}},
        ),
    ),
    Case("an older check", of("AdmissionCheck", _V1BETA1, spec={"controllerName": "", "retryDelayMinutes": 3})),
]

_PLACEMENTS = [
    Case("a managed cluster", of("ManagedCluster", f"{OCM}/v1", spec={"hubAcceptsClient": True})),
    Case(
        "a managed cluster's taint",
        of(
            "ManagedCluster",
            f"{OCM}/v1",
            spec={"hubAcceptsClient": True, "taints": [{"key": "a", "effect": "NoSelect", "timeAdded": None}]},
        ),
    ),
    Case(
        "a managed cluster's taint of no such effect",
        of("ManagedCluster", f"{OCM}/v1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        refused=refused("spec.taints[0].effect"),
    ),
    Case("a set", of("ManagedClusterSet", f"{OCM}/v1beta2", spec={})),
    Case(
        "a set by no such selector",
        of("ManagedClusterSet", f"{OCM}/v1beta2", spec={"clusterSelector": {"selectorType": "Any"}}),
        refused=refused("spec.clusterSelector.selectorType"),
    ),
    Case("a binding", of("ManagedClusterSetBinding", f"{OCM}/v1beta2", spec={"clusterSet": "x"})),
    Case(
        "a binding of another set",
        of("ManagedClusterSetBinding", f"{OCM}/v1beta2", spec={"clusterSet": "x"}),
        [("spec", {"clusterSet": "y"})],
    ),
    Case("a placement", of("Placement", f"{OCM}/v1beta1", spec={})),
    Case("a placement without spec", of("Placement", f"{OCM}/v1beta1"), refused=refused("spec")),
    Case(
        "a placement that weighs too much",
        of(
            "Placement",
            f"{OCM}/v1beta1",
            spec={
                "prioritizerPolicy": {
                    "configurations": [{"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Steady"}, "weight": 11}]
                }
            },
        ),
        refused=refused("spec.prioritizerPolicy.configurations[0].weight"),
    ),
    Case(
        "groups by number",
        of(
            "Placement",
            f"{OCM}/v1beta1",
            spec={"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 50}}},
        ),
    ),
    Case(
        "groups by share",
        of(
            "Placement",
            f"{OCM}/v1beta1",
            spec={"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "25%"}}},
        ),
    ),
    Case(
        "groups by no number",
        of(
            "Placement",
            f"{OCM}/v1beta1",
            spec={"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "many"}}},
        ),
        refused=refused("spec.decisionStrategy.groupStrategy.clustersPerDecisionGroup"),
    ),
    Case(
        "decisions",
        of("PlacementDecision", f"{OCM}/v1beta1"),
        [("status", {"decisions": [{"clusterName": "a", "reason": ""}]})],
    ),
    Case(
        "a decision without reason",
        of("PlacementDecision", f"{OCM}/v1beta1"),
        [("status", {"decisions": [{"clusterName": "a"}]})],
        refused("status.decisions[0].reason"),
    ),
    Case("a profile", of("ClusterProfile", "multicluster.x-k8s.io/v1alpha1", spec={"clusterManager": {"name": "m"}})),
    Case(
        "a profile without manager",
        of("ClusterProfile", "multicluster.x-k8s.io/v1alpha1", spec={}),
        refused=refused("spec.clusterManager"),
    ),
    Case(
        "a profile of another manager",
        of("ClusterProfile", "multicluster.x-k8s.io/v1alpha1", spec={"clusterManager": {"name": "m"}}),
        [("spec", {"clusterManager": {"name": "n"}})],
        refused("spec.clusterManager"),
    ),
    Case(
        "a profile with access",
        of("ClusterProfile", "multicluster.x-k8s.io/v1alpha1", spec={"clusterManager": {"name": "m"}}),
        [
            (
                "status",
                {
                    "accessProviders": [
                        {
                            "name": "p",
                            "cluster": {
                                "server": "https://a",
                                "certificate-authority-data": "YQ==",
                                "extensions": [{"name": "e", "extension": {"any": 1}}],
                            },
                        }
                    ]
                },
            )
        ],
    ),
    Case(
        "a profile with access to nowhere",
        of("ClusterProfile", "multicluster.x-k8s.io/v1alpha1", spec={"clusterManager": {"name": "m"}}),
        [("status", {"accessProviders": [{"name": "p", "cluster": {}}]})],
        refused("status.accessProviders[0].cluster.server"),
    ),
]

CASES: Mapping[str, Sequence[Case]] = {
    "workloads": _WORKLOADS,
    "places": _PLACES,
    "queues": _QUEUES,
    "flavors": _FLAVORS,
    "multikueue": _MULTIKUEUE,
    "older": _OLDER,
    "placements": _PLACEMENTS,
}
