"""Open Cluster Management's placement controller beside a control plane, and a substitute for its registration controller.

The placement controller is the real one. A test sets what the registration controller would find out: whether a cluster
is available and a set is bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from testbed import crds
from testbed.client import Client, Kind
from testbed.kubeconfig import dump
from testbed.objects import Object, namespace
from testbed.plane import ControlPlane
from testbed.process import Process

__all__ = [
    "GLOBAL_SET",
    "MANAGED_CLUSTER",
    "PLACEMENT",
    "PLACEMENT_DECISION",
    "PlacementController",
    "bind_set",
    "cluster_set",
    "decided_clusters",
    "placement",
    "register_cluster",
    "set_available",
    "set_score",
    "taint",
]

GROUP = "cluster.open-cluster-management.io"
HUB_NAMESPACE = "open-cluster-management-hub"
GLOBAL_SET = "global"

MANAGED_CLUSTER = Kind(f"{GROUP}/v1", "ManagedCluster")
CLUSTER_SET = Kind(f"{GROUP}/v1beta2", "ManagedClusterSet")
CLUSTER_SET_BINDING = Kind(f"{GROUP}/v1beta2", "ManagedClusterSetBinding")
SCORE = Kind(f"{GROUP}/v1alpha1", "AddOnPlacementScore")
PLACEMENT = Kind(f"{GROUP}/v1beta1", "Placement")
PLACEMENT_DECISION = Kind(f"{GROUP}/v1beta1", "PlacementDecision")

AVAILABLE = "ManagedClusterConditionAvailable"


class PlacementController:
    """One placement controller for one plane."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._kubeconfig = plane.folder / "placement.kubeconfig"
        self.process = Process(
            f"placement controller of {plane.name}",
            [
                str(plane.programs.placement),
                "controller",
                f"--kubeconfig={self._kubeconfig}",
                f"--namespace={HUB_NAMESPACE}",
                "--disable-leader-election",
            ],
            log=plane.folder / "placement.log",
        )

    async def start(self) -> None:
        """Install OCM's CRDs and the set of all clusters, and start. It has no probe: wait for decisions."""
        async with self.plane.client() as client:
            await crds.install(client, ["ocm"])
            await client.apply(namespace(HUB_NAMESPACE))
            await client.apply(_global_set())
        self._kubeconfig.write_bytes(dump(self.plane.kubeconfig("placement")))
        self.process.start()

    async def stop(self) -> None:
        await self.process.stop()

    async def kill(self) -> None:
        await self.process.kill()


async def register_cluster(client: Client, name: str, *, labels: Mapping[str, str] | None = None) -> None:
    """Create a ManagedCluster that was accepted, has joined and is available."""
    metadata = {"name": name, "labels": dict(labels or {})}
    await client.apply(_object(MANAGED_CLUSTER, metadata, {"hubAcceptsClient": True}))
    conditions = [_condition(kind, "True") for kind in ("HubAcceptedManagedCluster", "ManagedClusterJoined", AVAILABLE)]
    await client.patch_status(MANAGED_CLUSTER, name, {"conditions": conditions})


async def set_available(client: Client, name: str, status: str) -> None:
    """Set the condition of a cluster: available (`True`), not available (`False`), or silent (`Unknown`)."""
    cluster = await client.get(MANAGED_CLUSTER, name)
    others = [entry for entry in cluster["status"]["conditions"] if entry["type"] != AVAILABLE]
    await client.patch_status(MANAGED_CLUSTER, name, {"conditions": [*others, _condition(AVAILABLE, status)]})


async def taint(client: Client, name: str, *keys: str, effect: str = "NoSelect") -> None:
    """Give a cluster these taints in place of those that it has."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    taints = [{"key": key, "effect": effect, "timeAdded": stamp} for key in keys]
    await client.patch(MANAGED_CLUSTER, name, {"spec": {"taints": taints or None}})


async def set_score(client: Client, cluster: str, score: str, value: int) -> None:
    """What an agent writes: the object and the number in it are both called `score`."""
    await client.apply(namespace(cluster))
    await client.apply(
        {"apiVersion": SCORE.api_version, "kind": SCORE.kind, "metadata": {"name": score, "namespace": cluster}}
    )
    await client.patch_status(SCORE, score, {"scores": [{"name": score, "value": value}]}, cluster)


async def cluster_set(client: Client, name: str, namespace: str) -> dict[str, str]:
    """Create a set for the placements of a namespace; answers the label of its members."""
    await client.apply(
        _object(CLUSTER_SET, {"name": name}, {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}})
    )
    await bind_set(client, namespace, name)
    return {f"{GROUP}/clusterset": name}


async def bind_set(client: Client, namespace: str, cluster_set: str = GLOBAL_SET) -> None:
    """Let the placements of a namespace use a set of clusters."""
    metadata = {"name": cluster_set, "namespace": namespace}
    await client.apply(_object(CLUSTER_SET_BINDING, metadata, {"clusterSet": cluster_set}))
    bound = {"conditions": [_condition("Bound", "True")]}
    await client.patch_status(CLUSTER_SET_BINDING, cluster_set, bound, namespace)


def placement(
    name: str,
    namespace: str,
    *,
    sets: Sequence[str] = (GLOBAL_SET,),
    labels: Mapping[str, str] | None = None,
    number: int | None = None,
) -> Object:
    """A Placement that selects clusters of the sets by label, all or `number` of them."""
    spec: Object = {"clusterSets": list(sets)}
    if number is not None:
        spec["numberOfClusters"] = number
    if labels:
        selector = {"requiredClusterSelector": {"labelSelector": {"matchLabels": dict(labels)}}}
        spec["predicates"] = [selector]
    return _object(PLACEMENT, {"name": name, "namespace": namespace}, spec)


async def decided_clusters(client: Client, name: str, namespace: str) -> list[str]:
    """The clusters decided on for a Placement now, sorted."""
    decisions = await client.list(PLACEMENT_DECISION, namespace, labels=f"{GROUP}/placement={name}")
    return sorted(entry["clusterName"] for body in decisions for entry in body.get("status", {}).get("decisions", []))


def _global_set() -> Object:
    selector = {"selectorType": "LabelSelector", "labelSelector": {}}
    return _object(CLUSTER_SET, {"name": GLOBAL_SET}, {"clusterSelector": selector})


def _object(kind: Kind, metadata: dict[str, Any], spec: Object) -> Object:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _condition(kind: str, status: str) -> dict[str, str]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": status, "reason": "Testbed", "message": "by the test", "lastTransitionTime": now}
