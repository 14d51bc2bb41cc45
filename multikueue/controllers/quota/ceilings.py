"""Reads what a worker has, once its Kueue says that it can never hold a copy, and as long as something fits no worker.

Nobody is read without such a cause: two lists for a worker and look, at most one look in `capacity_follow.interval` unless
somebody has just said so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from multikueue.controllers.quota.capacity import read_queues
from multikueue.controllers.reconcile.context import World
from multikueue.dispatch.fit import is_suspected
from multikueue.errors import MultiKueueError
from multikueue.runtime import DONE, Result
from multikueue.telemetry import get_logger

__all__ = ["SOONEST", "Ceilings"]

log = get_logger()

SOONEST = timedelta(seconds=10)
"""Between two looks at one worker, however many ask."""


@dataclass(slots=True)
class Ceilings:
    """Reconciles workers by name."""

    world: World
    _read_at: dict[str, datetime] = field(default_factory=dict)
    _told: dict[str, str] = field(default_factory=dict)

    async def reconcile(self, name: str) -> Result:
        world, last = self.world, self._read_at.get(name)
        client = world.clients.get(name)
        if client is None or not world.store.worker(name).link.is_connected:
            return DONE  # it is asked for again by whoever needs it once it is back
        if last is not None and last <= world.now() < last + SOONEST:
            return Result(again_after=last + SOONEST - world.now())
        self._read_at[name] = world.now()
        try:
            queues = await read_queues(client, world.store.worker(name).sight.namespaces)
        except MultiKueueError as error:
            self._complain(name, str(error))
        else:
            self._complain(name, "")
            self._tell(name, world.store.ceilings.put(name, queues))
        needed = self._suspected(name) or world.store.parked()
        return Result(again_after=world.settings.capacity_follow.interval) if needed else DONE

    def _complain(self, name: str, why: str) -> None:
        """Once for each reason."""
        if why and self._told.get(name) != why:
            log.warning("ceilings.unread", cluster=name, why=why)
        self._told[name] = why

    def _suspected(self, name: str) -> bool:
        return any(map(is_suspected, self.world.store.worker(name).workloads))

    def _tell(self, name: str, has_news: bool | None) -> None:
        """Who was waiting for that word, and who may fit now."""
        store = self.world.store
        if has_news is not False:
            for copy in store.worker(name).workloads:
                if is_suspected(copy):
                    store.look_at("workloads", copy.key)
        if has_news:
            for local in store.parked():
                store.ceilings.news.add(local.key)
                store.look_at("workloads", local.key)
