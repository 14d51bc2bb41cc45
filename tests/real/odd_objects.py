"""Odd objects, drawn by a seed: ordinary ones in which one to three places were changed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

from testbed import objects

Object = dict[str, Any]
Place = tuple[str | int, ...]

KUEUE = objects.KUEUE_VERSION

POD_SPEC: Object = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 30,
    "activeDeadlineSeconds": 600,
    "serviceAccountName": "default",
    "priority": 0,
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}],
    "schedulingGates": [{"name": "example.com/gate"}],
    "imagePullSecrets": [{"name": "pull"}, {"name": "other"}],
    "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["a.example"]}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}]
            }
        }
    },
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    ],
    "volumes": [
        {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "settings", "configMap": {"name": "settings", "items": [{"key": "a", "path": "b"}]}},
    ],
    "initContainers": [{"name": "init", "image": "busybox", "resources": {"requests": {"cpu": "100m"}}}],
    "containers": [
        {
            "name": "main",
            "image": "busybox",
            "command": ["true"],
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
            ],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"containerPort": 9090}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 10},
        }
    ],
}

ORDINARY: tuple[Object, ...] = (
    {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": {"kueue.x-k8s.io/queue-name": "main"}, "annotations": {"note": "text"}},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "backoffLimit": 3,
            "activeDeadlineSeconds": 600,
            "ttlSecondsAfterFinished": 60,
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 1,
            "maxFailedIndexes": 1,
            "suspend": True,
            "managedBy": "kueue.x-k8s.io/multikueue",
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]},
            "successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]},
            "template": {"metadata": {"labels": {"app": "train"}}, "spec": POD_SPEC},
        },
    },
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": "train"}}, "spec": POD_SPEC},
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {},
        "data": {"a": "text"},
        "binaryData": {"b": "AAAA"},
        "immutable": False,
    },
    {"apiVersion": "v1", "kind": "Secret", "metadata": {}, "type": "Opaque", "data": {"a": "AAAA"}},
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {},
        "spec": {
            "limits": [
                {
                    "type": "Container",
                    "default": {"cpu": "2"},
                    "defaultRequest": {"cpu": "1"},
                    "max": {"cpu": "4"},
                    "min": {"cpu": "1m"},
                }
            ]
        },
    },
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {},
        "value": 10,
        "globalDefault": False,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": KUEUE,
        "kind": "Workload",
        "metadata": {"labels": {"kueue.x-k8s.io/multikueue-origin": "multikueue"}},
        "spec": {
            "active": True,
            "queueName": "main",
            "priority": 5,
            "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"},
            "maximumExecutionTimeSeconds": 600,
            "podSets": [{"name": "main", "count": 2, "minCount": 1, "template": {"spec": POD_SPEC}}],
        },
    },
    {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"annotations": {"multikueue.dev/strategy": "Incremental"}},
        "spec": {
            "cohortName": "all",
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
            "namespaceSelector": {"matchLabels": {"team": "a"}},
            "preemption": {
                "withinClusterQueue": "LowerPriority",
                "reclaimWithinCohort": "Any",
                "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 10},
            },
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "fairSharing": {"weight": "2"},
            "admissionChecksStrategy": {"admissionChecks": [{"name": "mk", "onFlavors": ["default"]}]},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu", "memory"],
                    "flavors": [
                        {
                            "name": "default",
                            "resources": [
                                {"name": "cpu", "nominalQuota": "10", "borrowingLimit": "5", "lendingLimit": "5"},
                                {"name": "memory", "nominalQuota": "10Gi"},
                            ],
                        }
                    ],
                }
            ],
        },
    },
    {
        "apiVersion": KUEUE,
        "kind": "LocalQueue",
        "metadata": {},
        "spec": {"clusterQueue": "main", "stopPolicy": "None", "fairSharing": {"weight": "1"}},
    },
    {
        "apiVersion": KUEUE,
        "kind": "Cohort",
        "metadata": {},
        "spec": {
            "parentName": "root",
            "fairSharing": {"weight": "1"},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "1"}]}],
                }
            ],
        },
    },
    {
        "apiVersion": KUEUE,
        "kind": "ResourceFlavor",
        "metadata": {},
        "spec": {
            "nodeLabels": {"zone": "a"},
            "nodeTaints": [{"key": "spot", "value": "yes", "effect": "NoSchedule"}],
            "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        },
    },
    {
        "apiVersion": KUEUE,
        "kind": "AdmissionCheck",
        "metadata": {},
        "spec": {
            "controllerName": "kueue.x-k8s.io/multikueue",
            "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "all"},
        },
    },
    {"apiVersion": KUEUE, "kind": "MultiKueueConfig", "metadata": {}, "spec": {"clusters": ["w1", "w2"]}},
    {
        "apiVersion": KUEUE,
        "kind": "MultiKueueCluster",
        "metadata": {},
        "spec": {"clusterSource": {"kubeConfig": {"location": "w1", "locationType": "Secret"}}},
    },
    {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {}, "value": 7, "description": "text"},
)

CLUSTERED = frozenset(
    {
        "PriorityClass", "ClusterQueue", "Cohort", "ResourceFlavor", "AdmissionCheck", "MultiKueueConfig",
        "MultiKueueCluster", "WorkloadPriorityClass",
    }
)  # fmt: skip
"""The kinds without a namespace."""

ODD_VALUES: tuple[Any, ...] = (
    -1, 0, 1, 2**31, 2**63, 1.5, True, None, "", "x", "x" * 64, "x" * 300, "Upper_Case!", "a/b/c", "-5", "1e3", "0.5",
    "1e1000", "9" * 40, "kueue.x-k8s.io/x", "a.b", ".a", "é", [], {}, [None], ["x"], ["x", "x"], {"a": "b"}, {"": ""},
    {"Bad Key!": "v"},
)  # fmt: skip

UNKNOWN = "doesNotExist"


def drawn(number: int) -> tuple[Object, list[Place]]:
    """An odd object, without a name, and the places that were changed."""
    rng = random.Random(number)
    made = copy.deepcopy(rng.choice(ORDINARY))
    changed = [_change(made, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return made, changed


def _change(made: Object, rng: random.Random) -> Place:
    place = rng.choice([each for each in _places(made) if each[0] not in ("apiVersion", "kind")] or [(UNKNOWN,)])
    *way, last = place
    parent: Any = _at(made, tuple(way))
    match rng.choice(("replace", "replace", "replace", "remove", "twice", "unknown")):
        case "replace":
            parent[last] = copy.deepcopy(rng.choice(ODD_VALUES))
        case "remove":
            if isinstance(parent, dict):
                parent.pop(last, None)
            else:
                parent.pop()
        case "twice" if isinstance(last, int):
            parent.append(copy.deepcopy(parent[last]))
            if isinstance(parent[-1], dict) and rng.random() < 0.5:
                _change(parent[-1], rng)
        case _ if isinstance(parent, dict):
            parent[UNKNOWN] = copy.deepcopy(rng.choice(ODD_VALUES))
    return place


def _places(value: Any, way: Place = ()) -> Iterator[Place]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield (*way, name)
        yield from _places(part, (*way, name))


def _at(value: Any, way: Place) -> Any:
    for name in way:
        value = value[name]
    return value
