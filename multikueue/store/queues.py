"""The work queues as the store knows them: names, and what goes there."""

from __future__ import annotations

from typing import Literal, Protocol

from multikueue.api.job import JobKey
from multikueue.api.meta import ObjectKey

__all__ = ["Key", "Nowhere", "Queue", "WorkQueues"]

Queue = Literal[
    "workloads", "jobs", "cluster_queues", "local_queues", "cohorts", "checks", "flavors", "clusters", "admission"
]
"""By name; `admission` is the cycle of the scheduler, which has no keys."""

Key = ObjectKey | JobKey | str


class WorkQueues(Protocol):
    """Where keys go that are looked at again. Each call only notes a key; nobody is called back into."""

    def add(self, queue: Queue, key: Key, /) -> None: ...


class Nowhere:
    """For whom only looks: no key goes anywhere."""

    def add(self, queue: Queue, key: Key, /) -> None:
        """Nobody looks again."""
