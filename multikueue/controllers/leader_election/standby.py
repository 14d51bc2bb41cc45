"""The work queues of a standby, and how it catches up when it becomes the leader.

A standby is hot: its caches and connections are those of a leader. Only keys are not queued: they would pile up while
it waits, and be out of date when they are needed. Instead it queues every key once when it acts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from multikueue.api.kueue.workload import FINISHED, Workload
from multikueue.controllers.quota.admission import SchedulerLoop
from multikueue.controllers.reconcile.context import WorkQueues
from multikueue.runtime import QueuePriority
from multikueue.store.queues import Queue
from multikueue.store.store import Store

__all__ = ["Enqueuer", "look_at_all"]


STATUS_DELAY = timedelta(seconds=1)
"""Changes of a queue are collected this long before its status is written (quota-engine 4.5)."""


STATUSES = frozenset({"cluster_queues", "local_queues", "cohorts"})


@dataclass(slots=True)
class Enqueuer:
    """The work queues as the store fills them. While the process does not act (`is_acting`), only keys of clusters are queued,
    because it keeps its own connections."""

    queues: WorkQueues
    admission: SchedulerLoop
    is_acting: bool = True

    def add(self, queue: Queue, key: Any, /, *, is_news: bool = True) -> None:
        if not (self.is_acting or queue == "clusters"):
            return
        if queue == "admission":
            self.admission.wake()
        elif queue in STATUSES:
            getattr(self.queues, queue).add_after(key, STATUS_DELAY)
        else:
            getattr(self.queues, queue).add(key, QueuePriority.LIVE if is_news else QueuePriority.RESYNC)


def look_at_all(store: Store) -> None:
    """Queues every key: of the objects on the manager cluster, and of workloads that only workers have. Workloads and jobs go
    behind what happens meanwhile, but for what ended unseen: others wait for its quota."""
    for ended in _ended(store):
        store.look_at("workloads", ended.key)
        if (owner := store.owner(ended)) is not None:
            store.look_at("jobs", owner)
    for local in store.workloads.all_keys():
        store.look_at("workloads", local, is_news=False)
    for key in chain.from_iterable(worker.held() for worker in store.workers.values()):
        store.look_at("workloads", key, is_news=False)
    for job in store.jobs.all_keys():
        store.look_at("jobs", job, is_news=False)
    for check in store.checks:
        store.look_at("checks", check.metadata.name)
    for flavor in store.flavors:
        store.look_at("flavors", flavor.metadata.name)
    for cluster in store.clusters:
        store.look_at("clusters", cluster.metadata.name)
    for cluster_queue in store.cluster_queues:
        store.look_at("cluster_queues", cluster_queue.metadata.name)
    for local_queue in store.local_queues:
        store.look_at("cluster_queues", local_queue.spec.cluster_queue)
        store.look_at("local_queues", local_queue.key)
    for cohort in store.cohorts:
        store.look_at("cohorts", cohort.metadata.name)
    store.look_at("admission")


def _ended(store: Store) -> Iterator[Workload]:
    """The workloads that are over on a worker, and not here."""
    for worker in store.workers.values():
        for copy in worker.workloads:
            local = store.workloads.get(copy.key) if copy.has(FINISHED) else None
            if local is not None and not local.has(FINISHED):
                yield local
