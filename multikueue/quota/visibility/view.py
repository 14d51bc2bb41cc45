"""The read-only view of queues and quota, for statuses, metrics, visibility and explanations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from multikueue.api.kueue.queues import (
    ClusterQueue,
    ClusterQueueStatus,
    CohortStatus,
    FairSharingStatus,
    LocalQueue,
    QueueStatus,
)
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache import status
from multikueue.quota.cache.cache import QuotaCache
from multikueue.quota.cache.reservations import QueueUsage, Reservation
from multikueue.quota.cache.shares import NOTHING, Share, share
from multikueue.quota.cache.status import Problem
from multikueue.quota.cache.tree import CellQuota, FlavorResource, Node
from multikueue.quota.preemption.preemption import PreemptionRules
from multikueue.quota.queueing.pending_workload import PendingWorkload
from multikueue.quota.queueing.queue_manager import QueueManager
from multikueue.quota.scheduler.cycle import Head
from multikueue.quota.scheduler.scheduler import Scheduler
from multikueue.quota.workload.outcome import Verdict


class QuotaView:
    """Read-only. Use its answers at once and do not keep them: they change with the engine."""

    def __init__(self, cache: QuotaCache, queues: QueueManager, scheduler: Scheduler) -> None:
        self._cache, self._queues, self._scheduler = cache, queues, scheduler
        self.pending_workload = queues.get
        """A pending workload, whether it is in a queue or not."""
        self.is_active, self.required_checks = cache.catalog.is_active, cache.catalog.required_checks

    # --- workloads ---

    def verdict(self, key: ObjectKey) -> Verdict | None:
        """Why a pending workload has no quota, if a cycle has looked at it."""
        waiting = self._queues.get(key)
        return None if waiting is None else self._queues.verdict(waiting)

    def misconfiguration(self, key: ObjectKey) -> str:
        """Why no cycle would judge a pending workload, though its queues are well; empty if one will."""
        waiting = self._queues.get(key)
        local_queue = self.local_queue(waiting.local_queue) if waiting is not None else None
        if waiting is None or local_queue is None or self.cluster_queue(local_queue.spec.cluster_queue) is None:
            return ""
        return self._scheduler.misconfiguration(waiting, local_queue.spec.cluster_queue)

    def head(self, waiting: PendingWorkload, cluster_queue: str) -> Head:
        """A workload as a cycle would see it at the head of that ClusterQueue, which must be known."""
        self._cache.build()
        return self._scheduler.head(waiting, cluster_queue)

    def rules(self, now: datetime) -> PreemptionRules:
        """The rules of preemption as of now."""
        return self._scheduler.rules(now)

    # --- queues ---

    def cluster_queue(self, name: str) -> ClusterQueue | None:
        return self._cache.catalog.queues.get(name)

    def local_queue(self, key: ObjectKey) -> LocalQueue | None:
        return self._cache.catalog.local_queues.get(key)

    def cluster_queue_problems(self, name: str) -> tuple[Problem, ...]:
        """Why the ClusterQueue admits nothing, most important first; empty when it is active or unknown."""
        cycle = self._cache.forest.cycle_above(name)
        return (*self._cache.catalog.problems(name), *((status.cycle_problem(cycle),) if cycle else ()))

    def quotas(self, cluster_queue: str) -> Mapping[FlavorResource, CellQuota]:
        """The quotas of a ClusterQueue."""
        return self._cache.forest.quotas(cluster_queue)

    def queue_usage(self, cluster_queue: str) -> QueueUsage:
        """Sums over the reservations of a ClusterQueue."""
        return self._cache.reservations.queue(cluster_queue)

    def local_queue_usage(self, local_queue: ObjectKey) -> QueueUsage:
        """Sums over the reservations of a LocalQueue."""
        return self._cache.reservations.local_queue(local_queue)

    def reservations_in(self, cluster_queue: str) -> Iterable[Reservation]:
        """The reservations of a ClusterQueue, active or not, in order of eviction."""
        return self._cache.reservations.in_queue(cluster_queue)

    # --- pending workloads ---

    def waiting_in(self, cluster_queue: str) -> Iterator[PendingWorkload]:
        """Pending workloads of a ClusterQueue in queue order. Valid until something changes."""
        line = self._queues.lines.get(cluster_queue)
        return line.in_order() if line else iter(())

    def places_of(self, cluster_queue: str, local_queue: ObjectKey) -> Iterator[tuple[PendingWorkload, int]]:
        """Pending workloads of a LocalQueue in queue order, each with its place in the ClusterQueue, from 0 on. Valid until
        something changes."""
        line = self._queues.lines.get(cluster_queue)
        return line.places_of(local_queue) if line else iter(())

    def pending_in(self, cluster_queue: str) -> tuple[ObjectKey, ...]:
        """The keys of the pending workloads of a ClusterQueue in queue order, as a copy."""
        return tuple(waiting.key for waiting in self.waiting_in(cluster_queue))

    def waiting(self, cluster_queue: str) -> tuple[int, int]:
        """The numbers of active and of inadmissible workloads of a ClusterQueue. In a queue that is not active all are
        inadmissible: no cycle looks at them (quota-engine 7)."""
        line = self._queues.lines.get(cluster_queue)
        if line is None:
            return 0, 0
        return (line.size - line.inadmissible, line.inadmissible) if self.is_active(cluster_queue) else (0, line.size)

    def waiting_by_local_queue(self, cluster_queue: str) -> tuple[Counter[ObjectKey], Counter[ObjectKey]]:
        """The numbers of active and of inadmissible workloads of a ClusterQueue, by LocalQueue."""
        line = self._queues.lines.get(cluster_queue)
        if line is None:
            return Counter(), Counter()
        everybody = Counter(waiting.local_queue for waiting in line)
        parked = Counter(waiting.local_queue for waiting in line.inadmissible_workloads())
        return (everybody - parked, parked) if self.is_active(cluster_queue) else (Counter(), everybody)

    # --- statuses and shares ---

    def cluster_queue_status(self, name: str, now: datetime) -> ClusterQueueStatus:
        """The status the ClusterQueue should have. Raises KeyError if it is unknown."""
        share = self.queue_share(name)
        return status.cluster_queue_status(
            self._cache.catalog.queues[name],
            self.queue_usage(name),
            self.quotas(name),
            pending=self._queues.lines[name].size,
            problems=self.cluster_queue_problems(name),
            now=now,
            share=None if share is None else share.figure,
        )

    def local_queue_status(self, key: ObjectKey, now: datetime) -> QueueStatus:
        """The status the LocalQueue should have. Raises KeyError if it is unknown."""
        local_queue, history = self._cache.catalog.local_queues[key], self._cache.history
        name = local_queue.spec.cluster_queue
        return status.local_queue_status(
            local_queue,
            self.cluster_queue(name),
            self.local_queue_usage(key),
            pending=self._queues.members(key),
            is_active=self.is_active(name),
            now=now,
            history=history.status(key) if history else None,
        )

    def cohort_status(self, name: str) -> CohortStatus:
        """The status the Cohort should have."""
        share = self.cohort_share(name)
        return CohortStatus(fair_sharing=None if share is None else FairSharingStatus(weighted_share=share.figure))

    def queue_share(self, cluster_queue: str) -> Share | None:
        """The weighted share of a ClusterQueue; None without fair sharing."""
        return self._share(self._cache.forest.queue, cluster_queue)

    def cohort_share(self, cohort: str) -> Share | None:
        """The weighted share of a cohort; None without fair sharing."""
        return self._share(self._cache.forest.cohort, cohort)

    def _share(self, node_of: Callable[[str], Node | None], name: str) -> Share | None:
        if not self._cache.is_fair_sharing:
            return None
        self._cache.build()
        node = node_of(name)
        return NOTHING if node is None else share(node)

    def cohorts_above(self, cluster_queue: str) -> tuple[str, ...]:
        """The cohorts above a ClusterQueue, the nearest first."""
        node = None if self._cache.forest.stale else self._cache.forest.queue(cluster_queue)
        return tuple(cohort.name for cohort in node.ancestors()) if node is not None else ()
