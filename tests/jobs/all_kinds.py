"""An object of each declared kind, as its users write it, with the marks that make it ours."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework.adapter import MANAGED
from multikueue.jobs.kinds.declared.adapter import DeclaredJob
from multikueue.jobs.trees.paths import keys_of

Tree = dict[str, Any]


def template(image: str = "x", **spec: Any) -> Tree:
    requests = {"requests": {"cpu": "1"}}
    return {"spec": {"containers": [{"name": "main", "image": image, "resources": requests}], **spec}}


def _replicas(field: str, **roles: int) -> Tree:
    replicas = {
        role: {"replicas": n, "restartPolicy": "Never", "template": template(role)} for role, n in roles.items()
    }
    return {field: replicas, "runPolicy": {"ttlSecondsAfterFinished": 5, "cleanPodPolicy": "All"}}


def _job(name: str, *, replicas: int, **job: Any) -> Tree:
    return {"name": name, "replicas": replicas, "template": {"spec": {**job, "template": template(name)}}}


def _env(name: str, text: str) -> Tree:
    return {"name": name, "value": text}


def _step(name: str, step: str) -> Tree:
    """A replicated job of a runtime, with the container that Trainer looks for."""
    pods = template(name.lower(), nodeSelector={"zone": "a"})
    pods["spec"]["containers"][0] |= {"name": name.lower(), "env": [_env("A", "0"), _env("B", "0")]}
    labels = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": step}} if step else {}
    return {"name": name, "replicas": 1, "template": {"metadata": labels, "spec": {"template": pods}}}


def _wrapped(api_version: str, kind: str, **spec: Any) -> Tree:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": kind.lower()}, "spec": spec}


def _patch(manager: str, job: str, **template: Any) -> Tree:
    """An entry of a TrainJob's `runtimePatches`, for the pods of one replicated job."""
    jobs = [{"name": job, "template": {"spec": {"template": template}}}]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


RAY: Tree = {
    "rayVersion": "2.9",
    "headGroupSpec": {"rayStartParams": {}, "template": template("head")},
    "workerGroupSpecs": [
        {"groupName": "Small", "replicas": 2, "numOfHosts": 2, "rayStartParams": {}, "template": template("small")},
        {"groupName": "big", "replicas": 1, "rayStartParams": {}, "template": template("big")},
    ],
}

SPECS: dict[str, Tree] = {
    "JobSet": {
        "ttlSecondsAfterFinished": 5,
        "network": {"enableDNSHostnames": True},
        "replicatedJobs": [_job("Driver", replicas=1), _job("worker", replicas=2, parallelism=4, completions=3)],
    },
    "PyTorchJob": _replicas("pytorchReplicaSpecs", Worker=3, Master=1),
    "TFJob": _replicas("tfReplicaSpecs", Worker=2, PS=1, Chief=1, Evaluator=1),
    "XGBoostJob": _replicas("xgbReplicaSpecs", Master=1, Worker=2),
    "PaddleJob": _replicas("paddleReplicaSpecs", Worker=2),
    "JAXJob": _replicas("jaxReplicaSpecs", Worker=2),
    "MPIJob": _replicas("mpiReplicaSpecs", Worker=2, Launcher=1) | {"slotsPerWorker": 2},
    "RayCluster": RAY,
    "RayJob": {
        "entrypoint": "python train.py",
        "submissionMode": "K8sJobMode",
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": 5,
        "rayClusterSpec": RAY,
    },
}
_JOBS = [_job("driver", replicas=1), _job("worker", replicas=2, parallelism=4, completions=3)]
SPECS["AppWrapper"] = {
    "components": [
        {
            "podSets": [{"replicas": 2, "path": "template.spec.jobs[1].template"}],
            "template": _wrapped("example.com/v1", "Sweep", jobs=[{}, {"template": template("declared")}]),
        },
        {
            "template": _wrapped("jobset.x-k8s.io/v1alpha2", "JobSet", replicatedJobs=_JOBS),
        },
        {"template": _wrapped("v1", "Service", clusterIP="None")},
    ],
}

RUNTIME: Tree = {
    "mlPolicy": {"numNodes": 3, "torch": {"numProcPerNode": "auto"}},
    "template": {
        "spec": {
            "replicatedJobs": [
                _step("dataset-initializer", "dataset-initializer"),
                _step("node", "trainer"),
                _step("log", ""),
            ]
        }
    },
}
"""The runtime that the TrainJob names."""

