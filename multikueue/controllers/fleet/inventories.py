"""Watches an inventory of clusters on the manager cluster: ManagedClusters of OCM, or ClusterProfiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio

from multikueue.api.kind import Kind
from multikueue.api.kinds import CLUSTER_PROFILES, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS, MANAGED_SERVICE_ACCOUNTS
from multikueue.api.multikueue.clusters import ClusterProfile
from multikueue.api.multikueue.ocm import ManagedCluster, ManagedClusterSet, ManagedServiceAccount
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.events import log_state
from multikueue.kube.reflector import Reflector
from multikueue.registration.members import (
    Inventoried,
    ManagedInventory,
    members_of_hub,
    members_of_profiles,
    selector_of,
)
from multikueue.settings import FleetMembers
from multikueue.settings.values import label_terms
from multikueue.store.caches.cache import Cache

__all__ = ["ClusterInventory", "HubInventory", "ProfileInventory", "inventory_of"]


class ClusterInventory(Protocol):
    """The clusters that should be workers, kept up by watches."""

    async def run(self, changed: Callable[[], None]) -> None:
        """Watches until cancelled, and calls `changed` with each change."""

    async def synced(self) -> None:
        """Returns once all of it was listed: before, what is missing means nothing."""

    def members(self) -> Inventoried:
        """As last seen."""


@dataclass(slots=True)
class _Watches:
    """The watches of some collections. While one of them fails, its last state stands."""

    context: ReconcileContext
    wanted: tuple[tuple[Kind[Any], Cache[Any], str], ...]
    reflectors: list[Reflector[Any]] = field(default_factory=list)
    begun: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, changed: Callable[[], None]) -> None:
        async with anyio.create_task_group() as tasks:
            for kind, cache, namespace in self.wanted:
                cache.observe(lambda _old, _new: changed())
                reflector = Reflector(
                    self.context.manager, kind, cache, namespace=namespace, on_state=log_state(kind.plural)
                )
                self.reflectors.append(reflector)
                tasks.start_soon(reflector.run)
            self.begun.set()

    async def synced(self) -> None:
        await self.begun.wait()
        for reflector in self.reflectors:
            await reflector.synced.wait()


class HubInventory:
    """ManagedClusters; their sets and accounts only where the settings name one."""

    def __init__(self, context: ReconcileContext, rules: ManagedInventory) -> None:
        self._store, self._rules = context.store, rules
        self._clusters, self._sets = Cache[ManagedCluster](), Cache[ManagedClusterSet]()
        self._accounts = Cache[ManagedServiceAccount]()
        sets = ((MANAGED_CLUSTER_SETS, self._sets, ""),) if rules.cluster_set else ()
        accounts = ((MANAGED_SERVICE_ACCOUNTS, self._accounts, ""),) if rules.account else ()
        watches = _Watches(context, ((MANAGED_CLUSTERS, self._clusters, ""), *sets, *accounts))
        self.run, self.synced = watches.run, watches.synced

    def members(self) -> Inventoried:
        return members_of_hub(
            self._rules,
            self._clusters,
            {each.metadata.name: each for each in self._sets},
            {each.key: each for each in self._accounts},
            {each.metadata.name: each for each in self._store.secrets},
        )


class ProfileInventory:
    """ClusterProfiles in the manager's namespace."""

    def __init__(self, context: ReconcileContext, namespace: str, selector: str) -> None:
        self._profiles, self._selector = Cache[ClusterProfile](), selector_of(label_terms(selector))
        watches = _Watches(context, ((CLUSTER_PROFILES, self._profiles, namespace),))
        self.run, self.synced = watches.run, watches.synced

    def members(self) -> Inventoried:
        return members_of_profiles(self._profiles, self._selector)


def inventory_of(context: ReconcileContext, settings: FleetMembers, namespace: str) -> ClusterInventory:
    """The inventory that the settings name."""
    if settings.inventory == "clusterprofiles":
        return ProfileInventory(context, namespace, settings.selector)
    rules = ManagedInventory(
        namespace=namespace,
        origin=context.origin,
        secret=settings.secret,
        cluster_set=settings.cluster_set,
        selector=selector_of(label_terms(settings.selector)),
        tolerations=frozenset(settings.tolerations),
        account=settings.service_account,
        server=settings.server,
    )
    return HubInventory(context, rules)
