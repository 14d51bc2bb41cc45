"""Drawn manifests of Kueue's v1beta1, with every field that v1beta2 has under another name or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Tree = dict[str, Any]

NAMES = ("teams", "team-a", "east.example.com")


def draw(kind: str, random: Random) -> Tree:
    """An object of v1beta1 without a name. An API server with Kueue's CRDs takes it."""
    fields = DRAWN[kind](random)
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, "metadata": {}, **fields}


def _some(random: Random, **fields: Any) -> Tree:
    """About half of the fields, in any order."""
    names = [name for name in fields if random.random() < 0.6]
    random.shuffle(names)
    return {name: fields[name] for name in names}


def _cluster_queue(random: Random) -> Tree:
    quota = {"name": "cpu", "nominalQuota": random.choice([4, "4", "500m"])}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    old, new = ["Borrow", "MayStopSearch", "TryNextFlavor"], ["Preempt", "MayStopSearch", "TryNextFlavor"]
    fungibility = _some(random, whenCanBorrow=random.choice(old), whenCanPreempt=random.choice(new))
    strategy = {"admissionChecks": [{"name": "provisioned", "onFlavors": ["default"]}]}
    checks: Tree = random.choice(
        [
            {},
            {"admissionChecks": []},
            {"admissionChecks": ["everywhere", "provisioned"]},
            {"admissionChecksStrategy": strategy},
        ]
    )
    spec = _some(
        random,
        cohort=random.choice(NAMES),
        flavorFungibility=fungibility,
        queueingStrategy=random.choice(["StrictFIFO", "BestEffortFIFO"]),
        stopPolicy=random.choice(["None", "Hold", "HoldAndDrain"]),
        preemption={"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"},
        fairSharing={"weight": random.choice(["1", "0.5"])},
        namespaceSelector={},
    )
    return {"spec": {**checks, **spec, "resourceGroups": [group]}}


def _cohort(random: Random) -> Tree:
    return {"spec": _some(random, parentName="all", fairSharing={"weight": "2"})}


def _local_queue(random: Random) -> Tree:
    return {"spec": {"clusterQueue": random.choice(NAMES), **_some(random, stopPolicy="Hold")}}


def _multikueue_cluster(random: Random) -> Tree:
    kubeconfig = {"location": "worker-1", **_some(random, locationType=random.choice(["Secret", "Path"]))}
    profile = {"clusterProfileRef": {"name": "profile-1"}, "kubeConfig": {"location": ""}}
    return {"spec": random.choice([{"kubeConfig": kubeconfig}, profile])}


def _multikueue_config(random: Random) -> Tree:
    return {"spec": {"clusters": random.sample(["worker-1", "worker-2", "worker-3"], k=random.randint(1, 3))}}


def _admission_check(random: Random) -> Tree:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"}
    return {
        "spec": {"controllerName": "example.com/none", **_some(random, retryDelayMinutes=10, parameters=parameters)},
    }


def _resource_flavor(random: Random) -> Tree:
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    toleration = {"key": "spot", "operator": "Exists"}
    return {"spec": _some(random, nodeLabels={"pool": "1e3"}, nodeTaints=[taint], tolerations=[toleration])}


def _topology(random: Random) -> Tree:
    levels = [{"nodeLabel": "example.com/block"}, {"nodeLabel": "kubernetes.io/hostname"}]
    return {"spec": {"levels": levels[random.randint(0, 1) :]}}


def _priority_class(random: Random) -> Tree:
    return {"value": random.randint(-5, 1000), **_some(random, description="for the night")}


def _provisioning(random: Random) -> Tree:
    fields = _some(random, managedResources=["nvidia.com/gpu"], parameters={"zone": "a"})
    return {"spec": {"provisioningClassName": "check-capacity.autoscaling.x-k8s.io", **fields}}


def _workload(random: Random) -> Tree:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container], "restartPolicy": "Never"}}
    priority: Tree = random.choice(
        [
            {},
            {"priority": 5},
            *(
                {"priorityClassSource": source, "priorityClassName": "high", "priority": 7}
                for source in ("kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", "")
            ),
        ]
    )
    pods = {"name": "main", "count": random.randint(1, 4), "template": template}
    return {"spec": {"podSets": [pods], **priority, **_some(random, queueName="nobody", active=False)}}


DRAWN: Mapping[str, Callable[[Random], Tree]] = {
    "AdmissionCheck": _admission_check,
    "ClusterQueue": _cluster_queue,
    "Cohort": _cohort,
    "LocalQueue": _local_queue,
    "MultiKueueCluster": _multikueue_cluster,
    "MultiKueueConfig": _multikueue_config,
    "ProvisioningRequestConfig": _provisioning,
    "ResourceFlavor": _resource_flavor,
    "Topology": _topology,
    "Workload": _workload,
    "WorkloadPriorityClass": _priority_class,
}
