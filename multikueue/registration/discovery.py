"""What could become a worker, by a kubeconfig, by OCM's ManagedClusters or by ClusterProfiles. Pure.

A candidate is the manager's already where a MultiKueueCluster names its ClusterProfile, leads to its address, or has its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from multikueue.api.meta import find_condition
from multikueue.api.multikueue.clusters import ClusterProfile, MultiKueueCluster
from multikueue.api.multikueue.ocm import ManagedCluster
from multikueue.registration.plan import is_name

__all__ = [
    "KnownWorkers",
    "PossibleWorker",
    "managed_problem",
    "of_contexts",
    "of_managed_clusters",
    "of_profiles",
    "profile_problem",
]

NOT_A_NAME = "its name is none for a MultiKueueCluster, which takes lower case letters, digits, '-' and '.'"

JOINED = (
    ("HubAcceptedManagedCluster", "the hub has not accepted it"),
    ("ManagedClusterJoined", "it has not joined the hub yet"),
    ("ManagedClusterConditionAvailable", "the hub does not see it as available"),
)
"""The conditions of a ManagedCluster that can be used, and what it lacks without each (ocm.md 2.2)."""


class KnownWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """What the manager has: its MultiKueueClusters, the URLs of their kubeconfigs as far as they can be read, by name, and its
    own URL."""

    clusters: Iterable[MultiKueueCluster]
    servers: Mapping[str, str]
    manager: str

    def called(self, name: str, server: str) -> str:
        """The MultiKueueCluster that leads to the server, or else has the name; empty without one."""
        leading = [cluster for cluster, there in self.servers.items() if server and there == server]
        there = {cluster.metadata.name for cluster in self.clusters}
        return next((each for each in (name, *leading) if each in leading or (not leading and each in there)), "")


class PossibleWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster that could be a worker under this name.

    `registered`: the MultiKueueCluster that it is already, empty if it is none. `problem`: why it cannot be one now.
    """

    name: str
    source: str
    server: str = ""
    version: str = ""
    registered: str = ""
    problem: str = ""

    @property
    def state(self) -> str:
        if self.registered:
            return "Registered"
        return "NotPossible" if self.problem else "Possible"

    @property
    def refusal(self) -> str:
        """Why it cannot be registered, or registered again, under its name; empty if it can."""
        if self.registered and self.registered != self.name:
            return f"it is registered already, as {self.registered}"
        return self.problem


def of_contexts(contexts: Mapping[str, str], known: KnownWorkers) -> list[PossibleWorker]:
    """The contexts of a kubeconfig, given with the URLs of their clusters."""
    return [
        PossibleWorker(
            name=name,
            source=f"context {name}",
            server=server,
            registered=known.called(name, server),
            problem=_problem(
                name, ("it is the manager cluster", server == known.manager), ("it has no URL", not server)
            ),
        )
        for name, server in contexts.items()
    ]


def of_managed_clusters(
    found: Iterable[ManagedCluster], contexts: Mapping[str, str] | None, known: KnownWorkers
) -> list[PossibleWorker]:
    """The ManagedClusters of an OCM hub. To register one takes a context of its name, of an administrator of that cluster,
    unless the hub's agents do it: then there are no `contexts`."""
    return [_managed(cluster, contexts, known) for cluster in found]


def managed_problem(cluster: ManagedCluster) -> str:
    """Why a ManagedCluster cannot be a worker now, whoever reaches it how; empty if it can."""
    conditions = {kind: find_condition(cluster.status.conditions, kind) for kind, _ in JOINED}
    lacking = ((why, (held := conditions[kind]) is None or held.status != "True") for kind, why in JOINED)
    is_local = cluster.metadata.labels.get("local-cluster") == "true"
    return _problem(cluster.metadata.name, *lacking, ("it is the manager cluster", is_local))


def profile_problem(profile: ClusterProfile) -> str:
    """Why a ClusterProfile cannot be a worker now; empty if it can."""
    healthy = find_condition(profile.status.conditions, "ControlPlaneHealthy")
    is_ill = healthy is not None and healthy.status != "True"
    why = f"its control plane is not healthy: {healthy.message or healthy.reason}" if healthy is not None else ""
    return _problem(profile.metadata.name, ("it has no access provider", not profile.providers), (why, is_ill))


def _managed(cluster: ManagedCluster, contexts: Mapping[str, str] | None, known: KnownWorkers) -> PossibleWorker:
    name, configs = cluster.metadata.name, cluster.spec.managed_cluster_client_configs
    server = configs[0].url if configs else (contexts or {}).get(name, "")
    return PossibleWorker(
        name=name,
        source=f"ManagedCluster {name}",
        server=server,
        version=cluster.status.version.kubernetes,
        registered=known.called(name, server),
        problem=managed_problem(cluster)
        or (
            f"your kubeconfig has no context {name}, of an administrator of that cluster"
            if contexts is not None and name not in contexts
            else ""
        ),
    )


class _Address(msgspec.Struct):
    server: str = ""


def of_profiles(found: Iterable[ClusterProfile], known: KnownWorkers) -> list[PossibleWorker]:
    """ClusterProfiles. Their credentials are the business of the manager's access providers."""
    return [_profile(profile, known) for profile in found]


def _profile(profile: ClusterProfile, known: KnownWorkers) -> PossibleWorker:
    namespace, name = profile.key
    sources = ((each.metadata.name, each.spec.cluster_source.cluster_profile_ref) for each in known.clusters)
    naming = [cluster for cluster, ref in sources if ref is not None and ref.name == name]
    addresses = (msgspec.json.decode(each.cluster, type=_Address).server for each in profile.providers)
    return PossibleWorker(
        name=name,
        source=f"ClusterProfile {namespace}/{name}",
        server=next(filter(None, addresses), ""),
        version=profile.status.version.kubernetes,
        registered=next((each for each in (name, *naming) if each in naming), "") or known.called(name, ""),
        problem=profile_problem(profile),
    )


def _problem(name: str, *reasons: tuple[str, bool]) -> str:
    """The first reason that holds."""
    return next((why for why, holds in ((NOT_A_NAME, not is_name(name)), *reasons) if holds), "")
