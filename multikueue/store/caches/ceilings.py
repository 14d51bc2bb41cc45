"""The quotas of the workers' own queues: which flavors a copy could get there, and which workloads to check again."""

from __future__ import annotations

from collections.abc import Collection

from multikueue.api.kueue.workload import Workload, queue_of
from multikueue.api.meta import ObjectKey
from multikueue.dispatch.group.fit import is_suspected, lack
from multikueue.quota.capacity.offers import WorkerQueues

__all__ = ["Ceilings"]


class Ceilings:
    """Owner: the store. Written by the reader of the workers' queues (`controllers.quota.ceilings`).

    `news`: workloads that fitted no worker, and that may fit since a worker's queues changed.
    """

    def __init__(self) -> None:
        self.news: set[ObjectKey] = set()
        self._queues: dict[str, WorkerQueues] = {}

    def put(self, worker: str, queues: WorkerQueues) -> bool | None:
        """Store a worker's queues. Whether they changed; None if none were known."""
        before, self._queues[worker] = self._queues.get(worker), queues
        return None if before is None else before != queues

    def forget(self, worker: str) -> None:
        """The worker is gone, or its name stands for another cluster."""
        self._queues.pop(worker, None)

    def lack(self, worker: str, copy: Workload | None) -> str:
        """What the worker lacks to ever admit its copy; empty if nothing, or if that is unknown."""
        return lack(copy, self._flavors(worker, copy)) if copy is not None and is_suspected(copy) else ""

    def _flavors(self, worker: str, copy: Workload) -> dict[str, Collection[str]] | None:
        queues = self._queues.get(worker)
        if queues is None:
            return None
        found: dict[str, list[str]] = {}
        for flavor, resource in queues.quotas.get(queues.routes.get(queue_of(copy), ""), {}):
            found.setdefault(resource, []).append(flavor)
        return {resource: tuple(flavors) for resource, flavors in found.items()}
