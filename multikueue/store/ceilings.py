"""What is known of the workers' own queues: which flavors a copy could have there, and what there is news of."""

from __future__ import annotations

from collections.abc import Collection

from multikueue.api.meta import ObjectKey
from multikueue.api.workload import Workload, queue_of
from multikueue.dispatch.fit import is_suspected, lack
from multikueue.quota.capacity import WorkerQueues

__all__ = ["Ceilings"]


class Ceilings:
    """Owner: the store. Written by whoever reads the workers' queues (`controllers.quota.ceilings`).

    `news` are the workloads that fitted no worker, and that may since a worker has something else than it had.
    """

    def __init__(self) -> None:
        self.news: set[ObjectKey] = set()
        self._queues: dict[str, WorkerQueues] = {}

    def put(self, worker: str, queues: WorkerQueues) -> bool | None:
        """Whether it had something else the last time; None if nothing was known of it."""
        before, self._queues[worker] = self._queues.get(worker), queues
        return None if before is None else before != queues

    def forget(self, worker: str) -> None:
        """Nobody has that name any more, or another cluster has it."""
        self._queues.pop(worker, None)

    def lack(self, worker: str, copy: Workload | None) -> str:
        """What the worker lacks to ever hold the copy that is there; empty if it may, or nobody knows."""
        return lack(copy, self._flavors(worker, copy)) if copy is not None and is_suspected(copy) else ""

    def _flavors(self, worker: str, copy: Workload) -> dict[str, Collection[str]] | None:
        queues = self._queues.get(worker)
        if queues is None:
            return None
        found: dict[str, list[str]] = {}
        for flavor, resource in queues.quotas.get(queues.routes.get(queue_of(copy), ""), {}):
            found.setdefault(resource, []).append(flavor)
        return {resource: tuple(flavors) for resource, flavors in found.items()}
