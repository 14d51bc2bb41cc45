"""What queues spend on workers, from the workloads that run there and the prices of MultiKueueClusters.

Nothing is looked at before the first cluster has prices. What a queue spent is in a condition of it, so a process that starts
goes on from there, and adds what ran meanwhile by the times in the workloads that are still there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.kueue.workload import ADMITTED, FINISHED, Workload, queue_of, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import MultiKueueCluster, prices_of
from multikueue.quota.cache.reservations import admission_amounts
from multikueue.quota.capacity.spend import Account, Ledger
from multikueue.store.caches.cache import Cache
from multikueue.strategy import Spend, hourly

__all__ = ["Spends", "assigned"]


class Spends:
    """Owner: the store."""

    def __init__(
        self,
        workloads: Cache[Workload],
        clusters: Cache[MultiKueueCluster],
        queues: tuple[Cache[ClusterQueue], Cache[LocalQueue]],
        now: Callable[[], datetime],
    ) -> None:
        self._workloads, self._queues, self._now = workloads, queues, now
        self._prices: dict[str, Mapping[str, float]] = {}
        self._ledger: Ledger | None = None
        clusters.observe(self._cluster_changed)

    def account(self, queue: ObjectKey) -> Account | None:
        """That of a ClusterQueue, which has no namespace, or a LocalQueue; None while nothing has a price."""
        return self._ledger.accounts.get(queue) if self._ledger is not None else None

    def of(self, local: Workload) -> tuple[Spend, ...]:
        """What the queues of a workload with quota have spent, of those with a limit."""
        return self._ledger.spends(_queues(local), self._now()) if self._ledger is not None else ()

    def _cluster_changed(self, old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> None:
        seen = new or old
        assert seen is not None
        name, prices = seen.metadata.name, prices_of(new) if new is not None else {}
        if prices == self._prices.get(name, {}):
            return
        self._prices[name] = prices
        if self._ledger is None:
            self._begin()
        for local in self._workloads.by("worker", name):
            self._workload_changed(local, local)

    def _begin(self) -> None:
        self._ledger = Ledger()
        for cache in self._queues:
            for queue in cache:
                self._queue_changed(None, queue)
        self._queues[0].observe(self._queue_changed)
        self._queues[1].observe(self._queue_changed)
        self._workloads.observe(self._workload_changed)

    def _queue_changed(self, old: ClusterQueue | LocalQueue | None, new: ClusterQueue | LocalQueue | None) -> None:
        assert self._ledger is not None
        if new is not None:
            self._ledger.set_queue(new, self._now())
        elif old is not None:
            self._ledger.remove_queue(old.key)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        seen, ledger, now = new or old, self._ledger, self._now()
        assert seen is not None
        assert ledger is not None
        admitted, finished = seen.condition(ADMITTED), seen.condition(FINISHED)
        prices = self._prices.get(seen.status.cluster_name or "")
        if new is None or not prices or admitted is None or admitted.status != "True":
            ledger.end(seen.key, now)
            return
        queues, rate = _queues(seen), hourly(prices, assigned(seen))
        since = admitted.last_transition_time if old is None else None
        if finished is None or finished.status != "True":
            ledger.charge(seen.key, rate, queues, since=since or now, now=now)
        elif not ledger.end(seen.key, now) and since is not None:
            ledger.add(rate, queues, since=since, until=finished.last_transition_time or now, now=now)


def assigned(local: Workload) -> Mapping[tuple[str, str], int]:
    """What a workload has quota for, by flavor and resource, as Kueue counts amounts."""
    if local.status.admission is None:
        return {}
    return admission_amounts(local.status.admission, {each.name: each.count for each in workload_spec(local).pod_sets})


def _queues(local: Workload) -> tuple[ObjectKey, ...]:
    admission = local.status.admission
    return (queue_of(local), *((ObjectKey("", admission.cluster_queue),) if admission is not None else ()))
