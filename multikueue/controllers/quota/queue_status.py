"""The statuses of queues and Cohorts. Changes are collected for a second, so a burst costs a write or two."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import msgspec

from multikueue.api.kind import Kind
from multikueue.api.kinds import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from multikueue.api.kueue.queues import ClusterQueue, Cohort, CohortStatus, LocalQueue, QueueStatus
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.conditions import write_status
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import Invalid
from multikueue.quota.scheduler.backfill import backfill_problem
from multikueue.quota.workload.budget import INVALID_ANNOTATION, budget_problem
from multikueue.runtime import DONE, Result
from multikueue.store.caches.cache import Cache

Q = TypeVar("Q", ClusterQueue, LocalQueue, Cohort)


class QueueStatuses(msgspec.Struct, frozen=True):
    """Reconciles the statuses of queues and Cohorts with the quota engine."""

    context: ReconcileContext

    async def reconcile_cluster_queue(self, name: str) -> Result:
        store = self.context.store
        queue = store.cluster_queues.get(ObjectKey("", name))
        if queue is None:
            return DONE
        status = store.engine.view.cluster_queue_status(name, self.context.now())
        await self._write(CLUSTER_QUEUES, store.cluster_queues, queue, status)
        for problem in filter(None, (budget_problem(queue), backfill_problem(queue))):
            self.context.recorder.emit(
                CLUSTER_QUEUES, queue, type_="Warning", reason=INVALID_ANNOTATION, message=problem
            )
        for cohort in store.engine.view.cohorts_above(name):
            self.context.queues.cohorts.add(cohort)
        return DONE

    async def _write(self, kind: Kind[Any], cache: Cache[Q], obj: Q, status: QueueStatus | CohortStatus) -> None:
        """Writes what the definition of the kind that is installed has room for: one of an earlier Kueue has room for fewer
        flavors, and refuses the whole status (kueue#12082). Tells on the object what is left out, or why all is refused."""
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
        status = store.engine.view.local_queue_status(key, self.context.now())
        await self._write(LOCAL_QUEUES, store.local_queues, queue, status)
        if again_after is None:
            return DONE
        store.look_at("admission")  # the sample may have changed the order of the LocalQueues
        return Result(again_after=again_after)
