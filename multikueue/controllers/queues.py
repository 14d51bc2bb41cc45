"""The statuses of queues and Cohorts. Changes are collected for a second, so a burst costs a write or two."""

from __future__ import annotations

from dataclasses import dataclass

from multikueue.api.kinds import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from multikueue.api.meta import ObjectKey
from multikueue.api.render import difference, status_patch
from multikueue.controllers.world import World
from multikueue.runtime import DONE, Result


@dataclass(frozen=True, slots=True)
class Queues:
    """Reconciles the status of queues from what the quota engine knows."""

    world: World

    async def reconcile_cluster_queue(self, name: str) -> Result:
        store = self.world.store
        queue = store.cluster_queues.get(ObjectKey("", name))
        if queue is None:
            return DONE
        status = store.engine.cluster_queue_status(name, self.world.now())
        patch = difference(queue.status, status)
        if patch:
            body = status_patch(queue, patch)
            answer = await self.world.manager.merge_patch(CLUSTER_QUEUES, queue.key, body, subresource="status")
            store.cluster_queues.upsert(answer)
        for cohort in store.engine.cohorts_above(name):
            self.world.queues.cohorts.add(cohort)
        return DONE

    async def reconcile_cohort(self, name: str) -> Result:
        """Only where sharing is fair there is anything to tell."""
        store = self.world.store
        cohort = store.cohorts.get(ObjectKey("", name))
        if cohort is None:
            return DONE
        patch = difference(cohort.status, store.engine.cohort_status(name))
        if patch:
            body = status_patch(cohort, patch)
            answer = await self.world.manager.merge_patch(COHORTS, cohort.key, body, subresource="status")
            store.cohorts.upsert(answer)
        return DONE

    async def reconcile_local_queue(self, key: ObjectKey) -> Result:
        store = self.world.store
        queue = store.local_queues.get(key)
        if queue is None:
            return DONE
        status = store.engine.local_queue_status(key, self.world.now())
        patch = difference(queue.status, status)
        if patch:
            body = status_patch(queue, patch)
            answer = await self.world.manager.merge_patch(LOCAL_QUEUES, key, body, subresource="status")
            store.local_queues.upsert(answer)
        return DONE
