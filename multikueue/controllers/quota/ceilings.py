"""Reads the quotas of a worker, once its Kueue says that a copy can never fit, and while a workload fits no worker.

Without such a cause no worker is read: a read costs two lists. There is at most one per worker in
`capacity_follow.interval`, unless a Kueue has just reported that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from multikueue.controllers.quota.worker_queues import read_queues
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import MultiKueueError
from multikueue.runtime import DONE, Result
from multikueue.telemetry import get_logger
from multikueue.workload.fit import is_suspected

__all__ = ["SOONEST", "CeilingReader"]

log = get_logger()

SOONEST = timedelta(seconds=10)
"""Minimum time between two reads of one worker, however many keys are queued."""


@dataclass(slots=True)
class CeilingReader:
    """Reconciles workers by name."""

    context: ReconcileContext
    _read_at: dict[str, datetime] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    async def reconcile(self, name: str) -> Result:
        context, last = self.context, self._read_at.get(name)
        client = context.clients.get(name)
        if client is None or not context.store.worker(name).link.is_connected:
            return DONE  # a workload that needs the read queues it again once the worker is back
        if last is not None and last <= context.now() < last + SOONEST:
            return Result(again_after=last + SOONEST - context.now())
        self._forget_those_gone()
        self._read_at[name] = context.now()
        try:
            queues = await read_queues(client, context.store.worker(name).watch_scope.namespaces)
        except MultiKueueError as error:
            self._complain(name, str(error))
        else:
            self._complain(name, "")
            self._requeue(name, context.store.ceilings.put(name, queues))
        needed = any(map(is_suspected, context.store.worker(name).workloads)) or context.store.parked()
        return Result(again_after=context.settings.capacity_follow.interval) if needed else DONE

    def _forget_those_gone(self) -> None:
        for name in self._read_at.keys() - self.context.store.workers.keys():
            del self._read_at[name]
            self._told.pop(name, None)

    def _complain(self, name: str, why: str) -> None:
        """Logs a failure once while its reason stays the same."""
        if why and self._told.get(name) != why:
            log.warning("ceilings.unread", cluster=name, why=why)
        self._told[name] = why

    def _requeue(self, name: str, has_news: bool | None) -> None:
        """Queues the workloads that waited for the read, and after a change the parked ones, which may fit now."""
        store = self.context.store
        if has_news is not False:
            store.look_at_judged(store.worker(name))
        if has_news:
            for local in store.parked():
                store.ceilings.news.add(local.key)
                store.look_at("workloads", local.key)
