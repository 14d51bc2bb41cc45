"""The initial objects of a world, as an administrator would apply them, in plain dictionaries."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.queues import MANAGER_TOO_ANNOTATION
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.api.multikueue.clusters import CLUSTERS_ANNOTATION
from multikueue.api.multikueue.ocm import GROUP_INDEX_LABEL, PLACEMENT_LABEL
from multikueue.api.multikueue.strategies import OPTIONS_ANNOTATION, STRATEGY_ANNOTATION
from multikueue.registration.plan import MOST_CLUSTERS
from multikueue_simulator.workers.jobs.jobs import FAIL_ANNOTATION, RUN_SECONDS_ANNOTATION

__all__ = [
    "CHECK",
    "CONFIG",
    "FLAVOR",
    "HOME_FLAVOR",
    "admission_check",
    "cluster_queue",
    "decisions",
    "flavor",
    "job",
    "kubeconfig_secret",
    "local_queue",
    "multikueue_cluster",
    "multikueue_config",
    "namespace",
    "placement",
    "placement_decision",
    "secret_name",
    "strategy_annotations",
]

FLAVOR, CHECK, CONFIG = "default", "multikueue", "workers"

HOME_FLAVOR = "home"
"""The flavor of what runs on the manager cluster."""


def namespace(name: str) -> Object:
    return _object(kinds.NAMESPACES, name)


def flavor(name: str = FLAVOR) -> Object:
    return _object(kinds.RESOURCE_FLAVORS, name, spec={})


def cluster_queue(
    name: str,
    *,
    cpu: int,
    checks: Sequence[str] = (),
    home: int = 0,
    is_home_last: bool = False,
) -> Object:
    """A ClusterQueue for all namespaces, with this quota of CPUs in its flavor; with `home`, the checks are those of that
    flavor, and so many CPUs in the flavor of the manager cluster come before or after it."""
    quotas = [_quota(HOME_FLAVOR, home)] if home else []
    quotas.insert(0 if is_home_last else len(quotas), _quota(FLAVOR, cpu))
    spec: Object = {"namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["cpu"], "flavors": quotas}]}
    if checks:
        where = {"onFlavors": [FLAVOR]} if home else {}
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check, **where} for check in checks]}
    return annotated(_object(kinds.CLUSTER_QUEUES, name, spec=spec), {MANAGER_TOO_ANNOTATION: "true"} if home else {})


def _quota(flavor: str, cpu: int) -> Object:
    return {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(cpu)}]}


def local_queue(name: str, namespace: str, *, cluster_queue: str) -> Object:
    return _object(kinds.LOCAL_QUEUES, name, namespace, spec={"clusterQueue": cluster_queue})


def admission_check(name: str = CHECK, *, config: str = CONFIG, annotations: Mapping[str, str] | None = None) -> Object:
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": config}
    body = _object(kinds.ADMISSION_CHECKS, name, spec={"controllerName": CONTROLLER_NAME, "parameters": parameters})
    body["metadata"]["annotations"] = dict(annotations or {})
    return body


def strategy_annotations(strategy: str, options: Mapping[str, object]) -> dict[str, str]:
    """The annotations of an AdmissionCheck that select a strategy."""
    return {STRATEGY_ANNOTATION: strategy, OPTIONS_ANNOTATION: msgspec.json.encode(options).decode()}


def multikueue_config(name: str = CONFIG, *, clusters: Sequence[str]) -> Object:
    """A MultiKueueConfig. Clusters beyond the limit of its spec are in the manager's annotation."""
    body = _object(kinds.MULTIKUEUE_CONFIGS, name, spec={"clusters": list(clusters[:MOST_CLUSTERS])})
    if len(clusters) > MOST_CLUSTERS:
        body["metadata"]["annotations"] = {CLUSTERS_ANNOTATION: ",".join(clusters[MOST_CLUSTERS:])}
    return body


def placement(name: str, namespace: str) -> Object:
    """A Placement of Open Cluster Management."""
    return _object(kinds.PLACEMENTS, name, namespace, spec={})


def placement_decision(placement: str, namespace: str) -> Object:
    """The decision of an OCM placement controller for that Placement; the clusters are in its status."""
    body = _object(kinds.PLACEMENT_DECISIONS, f"{placement}-decision-1", namespace)
    body["metadata"]["labels"] = {PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: "0"}
    return body


