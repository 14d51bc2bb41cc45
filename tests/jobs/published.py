"""One job of each kind, as the documentation of its own project shows it: no suspension, no managedBy, nothing of ours but
the queue."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

__all__ = ["MANIFESTS", "RUNTIME", "RUNTIME_NAME", "group", "manifest"]

Object = dict[str, Any]

QUEUE = {"kueue.x-k8s.io/queue-name": "main"}
RUNTIME_NAME = "torch-distributed"


def _body(api_version: str, kind: str, name: str, spec: Object, **labels: str) -> Object:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "labels": QUEUE | labels},
        "spec": spec,
    }


def _container(name: str, image: str, *, cpu: str = "1", memory: str = "200Mi", **more: Any) -> Object:
    return {"name": name, "image": image, "resources": {"requests": {"cpu": cpu, "memory": memory}}} | more


def _pods(*containers: Object, **more: Any) -> Object:
    return {"spec": {"containers": list(containers)} | more}


SLEEP = _container("main", "registry.k8s.io/e2e-test-images/agnhost:2.53", args=["entrypoint-tester", "hello"])


def _role(replicas: int, container: Object, *, policy: str = "OnFailure") -> Object:
    return {"replicas": replicas, "restartPolicy": policy, "template": _pods(container)}


def _kubeflow(kind: str, field: str, roles: Mapping[str, Object], **more: Any) -> Object:
    return _body("kubeflow.org/v1", kind, f"{kind.lower()}-simple", {field: dict(roles)} | more)


TORCH = _container(
    "pytorch",
    "docker.io/kubeflowkatib/pytorch-mnist:v1beta1-45c5727",
    imagePullPolicy="Always",
    command=["python3", "/opt/pytorch-mnist/mnist.py", "--epochs=1"],
)
TENSORFLOW = _container("tensorflow", "kubeflow/tf-mnist-with-summaries:latest", command=["python", "/var/mnist.py"])
XGBOOST = _container(
    "xgboost",
    "docker.io/kubeflow/xgboost-dist-iris:1.1",
    args=["--job_type=Train", "--n_estimators=10"],
    ports=[{"containerPort": 9991, "name": "xgboostjob-port"}],
)
PADDLE = _container(
    "paddle",
    "registry.baidubce.com/paddlepaddle/paddle:2.4.0rc0-cpu",
    command=["python"],
    args=["-m", "paddle.distributed.launch", "run_check"],
    ports=[{"containerPort": 37777, "name": "master"}],
)
JAX = _container("jax", "docker.io/kubeflow/jaxjob-simple:latest", command=["python3", "train.py"])
MPI = _container("mpi", "mpioperator/mpi-pi:openmpi", securityContext={"runAsUser": 1000})
RAY_IMAGE = "rayproject/ray:2.46.0"
RAY_CLUSTER: Object = {
    "rayVersion": "2.46.0",
    "headGroupSpec": {
        "rayStartParams": {"dashboard-host": "0.0.0.0"},
        "template": _pods(
            _container(
                "ray-head",
                RAY_IMAGE,
                ports=[{"containerPort": port, "name": name} for port, name in ((6379, "gcs"), (8265, "dashboard"))],
            )
        ),
    },
    "workerGroupSpecs": [
        {
            "groupName": "small-group",
            "replicas": 1,
            "minReplicas": 1,
            "maxReplicas": 5,
            "rayStartParams": {},
            "template": _pods(_container("ray-worker", RAY_IMAGE)),
        }
    ],
}

RUNTIME: Object = {
    "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
    "template": {
        "spec": {
            "replicatedJobs": [
                {
                    "name": "node",
                    "template": {
                        "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                        "spec": {"template": _pods({"name": "node", "image": "pytorch/pytorch:2.7.1-cuda12.8"})},
                    },
                }
            ]
        }
    },
}
"""The runtime that comes with Trainer."""


def _train_job() -> Object:
    """As the SDK of Kubeflow makes it, with a volume and a toleration by options."""
    patch = {
        "serviceAccountName": "default",
        "tolerations": [{"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "team-data"}}],
        "containers": [{"name": "node", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    }
    jobs = [{"name": "node", "template": {"spec": {"template": {"spec": patch}}}}]
    runtime_spec = {"template": {"spec": {"replicatedJobs": jobs}}}
    spec = {
        "runtimeRef": {"name": RUNTIME_NAME},
        "trainer": {
            "numNodes": 2,
            "image": "docker.io/kubeflow/pytorch-mnist:latest",
            "command": ["torchrun", "/workspace/mnist.py"],
            "resourcesPerNode": {"requests": {"cpu": "2", "memory": "4Gi"}},
            "env": [{"name": "EPOCHS", "value": "1"}],
        },
        "runtimePatches": [{"manager": "trainer.kubeflow.org/kubeflow-sdk", "trainingRuntimeSpec": runtime_spec}],
    }
    made = _body("trainer.kubeflow.org/v1alpha1", "TrainJob", "pytorch-mnist", spec)
    made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "tainted"
    return made


def _wrapped_job() -> Object:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sample-job"}}
    template = _pods(_container("busybox", "quay.io/project-codeflare/busybox:1.36"), restartPolicy="Never")
    return {"template": job | {"spec": {"template": template}}}


MANIFESTS: Mapping[str, Object] = {
    "batch Job": _body(
        "batch/v1",
        "Job",
        "sample-job",
        {"parallelism": 3, "completions": 3, "template": _pods(SLEEP, restartPolicy="Never")},
    ),
    "JobSet": _body(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "sleep-job",
        {
            "network": {"enableDNSHostnames": True, "subdomain": "some-subdomain"},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ["workers"]},
            "failurePolicy": {"maxRestarts": 1},
            "replicatedJobs": [
                {
                    "name": name,
                    "replicas": replicas,
                    "template": {
                        "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0}
                        | {"template": _pods(SLEEP, restartPolicy="Never")}
                    },
                }
                for name, replicas, pods in (("workers", 1, 2), ("driver", 2, 1))
            ],
        },
    ),
    "PyTorchJob": _kubeflow(
        "PyTorchJob", "pytorchReplicaSpecs", {"Master": _role(1, TORCH), "Worker": _role(2, TORCH)}
    ),
    "TFJob": _kubeflow("TFJob", "tfReplicaSpecs", {"PS": _role(1, TENSORFLOW), "Worker": _role(2, TENSORFLOW)}),
    "XGBoostJob": _kubeflow(
        "XGBoostJob", "xgbReplicaSpecs", {"Master": _role(1, XGBOOST), "Worker": _role(2, XGBOOST)}
    ),
    "PaddleJob": _kubeflow("PaddleJob", "paddleReplicaSpecs", {"Worker": _role(2, PADDLE)}),
    "JAXJob": _kubeflow("JAXJob", "jaxReplicaSpecs", {"Worker": _role(2, JAX)}),
    "MPIJob": _body(
        "kubeflow.org/v2beta1",
        "MPIJob",
        "pi",
        {
            "slotsPerWorker": 1,
            "runPolicy": {"cleanPodPolicy": "Running", "ttlSecondsAfterFinished": 60},
            "sshAuthMountPath": "/home/mpiuser/.ssh",
            "mpiReplicaSpecs": {"Launcher": _role(1, MPI), "Worker": _role(2, MPI)},
        },
    ),
    "RayJob": _body(
        "ray.io/v1",
        "RayJob",
        "rayjob-sample",
        {
            "entrypoint": "python /home/ray/samples/sample_code.py",
            "runtimeEnvYAML": "pip:\n  - requests==2.26.0\n",
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 60,
            "rayClusterSpec": RAY_CLUSTER,
        },
    ),
    "RayCluster": _body("ray.io/v1", "RayCluster", "raycluster-kuberay", RAY_CLUSTER),
    "RayService": _body(
        "ray.io/v1",
        "RayService",
        "rayservice-sample",
        {
            "serveConfigV2": "applications:\n  - name: fruit_app\n    import_path: fruit.deployment_graph\n",
            "rayClusterConfig": RAY_CLUSTER,
        },
    ),
    "TrainJob": _train_job(),
    "AppWrapper": _body(
        "workload.codeflare.dev/v1beta2", "AppWrapper", "sample-appwrapper", {"components": [_wrapped_job()]}
    ),
    "SparkApplication": _body(
        "sparkoperator.k8s.io/v1beta2",
        "SparkApplication",
        "spark-pi",
        {
            "type": "Scala",
            "mode": "cluster",
            "image": "docker.io/library/spark:4.0.1",
            "mainClass": "org.apache.spark.examples.SparkPi",
            "mainApplicationFile": "local:///opt/spark/examples/jars/spark-examples.jar",
            "sparkVersion": "4.0.1",
            "driver": {"cores": 1, "memory": "512m", "serviceAccount": "spark-operator-spark"},
            "executor": {"cores": 1, "instances": 2, "memory": "512m"},
        },
    ),
    "Pod": _body("v1", "Pod", "sleep-pod", _pods(SLEEP, restartPolicy="Never")["spec"]),
    "Deployment": _body(
        "apps/v1",
        "Deployment",
        "sample-deployment",
        {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "nginx"}},
            "template": {"metadata": {"labels": {"app": "nginx"}}} | _pods(_container("nginx", "nginx:1.14.2")),
        },
    ),
    "StatefulSet": _body(
        "apps/v1",
        "StatefulSet",
        "sample-statefulset",
        {
            "serviceName": "nginx",
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}} | _pods(_container("nginx", "nginx:1.14.2")),
        },
    ),
}
"""By kind. A group of Pods is two of the Pods, with the marks of a group (`group`)."""


def manifest(kind: str, namespace: str) -> Object:
    made = copy.deepcopy(MANIFESTS[kind])
    made["metadata"]["namespace"] = namespace
    return made


def group(namespace: str, *, total: int = 2) -> list[Object]:
    """The leader and the workers of a group of Pods."""
    found = []
    for number in range(total):
        body = manifest("Pod", namespace)
        body["metadata"]["name"] = f"sample-group-{number}"
        body["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "sample-group"
        body["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": str(total)}
        found.append(body)
    return found
