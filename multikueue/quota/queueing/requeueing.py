"""When inadmissible workloads are due for another look: after a change of quota, a back-off or a budget (quota-engine 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush

from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.cache import QuotaCache
from multikueue.quota.cache.reservations import Reservation
from multikueue.quota.queueing.admission_fair_sharing import AdmissionFairSharingQueue
from multikueue.quota.queueing.pending_queue import PendingQueue
from multikueue.quota.queueing.pending_workload import PendingWorkload

__all__ = ["FLUSH_DELAY", "OVERLOOKED", "Requeueing"]

FLUSH_DELAY = timedelta(seconds=1)
"""The delay from a change of quota to the flush of inadmissible workloads, once per tree: changes come in bursts
(quota-engine 2.3)."""

OVERLOOKED = timedelta(minutes=5)
"""The delay of a flush after a change that Kueue does not notice, so that no workload waits forever."""


@dataclass(slots=True)
class Requeueing:
    """Owner: the queue manager, whose `lines` by ClusterQueue, `routes` by LocalQueue, `waiting` workloads and `busy` queues
    it reads. It makes queues busy that have something to look at again."""

    cache: QuotaCache
    lines: Mapping[str, PendingQueue | AdmissionFairSharingQueue]
    routes: Mapping[ObjectKey, str]
    waiting: Mapping[ObjectKey, PendingWorkload]
    busy: set[str]
    _flushes: dict[str, datetime] = field(default_factory=dict)
    _backoffs: list[tuple[datetime, ObjectKey]] = field(default_factory=list)

    def wake(self, queue: str, now: datetime) -> None:
        """The tree of a ClusterQueue changed: its pending workloads may fit now."""
        self.cache.unsettle(queue)
        self.request_flush(self.cache.forest.root_name(queue), now)

    def wake_selecting(self, namespace: str, now: datetime) -> None:
        """Wake all ClusterQueues that select a namespace."""
        for queue, line in self.lines.items():
            if line.size and self.cache.catalog.may_use(queue, namespace):
                self.wake(queue, now)

    def wake_after(self, freed: Reservation | None, now: datetime) -> None:
        """Quota became free.

        Kueue finds the queue to wake by the LocalQueue of the workload that had the quota, and wakes nothing if that is
        stopped or gone (quota-engine 2.3). Here the tree of the quota is flushed too, after `OVERLOOKED`.
        """
        if freed is None:
            return
        queue = self.routes.get(freed.local_queue)
        if queue is not None:
            self.wake(queue, now)
        if queue != freed.cluster_queue:
            self.request_flush(self.cache.forest.root_name(freed.cluster_queue), now, after=OVERLOOKED)

    def wake_overlooked(self, key: ObjectKey, now: datetime) -> None:
        """A pending workload that goes frees nothing; but Kueue requeues inadmissible workloads then too: a flush that
        is requested already comes earlier."""
        waiting = self.waiting.get(key)
        queue = self.routes.get(waiting.local_queue) if waiting else None
        root = self.cache.forest.root_name(queue) if queue is not None else ""
        if root in self._flushes:
            self.request_flush(root, now)

    def request_flush(self, root: str, now: datetime, *, after: timedelta = FLUSH_DELAY) -> None:
        """Requeue the inadmissible workloads of a tree after that delay, or earlier if a flush is due already."""
        self._flushes[root] = min(now + after, self._flushes.get(root, now + after))

    def wake_due(self, now: datetime) -> None:
        """Requeue workloads whose time has come, except in namespaces that their ClusterQueue does not select."""
        for queue in self.cache.budgets.freed(now):
            self.wake(queue, now)
        if due := {root for root, at in self._flushes.items() if at <= now}:
            for root in due:
                del self._flushes[root]
            self.cache.settled -= due
            for queue in self.cache.forest.queues_of(due):
                self.lines[queue].flush(now, partial(self.cache.catalog.may_use, queue))
                self.busy.add(queue)
        self._end_backoffs(now)

    def _end_backoffs(self, now: datetime) -> None:
        while self._backoffs and self._backoffs[0][0] <= now:
            _, key = heappop(self._backoffs)
            waiting = self.waiting.get(key)
            queue = self.routes.get(waiting.local_queue, "") if waiting else ""
            if waiting and waiting.may_queue(now) and (line := self.lines.get(queue)):
                line.unpark(key, now)
                self.busy.add(queue)
                self.cache.unsettle(queue)

    def next_due(self) -> datetime | None:
        """When the next flush or back-off is due."""
        times = [*self._flushes.values(), *(at for at, _ in self._backoffs[:1])]
        return min(times, default=None)

    def remember_backoff(self, waiting: PendingWorkload, now: datetime) -> None:
        """Looks at the workload again when its back-off ends, if it has one."""
        if waiting.requeue_at is not None and waiting.requeue_at > now:
            heappush(self._backoffs, (waiting.requeue_at, waiting.key))
