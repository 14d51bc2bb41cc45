"""What a replica does with news while another one acts, and how it catches up when its own turn comes.

A standby is hot: its caches and connections are those of a leader. Only the notes of what to look at are not kept, which
would grow for as long as it waits and be out of date when they are needed. Instead it looks at everything once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

from multikueue.controllers.quota.admission import Admission
from multikueue.controllers.reconcile.context import Queues
from multikueue.store.queues import Queue
from multikueue.store.store import Store

__all__ = ["Enqueuer", "look_at_all"]


STATUS_DELAY = timedelta(seconds=1)
"""Changes of a queue are collected this long before its status is written (quota-engine 4.5)."""


STATUSES = frozenset({"cluster_queues", "local_queues", "cohorts"})


@dataclass(slots=True)
class Enqueuer:
    """The work queues as the store fills them. As long as the process is not `acting`, it looks after its own connections and
    nothing else."""

    queues: Queues
    admission: Admission
    acting: bool = True

    def add(self, queue: Queue, key: Any, /) -> None:
        if not (self.acting or queue == "clusters"):
            return
        if queue == "admission":
            self.admission.wake()
        elif queue in STATUSES:
            getattr(self.queues, queue).add_after(key, STATUS_DELAY)
        else:
            getattr(self.queues, queue).add(key)


def look_at_all(store: Store) -> None:
    """Note every key there is: what the manager cluster has, and what workers have that it does not have any more."""
    for workload in store.workloads:
        store.look_at("workloads", workload.key)
    for key in chain.from_iterable(worker.held() for worker in store.workers.values()):
        store.look_at("workloads", key)
    for job in store.jobs:
        store.look_at("jobs", store.adapters.key_of(job))
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
