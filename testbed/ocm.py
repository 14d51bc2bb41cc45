"""Open Cluster Management beside a control plane: its placement and registration controllers and its agents, all real.

Where no registration controller runs, a test sets what that one would find out: whether a cluster is available, and a set
is bound. The add-ons of OCM and its agent for ManifestWorks are not here: tests make the objects of those by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from testbed import crds
from testbed.client import Client, Kind, eventually
from testbed.controllers import SIGNING, ControllerManager
from testbed.kubeconfig import dump
from testbed.objects import SECRET, Object, namespace
from testbed.plane import ControlPlane
from testbed.ports import free_port
from testbed.process import Process

__all__ = [
    "GLOBAL_SET",
    "MANAGED_CLUSTER",
    "PLACEMENT",
    "PLACEMENT_DECISION",
    "UNREACHABLE",
    "PlacementController",
    "RegistrationAgent",
    "RegistrationController",
    "bind_set",
    "cluster_set",
    "decided_clusters",
    "joined",
    "placement",
    "register_cluster",
    "set_available",
    "set_score",
    "taint",
]

GROUP = "cluster.open-cluster-management.io"
HUB_NAMESPACE = "open-cluster-management-hub"
AGENT_NAMESPACE, AGENT_SECRET = "open-cluster-management-agent", "hub-kubeconfig-secret"
GLOBAL_SET = "global"

MANAGED_CLUSTER = Kind(f"{GROUP}/v1", "ManagedCluster")
CLUSTER_SET = Kind(f"{GROUP}/v1beta2", "ManagedClusterSet")
CLUSTER_SET_BINDING = Kind(f"{GROUP}/v1beta2", "ManagedClusterSetBinding")
SCORE = Kind(f"{GROUP}/v1alpha1", "AddOnPlacementScore")
PLACEMENT = Kind(f"{GROUP}/v1beta1", "Placement")
PLACEMENT_DECISION = Kind(f"{GROUP}/v1beta1", "PlacementDecision")

AVAILABLE = "ManagedClusterConditionAvailable"
UNREACHABLE = f"{GROUP}/unreachable"
"""The taint of a cluster whose agent does not renew its lease."""

BOOTSTRAP = "admin"
"""The user of the hub whose kubeconfig new agents bring."""


class _Program:
    """A program of OCM that acts on one plane, as a user of its own."""

    def __init__(self, plane: ControlPlane, user: str, command: Sequence[str], *options: str) -> None:
        self.plane, self._user = plane, user
        self._kubeconfig = plane.folder / f"{user}.kubeconfig"
        self.process = Process(
            f"OCM's {user} of {plane.name}",
            [
                *command,
                f"--kubeconfig={self._kubeconfig}",
                f"--listen=127.0.0.1:{free_port()}",
                "--disable-leader-election",
                *options,
            ],
            log=plane.folder / f"{user}.log",
            env={"TMPDIR": str(plane.folder)},  # it leaves its certificate behind
        )

    def run(self) -> None:
        self._kubeconfig.write_bytes(dump(self.plane.kubeconfig(self._user)))
        self.process.start()

    async def stop(self) -> None:
        await self.process.stop()

    async def kill(self) -> None:
        await self.process.kill()


class PlacementController(_Program):
    """One placement controller for one plane."""

    def __init__(self, plane: ControlPlane) -> None:
        command = [str(plane.programs.placement), "controller", f"--namespace={HUB_NAMESPACE}"]
        super().__init__(plane, "placement", command)

    async def start(self) -> None:
        """Install OCM's CRDs and the set of all clusters, and start. It has no probe: wait for decisions."""
        async with self.plane.client() as client:
            await crds.install(client, ["ocm"])
            await client.apply(namespace(HUB_NAMESPACE))
            await client.apply(_global_set())
        self.run()


class RegistrationController(_Program):
    """One registration controller for one plane, the hub, and Kubernetes' controller that signs the certificates of agents.

    It accepts every cluster whose agent comes with an administrator's kubeconfig.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.signing = ControllerManager(plane, [SIGNING])
        command = [str(plane.programs.registration), "controller", f"--namespace={HUB_NAMESPACE}"]
        accepts = ("--feature-gates=ManagedClusterAutoApproval=true", f"--auto-approved-csr-users={BOOTSTRAP}")
        super().__init__(plane, "registration", command, *accepts)

    async def start(self) -> None:
        """Install OCM's CRDs and start. It has no probe: wait for what it writes."""
        async with self.plane.client() as client:
            await crds.install(client, ["ocm", "manifestwork", "addon"])
            await client.apply(namespace(HUB_NAMESPACE))
        await self.signing.start()
        self.run()

    async def stop(self) -> None:
        await super().stop()
        await self.signing.stop()


class RegistrationAgent(_Program):
    """The agent of a plane that joins a hub as the ManagedCluster `name`, and renews its lease there while it runs."""

    def __init__(self, plane: ControlPlane, hub: ControlPlane, name: str) -> None:
        self._hub, self._bootstrap = hub, plane.folder / f"{name}.bootstrap"
        super().__init__(
            plane,
            "agent",
            [str(plane.programs.registration), "agent", f"--namespace={AGENT_NAMESPACE}"],
            f"--spoke-cluster-name={name}",
            f"--spoke-external-server-urls={plane.url}",
            f"--bootstrap-kubeconfig={self._bootstrap}",
            f"--hub-kubeconfig-dir={plane.folder / name}",
            "--feature-gates=AddonManagement=false,ClusterClaim=false",  # each takes CRDs of its own on the plane
        )

    async def start(self) -> None:
        """Start, for the first time or again. It has joined when the ManagedCluster is available."""
        async with self.plane.client() as client:
            await client.apply(namespace(AGENT_NAMESPACE))
            if not self._bootstrap.exists():  # what an agent of this plane has got under another name
                await client.delete(SECRET, AGENT_SECRET, AGENT_NAMESPACE)
        self._bootstrap.write_bytes(dump(self._hub.kubeconfig(BOOTSTRAP)))
        self.run()


async def register_cluster(client: Client, name: str, *, labels: Mapping[str, str] | None = None) -> None:
    """Create a ManagedCluster that was accepted, has joined and is available."""
    metadata = {"name": name, "labels": dict(labels or {})}
    await client.apply(_object(MANAGED_CLUSTER, metadata, {"hubAcceptsClient": True}))
    conditions = [_condition(kind, "True") for kind in ("HubAcceptedManagedCluster", "ManagedClusterJoined", AVAILABLE)]
    await client.patch_status(MANAGED_CLUSTER, name, {"conditions": conditions})


async def joined(client: Client, *names: str) -> None:
    """Waits until the agents of these clusters have joined, and say that the clusters are available."""

    async def all_have() -> bool:
        for name in names:
            found = (await client.find(MANAGED_CLUSTER, name) or {}).get("status", {}).get("conditions") or []
            true = {each["type"] for each in found if each["status"] == "True"}
            assert {"HubAcceptedManagedCluster", "ManagedClusterJoined", AVAILABLE} <= true, f"{name}: {found}"
        return True

    await eventually(all_have, timeout=60)


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
