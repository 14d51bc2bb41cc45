"""What a replica does with news while another one acts, and how it catches up when its own turn comes.

A standby is hot: its caches and connections are those of a leader. Only the notes of what to look at are not kept, which
would grow for as long as it waits and be out of date when they are needed. Instead it looks at everything once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from multikueue.api.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.runtime import WorkQueue
from multikueue.store.store import Store, Touched

__all__ = ["Bystander", "look_at_all"]


@dataclass(frozen=True, slots=True)
class Bystander:
    """The `Touched` of a process that does not act (yet): it looks after its own connections and nothing else."""

    clusters: WorkQueue[str]

    def workload(self, key: ObjectKey) -> None:
        pass

    def job(self, key: JobKey) -> None:
        pass

    def queue(self, cluster_queue: str, local_queue: ObjectKey | None) -> None:
        pass

    def cohort(self, name: str) -> None:
        pass

    def check(self, name: str) -> None:
        pass

    def flavor(self, name: str) -> None:
        pass

    def cluster(self, name: str) -> None:
        self.clusters.add(name)

    def admission(self) -> None:
        pass


def look_at_all(store: Store, touched: Touched) -> None:
    """Note every key there is: what the manager cluster has, and what workers have that it does not have any more."""
    for workload in store.workloads:
        touched.workload(workload.key)
    for key in chain.from_iterable(worker.held() for worker in store.workers.values()):
        touched.workload(key)
    for job in store.jobs:
        touched.job(JobKey(store.adapters.of(job).kind.name, *job.key))
    for check in store.checks:
        touched.check(check.metadata.name)
    for flavor in store.flavors:
        touched.flavor(flavor.metadata.name)
    for cluster in store.clusters:
        touched.cluster(cluster.metadata.name)
    for cluster_queue in store.cluster_queues:
        touched.queue(cluster_queue.metadata.name, None)
    for local_queue in store.local_queues:
        touched.queue(local_queue.spec.cluster_queue, local_queue.key)
    for cohort in store.cohorts:
        touched.cohort(cohort.metadata.name)
    touched.admission()
