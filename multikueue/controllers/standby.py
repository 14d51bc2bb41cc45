"""What a replica does with news while another one acts, and how it catches up when its own turn comes.

A standby is hot: its caches and connections are those of a leader. Only the notes of what to look at are not kept, which
would grow for as long as it waits and be out of date when they are needed. Instead it looks at everything once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from itertools import chain

from multikueue.api.job import JobKey
from multikueue.api.meta import ObjectKey
from multikueue.controllers.admission import Admission
from multikueue.controllers.world import Queues
from multikueue.store.store import Store, Touched

__all__ = ["Touch", "look_at_all"]


STATUS_DELAY = timedelta(seconds=1)
"""Changes of a queue are collected this long before its status is written (quota-engine 4.5)."""


@dataclass(slots=True)
class Touch:
    """Turns what changed into keys on the queues: the `Touched` of the store. As long as the process is not `acting`, it looks
    after its own connections and nothing else."""

    queues: Queues
    admission_: Admission
    acting: bool = True

    def workload(self, key: ObjectKey) -> None:
        if self.acting:
            self.queues.workloads.add(key)

    def job(self, key: JobKey) -> None:
        if self.acting:
            self.queues.jobs.add(key)

    def queue(self, cluster_queue: str, local_queue: ObjectKey | None) -> None:
        if self.acting:
            self.queues.cluster_queues.add_after(cluster_queue, STATUS_DELAY)
            if local_queue is not None:
                self.queues.local_queues.add_after(local_queue, STATUS_DELAY)

    def cohort(self, name: str) -> None:
        if self.acting:
            self.queues.cohorts.add_after(name, STATUS_DELAY)

    def check(self, name: str) -> None:
        if self.acting:
            self.queues.checks.add(name)

    def flavor(self, name: str) -> None:
        if self.acting:
            self.queues.flavors.add(name)

    def cluster(self, name: str) -> None:
        self.queues.clusters.add(name)

    def admission(self) -> None:
        if self.acting:
            self.admission_.wake()


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
