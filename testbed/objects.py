"""Builders of the objects that tests and benchmarks create, as plain dictionaries.

Each has what is needed and nothing else; for more, change the dictionary.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.client import Kind

__all__ = [
    "ADMISSION_CHECK",
    "CLUSTER_QUEUE",
    "JOB",
    "KUEUE_NAMESPACE",
    "LOCAL_QUEUE",
    "MULTIKUEUE_CLUSTER",
    "MULTIKUEUE_CONFIG",
    "MULTIKUEUE_CONTROLLER",
    "NAMESPACE",
    "RESOURCE_FLAVOR",
    "SECRET",
    "WORKLOAD",
    "Object",
    "admission_check",
    "cluster_queue",
    "condition",
    "job",
    "kubeconfig_secret",
    "local_queue",
    "multikueue_cluster",
    "multikueue_config",
    "namespace",
    "resource_flavor",
]

Object = dict[str, Any]

KUEUE_VERSION = "kueue.x-k8s.io/v1beta2"

NAMESPACE = Kind("v1", "Namespace")
SECRET = Kind("v1", "Secret")
JOB = Kind("batch/v1", "Job")
RESOURCE_FLAVOR = Kind(KUEUE_VERSION, "ResourceFlavor")
CLUSTER_QUEUE = Kind(KUEUE_VERSION, "ClusterQueue")
LOCAL_QUEUE = Kind(KUEUE_VERSION, "LocalQueue")
WORKLOAD = Kind(KUEUE_VERSION, "Workload")
ADMISSION_CHECK = Kind(KUEUE_VERSION, "AdmissionCheck")
MULTIKUEUE_CONFIG = Kind(KUEUE_VERSION, "MultiKueueConfig")
MULTIKUEUE_CLUSTER = Kind(KUEUE_VERSION, "MultiKueueCluster")

KUEUE_NAMESPACE = "kueue-system"
MULTIKUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"

DEFAULT_QUOTA = {"cpu": "100", "memory": "100Gi"}


def namespace(name: str) -> Object:
    return _object(NAMESPACE, name)


def resource_flavor(name: str = "default", *, node_labels: Mapping[str, str] | None = None) -> Object:
    return _object(RESOURCE_FLAVOR, name, spec={"nodeLabels": dict(node_labels)} if node_labels else {})


def cluster_queue(
    name: str,
    *,
    flavor: str = "default",
    quota: Mapping[str, str] = DEFAULT_QUOTA,
    cohort: str | None = None,
    checks: Sequence[str] = (),
) -> Object:
    """A ClusterQueue for all namespaces with one flavor; `quota` maps resources to nominal quotas."""
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": flavor, "resources": resources}]}
    spec: Object = {"namespaceSelector": {}, "resourceGroups": [group]}
    if cohort:
        spec["cohortName"] = cohort
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check} for check in checks]}
    return _object(CLUSTER_QUEUE, name, spec=spec)


def local_queue(name: str, namespace: str, *, cluster_queue: str) -> Object:
    return _object(LOCAL_QUEUE, name, namespace, spec={"clusterQueue": cluster_queue})


def admission_check(name: str, *, config: str, controller: str = MULTIKUEUE_CONTROLLER) -> Object:
    """An AdmissionCheck with a MultiKueueConfig as its parameters."""
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": config}
    return _object(ADMISSION_CHECK, name, spec={"controllerName": controller, "parameters": parameters})


def multikueue_config(name: str, *, clusters: Sequence[str]) -> Object:
    return _object(MULTIKUEUE_CONFIG, name, spec={"clusters": list(clusters)})


def multikueue_cluster(name: str, *, secret: str) -> Object:
    """A MultiKueueCluster whose kubeconfig is in a Secret of Kueue's namespace."""
    return _object(
        MULTIKUEUE_CLUSTER, name, spec={"clusterSource": {"kubeConfig": {"location": secret, "locationType": "Secret"}}}
    )


def kubeconfig_secret(name: str, config: bytes, *, namespace: str = KUEUE_NAMESPACE) -> Object:
    return {**_object(SECRET, name, namespace), "data": {"kubeconfig": b64encode(config).decode()}}


def job(
    name: str,
    namespace: str,
    *,
    queue: str | None = "main",
    requests: Mapping[str, str] | None = None,
    parallelism: int = 1,
    completions: int | None = None,
    suspend: bool = True,
    managed_by: str | None = None,
    priority_class: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Object:
    """A batch Job, suspended for Kueue; `requests` are those of each pod."""
    labels = {**(labels or {}), **_present({QUEUE_LABEL: queue, PRIORITY_LABEL: priority_class})}
    spec: Object = {
        "parallelism": parallelism,
        "completions": completions or parallelism,
        "suspend": suspend,
        "template": {"spec": _pod(requests or {"cpu": "100m", "memory": "100Mi"})},
        **_present({"managedBy": managed_by}),
    }
    body = _object(JOB, name, namespace, spec=spec)
    body["metadata"]["labels"] = labels
    return body


def condition(body: Object, name: str) -> Object | None:
    """The condition of this type in an object's status, if it is there."""
    conditions = body.get("status", {}).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == name), None)


def _pod(requests: Mapping[str, str]) -> Object:
    container = {
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": dict(requests), "limits": dict(requests)},
    }
    return {"restartPolicy": "Never", "containers": [container]}


def _object(kind: Kind, name: str, namespace: str | None = None, *, spec: Object | None = None) -> Object:
    metadata = {"name": name, **_present({"namespace": namespace})}
    body: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return body if spec is None else {**body, "spec": spec}


def _present(values: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in values.items() if value is not None}