SPECS["TrainJob"] = {
    "runtimeRef": {"name": "torch", "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"},
    "initializer": {"dataset": {"storageUri": "hf://data", "secretRef": {"name": "token"}, "env": [_env("A", "1")]}},
    "trainer": {
        "numNodes": 2,
        "image": "own",
        "command": ["train"],
        "env": [_env("B", "2")],
        "resourcesPerNode": {"requests": {"cpu": "2"}},
    },
    "runtimePatches": [
        _patch(
            "example.com/sdk",
            "node",
            metadata={"labels": {"tier": "gold"}, "annotations": {"note": "kept"}},
            spec={
                "nodeSelector": {"disk": "ssd"},
                "serviceAccountName": "trainer",
                "containers": [
                    {"name": "node", "env": [_env("C", "3")], "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
                ],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                "tolerations": [{"key": "other", "operator": "Exists"}],
                "imagePullSecrets": [{"name": "registry"}],
                "schedulingGates": [{"name": "example.com/hold"}],
            },
        ),
        _patch("kueue.x-k8s.io/manager", "node", spec={"nodeSelector": {"disk": "somebody's"}}),
        _patch(
            "example.com/admin", "node", spec={"tolerations": [{"key": "gpu", "operator": "Exists"}], "affinity": {}}
        ),
    ],
}
"""With patches of a user, of the Kueue of the manager cluster and of a third."""

SPECS["RayService"] = {"serveConfigV2": "applications: []", "rayClusterConfig": RAY}

POD_SETS: dict[str, list[tuple[str, int]]] = {
    "JobSet": [("driver", 1), ("worker", 6)],
    "PyTorchJob": [("master", 1), ("worker", 3)],
    "TFJob": [("chief", 1), ("ps", 1), ("worker", 2), ("evaluator", 1)],
    "XGBoostJob": [("master", 1), ("worker", 2)],
    "PaddleJob": [("worker", 2)],
    "JAXJob": [("worker", 2)],
    "MPIJob": [("launcher", 1), ("worker", 2)],
    "RayCluster": [("head", 1), ("small", 4), ("big", 1)],
    "RayJob": [("head", 1), ("small", 4), ("big", 1), ("submitter", 1)],
    "RayService": [("head", 1), ("small", 4), ("big", 1)],
    "TrainJob": [("dataset-initializer", 1), ("node", 2), ("log", 1)],
    "AppWrapper": [("job-0", 2), ("job-1", 1), ("job-2", 6)],
}
"""The pod sets of these objects in Kueue 0.16: names and counts, in order."""


def ended(type_: str) -> Tree:
    """A status that says by a condition that it is so."""
    return {"conditions": [{"type": type_, "status": "True", "message": "so it is", "reason": "R"}]}


_COUNTS = {"name": "worker", "active": 2, "ready": 2}
_RAY_JOB = {"message": "so it is", "rayClusterStatus": {"state": "ready"}}

RUNNING: dict[str, Tree] = {
    "JobSet": {"replicatedJobsStatus": [_COUNTS]},
    "RayCluster": {"state": "ready"},
    "RayJob": {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"},
    "AppWrapper": {"phase": "Running"} | ended("QuotaReserved"),
    "TrainJob": {"jobsStatus": [_COUNTS]},
    "RayService": ended("Ready"),
}
"""A status that tells of pods that run, as each kind's own controller writes it; else that of Kubeflow's."""

SUCCEEDED: dict[str, Tree] = {
    "JobSet": ended("Completed"),
    "RayJob": _RAY_JOB | {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"},
    "AppWrapper": {"phase": "Succeeded"} | ended("ResourcesDeployed"),
    "TrainJob": ended("Complete"),
}
FAILED: dict[str, Tree] = {
    "RayJob": _RAY_JOB | {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED"},
    "AppWrapper": {"phase": "Failed"},
}
"""The same of one that is over."""


def running(adapter: DeclaredJob) -> Tree:
    return RUNNING.get(adapter.kind.kind, {"replicaStatuses": {"Worker": {"active": 2}}})


def succeeded(adapter: DeclaredJob) -> Tree:
    return SUCCEEDED.get(adapter.kind.kind, ended("Succeeded"))


def failed(adapter: DeclaredJob) -> Tree:
    return FAILED.get(adapter.kind.kind, ended("Failed"))


def body(adapter: DeclaredJob, *, name: str = "job", managed: bool = True, suspend: bool = True) -> Tree:
    """The object, in the queue `main`."""
    made: Tree = {
        "apiVersion": adapter.kind.api_version,
        "kind": adapter.kind.kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"kueue.x-k8s.io/queue-name": "main", "team": "a"},
            "annotations": {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": copy.deepcopy(SPECS[adapter.kind.kind]),
    }
    put(made, adapter.declared.suspend, suspend)
    if managed:
        put(made, adapter.declared.managed_by, MANAGED)
    return made


def value(adapter: DeclaredJob, made: Tree) -> AnyJob:
    """The object as we hold it; with its runtime, if its kind has such."""
    seen: AnyJob = decoder(adapter.kind.type)(encode(made))
    return msgspec.structs.replace(seen, runtime=msgspec.Raw(encode(RUNTIME))) if adapter.runtimes else seen


def put(tree: Tree, path: str, what: Any) -> None:
    *way, last = keys_of(path)
    for key in way:
        tree = tree.setdefault(key, {})
    tree[last] = what


def drop(tree: Tree, path: str) -> None:
    """Without the field, or the items of a list whose field says that."""
    way, is_item, which = path.partition("[")
    *keys, last = keys_of(way)
    for key in keys:
        tree = tree.get(key, {})
    if is_item:
        field, _, text = which.removesuffix("]").partition("=")
        items = tree.get(last)
        if isinstance(items, list):
            tree[last] = [each for each in items if not (isinstance(each, dict) and each.get(field) == text)]
    else:
        tree.pop(last, None)


def leaves(tree: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Each place of a tree that has no further places, with what is there."""
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    inner = [leaf for key, each in pairs for leaf in leaves(each, (*at, key))]
    return iter(inner or [(at, tree)])
