"""Reads the queues of workers for users who ask why a job waits, while its workers were not asked yet.

Without that, a user who may see no worker would be told to wait for quota, where no worker could ever hold the job. Nothing is
read without a request, and a worker not more often than every `LIFETIME`, for all callers together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic

import anyio

from multikueue.api.kinds import CLUSTER_QUEUES, LOCAL_QUEUES
from multikueue.api.kueue.queues import LocalQueue
from multikueue.errors import MultiKueueError
from multikueue.kube.cluster_client import WatchingClient
from multikueue.store.workers.worker import WorkerView
from multikueue.workload.nomination.foresight import QueuesThere

__all__ = ["LIFETIME", "PATIENCE", "QueueReads"]

LIFETIME = timedelta(seconds=30)
"""How long the queues of a worker are taken for known, and how long one that did not answer is not asked again."""

PATIENCE = timedelta(seconds=3)
"""Maximum time for all workers of an answer, which says less without those that take longer."""

AT_ONCE = 8
"""Maximum workers that are read at once for one answer."""


@dataclass(slots=True)
class QueueReads:
    """`clients`: of the connected workers; `workers`: the store's view of all workers."""

    clients: Mapping[str, WatchingClient]
    workers: Mapping[str, WorkerView]
    seconds: Callable[[], float] = monotonic
    _asked: dict[str, float] = field(default_factory=dict)
    _known: dict[str, QueuesThere] = field(default_factory=dict)

    async def of(self, names: Collection[str]) -> dict[str, QueuesThere]:
        """The queues of those workers that answer in time."""
        self._forget()
        limiter = anyio.CapacityLimiter(AT_ONCE)

        async def read(name: str) -> None:
            async with limiter:
                await self._read(name)

        with anyio.move_on_after(PATIENCE.total_seconds()):
            async with anyio.create_task_group() as tasks:
                for name in names:
                    if name in self.clients and name not in self._asked:
                        self._asked[name] = self.seconds()
                        tasks.start_soon(read, name)
        return {name: self._known[name] for name in names if name in self._known}

    def _forget(self) -> None:
        now = self.seconds()
        for name, began in [*self._asked.items()]:
            if now - began >= LIFETIME.total_seconds() or name not in self.clients:
                del self._asked[name]
                self._known.pop(name, None)

    async def _read(self, name: str) -> None:
        client, found = self.clients[name], list[LocalQueue]()
        try:
            for namespace in self.workers[name].watch_scope.namespaces:
                found += (await client.list(LOCAL_QUEUES, namespace=namespace)).items
            self._known[name] = QueuesThere.of(found, (await client.list(CLUSTER_QUEUES)).items)
        except (MultiKueueError, KeyError):  # away, or not allowed, or gone meanwhile: nothing is known of it
            return