def decisions(clusters: Sequence[str]) -> Object:
    """The status of a PlacementDecision with these clusters."""
    return {"status": {"decisions": [{"clusterName": name, "reason": ""} for name in clusters]}}


def secret_name(cluster: str) -> str:
    return f"{cluster}-kubeconfig"


def multikueue_cluster(name: str) -> Object:
    source = {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}
    return _object(kinds.MULTIKUEUE_CLUSTERS, name, spec={"clusterSource": source})


def annotated(body: Object, annotations: Mapping[str, str]) -> Object:
    """The object with these annotations, if there are any."""
    return {**body, "metadata": {**body["metadata"], "annotations": dict(annotations)}} if annotations else body


_AUTHORITY = b64encode(b"""\
-----BEGIN CERTIFICATE-----
MIIBgjCCASigAwIBAgIUTMIt9TL+OP70t91b/s+q3srEF2UwCgYIKoZIzj0EAwIw
HjEcMBoGA1UEAwwTc2ltdWxhdGVkLXdvcmtlci1jYTAgFw0yMDAxMDEwMDAwMDBa
GA8yMTIwMDEwMTAwMDAwMFowHjEcMBoGA1UEAwwTc2ltdWxhdGVkLXdvcmtlci1j
YTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABCrJEeKX41VXQKGPnUgkhM8h6EuW
uvrJV2viaj4zU+NbtxhC6xNBoIU8aaSXu0eibtMSOJ0qh4NqiNXWqmT54OKjQjBA
MB0GA1UdDgQWBBRKcaY0Tdc4vZZxymyOH/zyvGUHFzAPBgNVHRMBAf8EBTADAQH/
MA4GA1UdDwEB/wQEAwIBhjAKBggqhkjOPQQDAgNIADBFAiEA0i07r4iAdw87Qxr+
cyhMMosN+UPpvxSGaTgcJgdCnT0CIGbGxnXnxe5+ZNUFRFEjQPeKQizXVeGgF5Of
OnkKVGC9
-----END CERTIFICATE-----
""").decode()
"""The authority in a worker's kubeconfig. No line checks certificates, and its key is lost; but a client without an
authority loads the system's at each connection, which costs more than everything else in it."""


def kubeconfig_secret(cluster: str, namespace: str, *, server: str, token: str, ca: bytes = b"") -> Object:
    """The Secret with the kubeconfig of a worker. `ca` is the certificate of the authority, as PEM."""
    authority = b64encode(ca).decode() if ca else _AUTHORITY
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": cluster,
        "clusters": [{"name": cluster, "cluster": {"server": server, "certificate-authority-data": authority}}],
        "users": [{"name": cluster, "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
    }
    data = {"kubeconfig": b64encode(msgspec.json.encode(config)).decode()}
    return {**_object(kinds.SECRETS, secret_name(cluster), namespace), "data": data}


def job(
    name: str,
    namespace: str,
    *,
    queue: str | None,
    cpu: int = 1,
    parallelism: int = 1,
    completions: int | None = None,
    seconds: float = 1.0,
    failures: int | str = 0,
    retries: int = 0,
    managed: bool = True,
) -> Object:
    """A suspended Job whose pods request `cpu` CPUs each and run for `seconds`; `failures` of them fail ("true":
    all), of which `retries` are made good by others. `completions`: None: as many as `parallelism`."""
    pod = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}],
    }
    spec: Object = {
        "parallelism": parallelism,
        "completions": parallelism if completions is None else completions,
        "backoffLimit": retries,
        "suspend": True,
        "template": {"spec": pod},
    }
    if managed:
        spec["managedBy"] = CONTROLLER_NAME
    body = _object(kinds.JOBS, name, namespace, spec=spec)
    body["metadata"]["labels"] = {QUEUE_LABEL: queue} if queue is not None else {}
    body["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: f"{seconds:g}"}
    if failures:
        body["metadata"]["annotations"][FAIL_ANNOTATION] = str(failures)
    return body


def _object(kind: Kind[Any], name: str, namespace: str = "", *, spec: Object | None = None) -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    body: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return body if spec is None else {**body, "spec": spec}
