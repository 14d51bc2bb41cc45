"""Kueue's finalizer: an object in use does not go before its time (quota-engine 1).

ClusterQueues, ResourceFlavors and AdmissionChecks get it when they are first seen: one write in the life of an object.
A deleted ClusterQueue keeps it while quota of it is reserved, the other kinds while a ClusterQueue names them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, RESOURCE_FLAVORS
from multikueue.api.kueue.workload import RESOURCE_IN_USE
from multikueue.api.meta import Object, ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.cache.status import check_names, flavor_names
from multikueue.runtime import DONE, Result
from multikueue.store.caches.cache import Cache

__all__ = ["Finalizers", "remove_finalizer"]

T = TypeVar("T", bound=Object)


class Finalizers(msgspec.Struct, frozen=True):
    """Keeps the finalizer of queues, flavors and checks. Only the process that gives quota knows which are in use."""

    context: ReconcileContext

    async def reconcile_cluster_queue(self, name: str) -> Result:
        store = self.context.store
        in_use = store.engine.view.queue_usage(name).reserving > 0
        return await self._keep(CLUSTER_QUEUES, store.cluster_queues, name, is_in_use=in_use)

    async def reconcile_flavor(self, name: str) -> Result:
        store = self.context.store
        in_use = any(name in flavor_names(queue) for queue in store.cluster_queues)
        return await self._keep(RESOURCE_FLAVORS, store.flavors, name, is_in_use=in_use)

    async def reconcile_check(self, name: str) -> Result:
        store = self.context.store
        in_use = any(name in check_names(queue) for queue in store.cluster_queues)
        return await self._keep(ADMISSION_CHECKS, store.checks, name, is_in_use=in_use)

    async def _keep(self, kind: Kind[Any], cache: Cache[T], name: str, *, is_in_use: bool) -> Result:
        obj = cache.get(ObjectKey("", name))
        if obj is None:
            return DONE
        if obj.metadata.deletion_timestamp is not None:
            if not is_in_use:
                await remove_finalizer(self.context.manager, kind, cache, obj)
        elif RESOURCE_IN_USE not in obj.metadata.finalizers:
            body = _finalizers(obj, (*obj.metadata.finalizers, RESOURCE_IN_USE))
            cache.upsert(await self.context.manager.merge_patch(kind, obj.key, body))
        return DONE


async def remove_finalizer(client: ClusterClient, kind: Kind[Any], cache: Cache[T], obj: T) -> None:
    """Removes our finalizer from an object that is being deleted, and caches the answer."""
    kept = [each for each in obj.metadata.finalizers if each != RESOURCE_IN_USE]
    if len(kept) == len(obj.metadata.finalizers):
        return
    try:
        answer = await client.merge_patch(kind, obj.key, _finalizers(obj, kept))
    except NotFound:
        return
    if kept:
        cache.upsert(answer)
    else:
        cache.remove(obj)


def _finalizers(obj: Object, finalizers: Sequence[str]) -> dict[str, Any]:
    """A patch of the whole list, for the version that was seen: else it might drop the finalizer of another writer."""
    return {"metadata": {"resourceVersion": obj.metadata.resource_version, "finalizers": [*finalizers]}}
