"""Which release of Kueue a worker runs, read for strategies that want to know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import anyio

from multikueue.errors import MultiKueueError
from multikueue.kube.cluster_client import ClusterClient
from multikueue.kube.definitions import kueue_release
from multikueue.store.caches.on_demand import OnDemand
from multikueue.store.workers.worker import WorkerView

__all__ = ["ReleaseReads"]

AGAIN, RETRY = timedelta(hours=1), timedelta(minutes=1)
"""Kueue may be upgraded while the connection stands; and the wait after a call that failed."""


@dataclass(slots=True)
class ReleaseReads:
    """Owner: the worker's connection. Nothing is read before a strategy wants it. A worker that does not say is no trouble of
    it."""

    wanted: OnDemand
    worker: WorkerView

    async def run(self, client: ClusterClient) -> None:
        """Reads forever."""
        begin = anyio.Event()
        self.wanted.when_wanted(self.worker.name, begin.set)
        await begin.wait()
        while True:
            wait = AGAIN
            try:
                self.worker.runs(await kueue_release(client))
            except MultiKueueError:
                wait = RETRY
            await anyio.sleep(wait.total_seconds())
