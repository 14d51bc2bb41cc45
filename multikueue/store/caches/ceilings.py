"""The quotas of the workers' own queues: which flavors a copy could get there, and which workloads to check again."""

from __future__ import annotations

from collections.abc import Collection, Hashable

from multikueue.api.kueue.workload import QUOTA_RESERVED, Workload, queue_of, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import answer_or
from multikueue.quota.capacity.offers import WorkerQueues
from multikueue.quota.requests.amounts import demand
from multikueue.workload.fit import is_suspected, lack, verdict

__all__ = ["Ceilings"]

_MOST_VERDICTS = 100
"""Verdicts kept per LocalQueue of a worker: one that asks for more and more fills no memory, and pushes out only their own."""


class Ceilings:
    """Owner: the store. Written by the reader of the workers' queues (`controllers.quota.worker_queues`).

    `news`: workloads that fitted no worker, and that may fit since a worker's queues changed.

    A worker's Kueue speaks of one of several copies that ask for the same, and not again once that one is gone. So its
    words are kept until its queues change.
    """

    def __init__(self) -> None:
        self.news: set[ObjectKey] = set()
        self._queues: dict[str, WorkerQueues] = {}
        self._verdicts: dict[str, dict[ObjectKey, dict[Hashable, str]]] = {}

    def put(self, worker: str, queues: WorkerQueues) -> bool | None:
        """Store a worker's queues. Whether they changed; None if none were known."""
        before, self._queues[worker] = self._queues.get(worker), queues
        if before is None:
            return None
        if before != queues:
            self._verdicts.pop(worker, None)
        return before != queues

    def forget(self, worker: str) -> None:
        """The worker is gone, or its name stands for another cluster."""
        self._queues.pop(worker, None)
        self._verdicts.pop(worker, None)

    def heard(self, worker: str, copy: Workload) -> bool:
        """Keep what the worker's Kueue says about a copy that it can never admit. Whether it says so for the first time
        of one that asks for so much."""
        asked = _asked(copy) if is_suspected(copy) else None
        if asked is None:
            return False
        known = self._verdicts.setdefault(worker, {}).setdefault(queue_of(copy), {})
        is_new = asked not in known
        if is_new and len(known) >= _MOST_VERDICTS:
            del known[next(iter(known))]
        known[asked] = verdict(copy)
        return is_new

    def is_judged(self, worker: str, copy: Workload) -> bool:
        """Whether the worker's Kueue says of the copy, or of one that asks for the same, that it can never admit it."""
        return is_suspected(copy) or bool(self._said_of_another(worker, copy))

    def lack(self, worker: str, copy: Workload | None) -> str:
        """The reason why the worker can never admit its copy; empty if it can, or if that is unknown."""
        told = copy.condition(QUOTA_RESERVED) if copy is not None else None
        if copy is None or (told is None and not self._verdicts.get(worker)) or (told and told.status == "True"):
            return ""  # nearly always
        if not self.is_judged(worker, copy):
            return ""
        return lack(copy, self._flavors(worker, copy), self._said_of_another(worker, copy))

    def _said_of_another(self, worker: str, copy: Workload) -> str:
        """The verdict on a copy of the same equivalence class, for a copy without one of its own."""
        of_worker = self._verdicts.get(worker)
        if not of_worker or copy.condition(QUOTA_RESERVED) is not None:
            return ""
        known = answer_or(lambda: of_worker.get(queue_of(copy)), otherwise=None)
        return known.get(_asked(copy), "") if known else ""

    def _flavors(self, worker: str, copy: Workload) -> dict[str, Collection[str]] | None:
        queues = self._queues.get(worker)
        if queues is None:
            return None
        found: dict[str, list[str]] = {}
        for flavor, resource in queues.quotas.get(queues.routes.get(queue_of(copy), ""), {}):
            found.setdefault(resource, []).append(flavor)
        return {resource: tuple(flavors) for resource, flavors in found.items()}


def _asked(copy: Workload) -> Hashable | None:
    """Equal for copies that ask for the same; None for one that cannot be read."""
    return answer_or(lambda: demand(workload_spec(copy)).shape, otherwise=None)
