"""Changes that a definition allows and that Kueue's webhooks may refuse all the same.

As with `verdicts`: the fast tests ask our stand-in, the real suite a worker with a real Kueue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulator.verdicts import (
    TEMPLATE,
    Case,
    admission,
    check,
    cluster_queue,
    condition,
    flavor,
    group,
    of,
    pod_set,
    quota,
    refused,
    reserved,
    workload,
)

__all__ = ["CASES"]


def assigned(**more: Any) -> dict[str, Any]:
    return {"clusterQueue": "cq", "podSetAssignments": [{"name": "main"} | more]}


def updated(state: str, label: str, name: str = "main") -> tuple[str, dict[str, Any]]:
    return "status", {"admissionChecks": [check(state, podSetUpdates=[{"name": name, "labels": {"a": label}}])]}


def freed(count: int, name: str = "main") -> dict[str, Any]:
    return {"reclaimablePods": [{"name": name, "count": count}]}


_LIMIT = "spec.resourceGroups[0].flavors[0].resources[0]"
_PODS = {
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"pods": "1"}}}],
    "restartPolicy": "Never",
}

_WORKLOADS = [
    Case("more pods before there is a reservation", workload(), [("spec", {"podSets": [pod_set(count=5)]})]),
    Case(
        "more pods than reserved for",
        workload(),
        [reserved(), ("spec", {"podSets": [pod_set(count=5)]})],
        refused("spec.podSets.0"),
    ),
    Case(
        "fewer pods than reserved for",
        workload(pod_set(count=3)),
        [reserved(), ("spec", {"podSets": [pod_set(count=2)]})],
        refused("spec.podSets.0"),
    ),
    Case(
        "an admission to another queue",
        workload(),
        [reserved(), ("status", {"admission": {"clusterQueue": "other"}})],
        refused("status.admission"),
    ),
    Case(
        "an admission of another count",
        workload(),
        [reserved(), ("status", {"admission": assigned(count=3)})],
        refused("status.admission"),
    ),
    Case(
        "an admission whose places are to come",
        workload(),
        [reserved(), ("status", {"admission": assigned(delayedTopologyRequest="Pending")})],
    ),
    Case(
        "an admission given up with the reservation",
        workload(),
        [reserved(), ("status", {"admission": None, "conditions": [condition("QuotaReserved", "False")]})],
    ),
    Case(
        "an admission of an unknown pod set",
        workload(),
        [reserved(admission=admission("other"))],
        refused("status.admission.podSetAssignments[0].name"),
    ),
    Case(
        "more reclaimable pods than there are",
        workload(pod_set(count=3)),
        [("status", freed(4))],
        refused("status.reclaimablePods[main].count"),
    ),
    Case(
        "reclaimable pods of an unknown pod set",
        workload(),
        [("status", freed(1, "other"))],
        refused("status.reclaimablePods[other].name"),
    ),
    Case(
        "reclaimable pods that are needed again",
        workload(pod_set(count=3)),
        [reserved(**freed(2)), ("status", freed(1))],
        refused("status.reclaimablePods[main].count"),
    ),
    Case(
        "reclaimable pods that are forgotten",
        workload(pod_set(count=3)),
        [reserved(**freed(2)), ("status", {"reclaimablePods": None})],
        refused("status.reclaimablePods[main]"),
    ),
    Case(
        "updates that change while their check is ready",
        workload(),
        [updated("Ready", "1"), updated("Ready", "2")],
        refused("status.admissionChecks[0].podSetUpdates"),
    ),
    Case("updates that change as their check retries", workload(), [updated("Ready", "1"), updated("Retry", "2")]),
    Case(
        "updates of an unknown pod set",
        workload(),
        [updated("Ready", "1", "other")],
        refused("status.admissionChecks[0].podSetUpdates[0].name"),
    ),
    Case(
        "a winner that nobody nominated", workload(), [("status", {"clusterName": "a"})], refused("status.clusterName")
    ),
    Case(
        "a winner that was nominated before",
        workload(),
        [
            ("status", {"nominatedClusterNames": ["a"]}),
            ("status", {"nominatedClusterNames": None, "clusterName": "a"}),
        ],
    ),
    Case(
        "a winner that was not among the nominated",
        workload(),
        [
            ("status", {"nominatedClusterNames": ["a"]}),
            ("status", {"nominatedClusterNames": None, "clusterName": "b"}),
        ],
        refused("status.clusterName"),
    ),
    Case(
        "two pod sets that may shrink",
        workload(pod_set("a", count=2, minCount=1), pod_set("b", count=2, minCount=1)),
        refused=refused("spec.podSets"),
    ),
    Case(
        "a request for pods",
        workload(pod_set(template=TEMPLATE | {"spec": _PODS})),
        refused=refused("spec.podSets[0].template.spec.containers[0].resources.requests[pods]"),
    ),
]

_QUEUES = [
    Case(
        "a queue that lends within its cohort",
        cluster_queue(cohortName="c", resourceGroups=[group(flavor("f", quota(lendingLimit=5)))]),
    ),
    Case(
        "a queue that lends to nobody",
        cluster_queue(resourceGroups=[group(flavor("f", quota(lendingLimit=1)))]),
        refused=refused(f"{_LIMIT}.lendingLimit"),
    ),
    Case(
        "a queue that lends more than it has",
        cluster_queue(cohortName="c", resourceGroups=[group(flavor("f", quota(lendingLimit=10)))]),
        refused=refused(f"{_LIMIT}.lendingLimit"),
    ),
    Case(
        "a queue that owes quota",
        cluster_queue(resourceGroups=[group(flavor("f", quota(nominalQuota="-1")))]),
        refused=refused(f"{_LIMIT}.nominalQuota"),
    ),
    Case(
        "a flavor's resources in another order",
        cluster_queue(
            resourceGroups=[
                group(
                    flavor("f", {"name": "memory", "nominalQuota": 1}, {"name": "cpu", "nominalQuota": 1}),
                    covered=("cpu", "memory"),
                )
            ]
        ),
        refused=refused(f"{_LIMIT}.name", "spec.resourceGroups[0].flavors[0].resources[1].name"),
    ),
    Case(
        "a flavor in two groups",
        cluster_queue(
            resourceGroups=[group(), group(flavor("default", {"name": "gpu", "nominalQuota": 1}), covered=("gpu",))]
        ),
        refused=refused("spec.resourceGroups[1].flavors[0].name"),
    ),
    Case(
        "a resource in two groups",
        cluster_queue(resourceGroups=[group(), group(flavor("other"))]),
        refused=refused("spec.resourceGroups[1].coveredResources[0]"),
    ),
    Case(
        "a cohort that borrows from nobody",
        of("Cohort", spec={"resourceGroups": [group(flavor("f", quota(borrowingLimit=1)))]}),
        refused=refused(f"{_LIMIT}.borrowingLimit"),
    ),
    Case(
        "a cohort that lends more than it has",
        of("Cohort", spec={"parentName": "p", "resourceGroups": [group(flavor("f", quota(lendingLimit=10)))]}),
    ),
]

CASES: Sequence[Case] = (*_WORKLOADS, *_QUEUES)
