"""A store with one of everything that a workload needs, and somebody who notes what it touches."""

from __future__ import annotations

from multikueue.api.meta import ObjectKey
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.quota.engine import Engine
from multikueue.store.queues import Key, Queue
from multikueue.store.store import Store
from multikueue.store.views import Views
from multikueue.store.workers.worker import WorkerView
from multikueue.workload.case import Case
from multikueue.workload.decision_rules import DecisionRules
from tests.builders import (
    NOW,
    admission_check,
    cluster_queue,
    job,
    local_queue,
    multikueue_cluster,
    multikueue_config,
    workload,
)
from tests.builders.workloads import WorkloadBuilder

KEY = ObjectKey("default", "wl")


class Noted:
    """Work queues that only note what they get; of the statuses of queues, those of ClusterQueues. `capacity` has what may give
    ClusterQueues other quotas."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.capacity: list[Key] = []
        self.admissions = 0

    def add(self, queue: Queue, key: Key, /, *, is_news: bool = True) -> None:
        self.admissions += queue == "admission"
        if queue == "capacity":
            self.capacity.append(key)
        elif queue not in ("admission", "local_queues"):
            self.keys.append(f"{WORDS[queue]} {key if isinstance(key, str) else key.name}")


WORDS: dict[Queue, str] = {
    "workloads": "workload",
    "jobs": "job",
    "cluster_queues": "queue",
    "cohorts": "cohort",
    "checks": "check",
    "flavors": "flavor",
    "clusters": "cluster",
}


def stored(
    engine: Engine | None = None, *, should_wait_for_pods: bool = False, adapters: Adapters = BATCH_ONLY
) -> tuple[Store, Noted]:
    """A store with one queue, one check over w1 and w2, a job and its workload."""
    noted = Noted()
    engine = engine or Engine()
    store = Store(engine, noted, lambda: NOW, should_wait_for_pods=should_wait_for_pods, adapters=adapters)
    store.checks.upsert(admission_check("mk").config("mk").build())
    store.configs.upsert(multikueue_config("mk", "w1", "w2").build())
    for name in ("w1", "w2"):
        store.clusters.upsert(multikueue_cluster(name).build())
    store.cluster_queues.upsert(cluster_queue("cq").checks("mk").build())
    store.local_queues.upsert(local_queue("main", "cq").build())
    store.jobs.upsert(job("job").queue("main").suspended().managed_by().build())
    store.workloads.upsert(local().build())
    for name in ("w1", "w2"):
        store.worker(name).connected()
    noted.keys.clear()
    return store, noted


def not_seen_yet(worker: WorkerView) -> None:
    """As in a process that has just begun."""
    worker.suspected(NOW)
    worker.recorded(None)
    worker.forget()


def local() -> WorkloadBuilder:
    return workload("wl").queue("main").request(cpu=1).owner_job("job").reserved("cq").check("mk")


def case_in(store: Store) -> Case:
    return Views(store).case(KEY, DecisionRules(has_life=True))
