"""What we write about queues: their statuses and those of Cohorts, and Kueue's finalizer.

Changes of a status are collected for a second, so a burst costs a write or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from multikueue.api.kind import Kind
from multikueue.api.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, RESOURCE_FLAVORS
from multikueue.api.kueue.queues import ClusterQueue, Cohort, CohortStatus, LocalQueue, QueueStatus
from multikueue.api.kueue.workload import RESOURCE_IN_USE
from multikueue.api.meta import Object, ObjectKey
from multikueue.controllers.reconcile.conditions import write_status
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import Invalid, NotFound
from multikueue.kube.cluster_client import ClusterClient
from multikueue.quota.cache.budgets import INVALID_ANNOTATION, budget_problem
from multikueue.quota.cache.status import check_names, flavor_names
from multikueue.quota.capacity.spend import SAMPLED, limit_problem
from multikueue.quota.scheduler.backfill import backfill_problem
from multikueue.runtime import DONE, Result
from multikueue.store.caches.cache import Cache
from multikueue.workload.handlers.outcome import sooner

Q = TypeVar("Q", ClusterQueue, LocalQueue, Cohort)
S = TypeVar("S", bound=QueueStatus)

SOONEST = timedelta(seconds=1)


class QueueStatuses(msgspec.Struct, frozen=True):
    """Reconciles the statuses of queues and Cohorts with the quota engine."""

    context: ReconcileContext

    async def reconcile_cluster_queue(self, name: str) -> Result:
        store = self.context.store
        queue = store.cluster_queues.get(ObjectKey("", name))
        if queue is None:
            return DONE
        status, again_after = self._with_spend(queue, store.engine.view.cluster_queue_status(name, self.context.now()))
        await self._write(CLUSTER_QUEUES, store.cluster_queues, queue, status)
        self._warn(CLUSTER_QUEUES, queue, budget_problem(queue), backfill_problem(queue), limit_problem(queue))
        for cohort in store.engine.view.cohorts_above(name):
            self.context.queues.cohorts.add(cohort)
        return Result(again_after)

    def _with_spend(self, queue: ClusterQueue | LocalQueue, status: S) -> tuple[S, timedelta | None]:
        """The status with what the queue has spent, and when that is to be written again."""
        account, now = self.context.store.spends.account(queue.key), self.context.now()
        if account is None:
            return status, None
        told = account.told(status.conditions, generation=queue.metadata.generation, now=now)
        until = account.until(now)
        again = (SAMPLED if account.rate else None, max(until - now, SOONEST) if until is not None else None)
        return replace(status, conditions=told), min(filter(None, again), default=None)

    def _warn(self, kind: Kind[Any], queue: ClusterQueue | LocalQueue, *problems: str) -> None:
        for problem in filter(None, problems):
            self.context.recorder.emit(kind, queue, type_="Warning", reason=INVALID_ANNOTATION, message=problem)

    async def _write(self, kind: Kind[Any], cache: Cache[Q], obj: Q, status: QueueStatus | CohortStatus) -> None:
        """Writes what the definition of the kind that is installed has room for: one of an earlier Kueue has room for fewer
        flavors, and refuses the whole status (kueue#12082). An event on it has what is left out, or why all is refused."""
        bounds = self.context.store.bounds
        tell = partial(self.context.recorder.emit, kind, obj, type_="Warning")
        while True:
            shown, lacking = bounds.cut(kind.name, status)
            try:
                await write_status(self.context, kind, cache, obj, shown)
            except Invalid as error:
                if bounds.learn(kind.name, error.message):
                    continue
                tell(reason="StatusRefused", message=f"its status cannot be written: {error}")
                raise
            if lacking:
                why = "the definition of its kind that is installed has no room for more"
                tell(reason="StatusCut", message=f"its status is not complete, {'; '.join(lacking)}: {why}")
            return

    async def reconcile_cohort(self, name: str) -> Result:
        """Writes the status, which a Cohort has only under fair sharing."""
        store = self.context.store
        cohort = store.cohorts.get(ObjectKey("", name))
        if cohort is None:
            return DONE
        await self._write(COHORTS, store.cohorts, cohort, store.engine.view.cohort_status(name))
        return DONE

    async def reconcile_local_queue(self, key: ObjectKey) -> Result:
        store = self.context.store
        queue = store.local_queues.get(key)
        if queue is None:
            return DONE
        again_after = store.engine.sample(key, self.context.now())
        status, told_after = self._with_spend(queue, store.engine.view.local_queue_status(key, self.context.now()))
        await self._write(LOCAL_QUEUES, store.local_queues, queue, status)
        self._warn(LOCAL_QUEUES, queue, limit_problem(queue))
        if again_after is not None:
            store.look_at("admission")  # the sample may have changed the order of the LocalQueues
        return Result(sooner(again_after, told_after))


T = TypeVar("T", bound=Object)


class Finalizers(msgspec.Struct, frozen=True):
    """Keeps the finalizer of queues, flavors and checks. Only the process that gives quota knows which are in use.

    So an object in use does not go before its time (quota-engine 1). ClusterQueues, ResourceFlavors and AdmissionChecks get
    it when they are first seen: one write in the life of an object. A deleted ClusterQueue keeps it while quota of it is
    reserved, the other kinds while a ClusterQueue names them.
    """

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
