"""The state of the workers by their Active conditions alone, for a manager without connections of its own."""

from __future__ import annotations

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.runtime import DONE, Result
from multikueue.store.workers.watch_scope import namespaces_of


class Reports(msgspec.Struct, frozen=True):
    """Reconciles the view of a worker with its MultiKueueCluster. It writes nothing."""

    context: ReconcileContext

    async def reconcile(self, name: str) -> Result:
        store = self.context.store
        if store.clusters.get(ObjectKey("", name)) is not None or name in store.workers:
            self._read(name)
            store.forget_worker(name)
        return DONE

    async def read_all(self) -> None:
        """Reads all workers, before the first decision."""
        for cluster in self.context.store.clusters:
            self._read(cluster.metadata.name)

    def _read(self, name: str) -> None:
        store = self.context.store
        cluster, worker = store.clusters.get(ObjectKey("", name)), store.worker(name)
        condition = find_condition(cluster.status.conditions, ACTIVE) if cluster else None
        active = condition is not None and condition.status == "True"
        why = "" if active else _why_not(cluster is not None, condition.message if condition else "")
        since = condition.last_transition_time if condition is not None else None
        worker.reported(since, why, self.context.now(), namespaces_of(cluster) if cluster is not None else None)


def _why_not(is_present: bool, message: str) -> str:
    if not is_present:
        return "there is no such MultiKueueCluster"
    return message or "Kueue has not said yet that it is active"
