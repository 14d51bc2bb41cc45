"""The work queues as the store knows them: names and keys."""

from __future__ import annotations

from typing import Literal, Protocol

from multikueue.api.jobs.job import JobKey
from multikueue.api.meta import ObjectKey

__all__ = ["Key", "NoQueues", "Queue", "WorkQueues"]

Queue = Literal[
    "workloads",
    "jobs",
    "cluster_queues",
    "local_queues",
    "cohorts",
    "checks",
    "flavors",
    "clusters",
    "capacity",
    "admission",
]
"""The names of the queues. `admission` is the scheduler's cycle, which has no keys; `capacity` has names of workers, and an
empty one for what concerns the manager's queues."""

Key = ObjectKey | JobKey | str


class WorkQueues(Protocol):
    """Work queues of keys to reconcile. Each call only adds a key; nothing is called back. News go before what is only looked
    at again."""

    def add(self, queue: Queue, key: Key, /, *, is_news: bool = True) -> None: ...


class NoQueues:
    """Work queues of a read-only process: every key is dropped."""

    def add(self, queue: Queue, key: Key, /, *, is_news: bool = True) -> None:
        """Drops the key."""
