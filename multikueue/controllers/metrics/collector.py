"""Metrics that are read from the state of the process at a scrape, in one file: queues, quota, workers, work to do.

Nothing is kept up to date for them, so they cost nothing between scrapes. `collect` runs on the event loop, where the
state holds still, from one family to the next; `telemetry.metrics.Metrics.render` turns the result into text, in a thread.

Metrics of quota have Kueue's names and meaning (quota-engine 7), and are absent where Kueue gives the quota.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Iterator
from math import nan

import anyio.lowlevel
import msgspec
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from multikueue import __version__
from multikueue.api.jobs.job import JobKey
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue
from multikueue.api.meta import ObjectKey, find_condition
from multikueue.api.multikueue.clusters import FLEET_LABEL, IN_FLEET
from multikueue.api.values import quantity
from multikueue.controllers.metrics.unadmitted import Unadmitted
from multikueue.controllers.reconcile.context import WorkQueues
from multikueue.dispatch.remote import Reach
from multikueue.quota.cache.reservations import QueueUsage
from multikueue.quota.cache.shares import Share
from multikueue.quota.cache.tree import FlavorResource
from multikueue.runtime import WorkQueue
from multikueue.store.store import Store
from multikueue.telemetry.metrics import MANAGER, outbox_of

Families = Iterator[Metric]


class StateCollector(msgspec.Struct, frozen=True, kw_only=True):
    """Collects the metrics. `finished` has the number of existing finished workloads by LocalQueue, and `unadmitted` those that
    are not admitted yet, from the observer.

    `has_quota`: the process gives quota. `has_resources` turns on the metrics per flavor and resource, as Kueue's
    `metrics.enableClusterQueueResources`; `has_local_queues` those per LocalQueue.
    """

    store: Store
    queues: WorkQueues
    finished: Counter[ObjectKey] = msgspec.field(default_factory=Counter)
    unadmitted: Counter[Unadmitted] = msgspec.field(default_factory=Counter)
    has_quota: bool = True
    has_resources: bool = False
    has_local_queues: bool = False

    async def gather(self) -> tuple[Metric, ...]:
        """All metrics. Other tasks have a turn after each family: those of a thousand workers take a tenth of a second."""
        families: list[Metric] = []
        for family in self.collect():
            families.append(family)
            await anyio.lowlevel.checkpoint()
        return tuple(families)

    def collect(self) -> Families:
        yield from self._workers()
        yield from self._fleet()
        yield from self._work()
        yield self._unreadable()
        yield self._refused()
        yield self._parked()
        yield _build()
        if self.has_quota:
            yield from self._cluster_queues()
            yield from self._shares()
            yield from self._spends()
            if self.store.engine.rules.reasons.is_granular:
                yield from self._unadmitted()
            if self.has_local_queues:
                yield from self._local_queues()

    def _unreadable(self) -> Metric:
        family = GaugeMetricFamily(
            "multikueue_objects_unreadable", "Objects that cannot be read or taken in", labels=("cluster", "kind")
        )
        for cluster, kind, cache in self.store.caches():
            family.add_metric((cluster or MANAGER, kind.name), len(cache.unreadable))
        return family

    def _refused(self) -> Metric:
        family = GaugeMetricFamily(
            "multikueue_writes_refused",
            "Writes that an API server refuses, or does not answer, again and again",
            labels=("cluster", "what"),
        )
        for (what, cluster), number in sorted(self.store.refusals.count(self.store.now()).items()):
            family.add_metric((cluster or MANAGER, what), number)
        return family

    def _parked(self) -> Metric:
        family = GaugeMetricFamily(
            "multikueue_workloads_fitting_no_worker", "Workloads that no worker could ever hold, as its own Kueue says"
        )
        family.add_metric((), len(self.store.parked()))
        return family

    # Workers and work.

    def _workers(self) -> Families:
        reachability = GaugeMetricFamily(
            "multikueue_cluster_reachability",
            "1 for the state of a worker: connected, suspect or isolated",
            labels=("cluster", "status"),
        )
        # Kueue 0.20 has a metric of this name with other labels.
        status = GaugeMetricFamily(
            "multikueue_cluster_status",
            "Deprecated, removed in the next release: multikueue_cluster_reachability",
            labels=("cluster", "status"),
        )
        away = GaugeMetricFamily(
            "multikueue_cluster_unreachable_seconds", "How long a worker has been out of reach", labels=("cluster",)
        )
        expiry = GaugeMetricFamily(
            "multikueue_cluster_credential_expiry_timestamp_seconds",
            "When the credential for a worker ends, if it has an end",
            labels=("cluster",),
        )
        copies = GaugeMetricFamily("multikueue_copies", "Copies of ours on a worker, as last seen", labels=("cluster",))
        jobs = GaugeMetricFamily(
            "multikueue_remote_jobs", "Jobs of ours on a worker, as last seen", labels=("cluster",)
        )
        limit = GaugeMetricFamily(
            "multikueue_cluster_concurrency",
            "How many workloads may be written to a worker at a time, learned from its answers",
            labels=("cluster",),
        )
        for name, value in self.queues.limits.items():
            limit.add_metric((name,), value())
        reading = CounterMetricFamily(
            "multikueue_cluster_reading_seconds",
            "Time of the event loop for what a worker sends: parsed, decoded and taken in",
            labels=("cluster",),
        )
        waiting = CounterMetricFamily(
            "multikueue_cluster_reading_waited_seconds",
            "Time in which what a worker sends had to wait, as it had used up its share of the event loop",
            labels=("cluster",),
        )
        for name, share in self.queues.shares.items():
            reading.add_metric((name,), share.seconds)
            waiting.add_metric((name,), share.stood)
        for cluster in self.store.clusters:
            name = cluster.metadata.name
            worker = self.store.worker(name)
            for reach in Reach:
                for family in (reachability, status):
                    family.add_metric((name, reach.value), worker.link.reach is reach)
            since = worker.link.since
            away.add_metric((name,), (self.store.now() - since).total_seconds() if since else 0)
            if worker.expires is not None:
                expiry.add_metric((name,), worker.expires.timestamp())
            copies.add_metric((name,), len(worker.workloads))
            jobs.add_metric((name,), len(worker.jobs))
        yield from (reachability, status, away, expiry, limit, reading, waiting, copies, jobs)
        yield from self._told_by_workers()

    def _told_by_workers(self) -> Families:
        """What is read of workers for strategies alone: nothing where none of them asks for it."""
        room = GaugeMetricFamily(
            "multikueue_cluster_room",
            "Quota of a worker's queues, where a strategy reads their room: nominal, used, and free of their own",
            labels=("cluster", "flavor", "resource", "quota"),
        )
        for worker in self.store.rooms.known():
            for fr, total in worker.total().items():
                for what, amount in (("nominal", total.nominal), ("used", total.used), ("free", total.free)):
                    room.add_metric((worker.name, *fr, what), _amount(fr, amount))
        release = GaugeMetricFamily(
            "multikueue_cluster_kueue_release",
            "1 for the release of Kueue on a worker, where a strategy reads it",
            labels=("cluster", "release"),
        )
        for name, each in self.store.workers.items():
            if each.kueue:
                release.add_metric((name, each.kueue), 1)
        yield from (room, release)

    def _fleet(self) -> Families:
        """Nothing where no worker follows an inventory."""
        ours = [each for each in self.store.clusters if FLEET_LABEL in each.metadata.labels]
        if not ours:
            return
        told = Counter(
            condition.reason for each in ours if (condition := find_condition(each.status.conditions, IN_FLEET))
        )
        family = GaugeMetricFamily(
            "multikueue_fleet_workers",
            "Workers that follow an inventory of clusters: all, and those that leave it or are held back from that",
            labels=("state",),
        )
        for state, number in (("all", len(ours)), ("leaving", told["Leaving"]), ("held", told["Held"])):
            family.add_metric((state,), number)
        yield family

    def _work(self) -> Families:
        depth = GaugeMetricFamily(
            "multikueue_work_queue_depth",
            "Keys in a work queue: waiting, delayed (due later), processing, failing (failed when last looked at)",
            labels=("controller", "state"),
        )
        taken = CounterMetricFamily("multikueue_reconciles", "Reconciles that began", labels=("controller",))
        for name, queue in self._named_queues():
            found = queue.depth()
            depth.add_metric((name, "waiting"), sum(found.waiting))
            depth.add_metric((name, "delayed"), found.delayed)
            depth.add_metric((name, "processing"), found.processing)
            depth.add_metric((name, "failing"), found.failing)
            taken.add_metric((name,), found.taken)
        yield from (depth, taken)

    def _named_queues(self) -> Iterable[tuple[str, WorkQueue[ObjectKey] | WorkQueue[JobKey] | WorkQueue[str]]]:
        queues = self.queues
        yield "workloads", queues.workloads
        yield "jobs", queues.jobs
        yield "checks", queues.checks
        yield "flavors", queues.flavors
        yield "clusters", queues.clusters
        yield "ceilings", queues.ceilings
        yield "capacity", queues.capacity
        yield "cluster queues", queues.cluster_queues
        yield "local queues", queues.local_queues
        yield "cohorts", queues.cohorts
        for cluster, queue in queues.outboxes.items():
            yield outbox_of(cluster), queue

    # ClusterQueues.

    def _cluster_queues(self) -> Families:
        pending = _gauge("pending_workloads", "Workloads that wait for quota", "cluster_queue", "status")
        finished = _gauge("finished_workloads", "Finished workloads that are still there", "cluster_queue")
        reserving = _gauge("reserving_active_workloads", "Workloads that hold quota", "cluster_queue")
        admitted = _gauge("admitted_active_workloads", "Admitted workloads that are not finished", "cluster_queue")
        status = _gauge(
            "cluster_queue_status", "1 for its state: pending, active, terminating", "cluster_queue", "status"
        )
        finished_in = self._finished_by_cluster_queue()
        for queue in self.store.cluster_queues:
            name = queue.metadata.name
            ready, parked = self.store.engine.view.waiting(name)
            queue_usage = self.store.engine.view.queue_usage(name)
            pending.add_metric((name, "active"), ready)
            pending.add_metric((name, "inadmissible"), parked)
            finished.add_metric((name,), finished_in[name])
            reserving.add_metric((name,), queue_usage.reserving)
            admitted.add_metric((name,), queue_usage.admitted)
            state = self._state_of(queue)
            for each in ("pending", "active", "terminating"):
                status.add_metric((name, each), each == state)
        yield from (pending, finished, reserving, admitted, status)
        if self.has_resources:
            yield from self._resources()

    def _shares(self) -> Families:
        """Weighted shares, which exist only under fair sharing."""
        view = self.store.engine.view
        queues = _gauge("cluster_queue_weighted_share", "Weighted share; NaN without bound", "cluster_queue", "cohort")
        cohorts = _gauge("cohort_weighted_share", "Weighted share; NaN without bound", "cohort")
        for queue in self.store.cluster_queues:
            if (share := view.queue_share(queue.metadata.name)) is not None:
                queues.add_metric((queue.metadata.name, queue.spec.cohort_name), _precise(share))
        for cohort in self.store.cohorts:
            if (share := view.cohort_share(cohort.metadata.name)) is not None:
                cohorts.add_metric((cohort.metadata.name,), _precise(share))
        yield from (family for family in (queues, cohorts) if family.samples)

    def _spends(self) -> Families:
        """What queues have spent, once a worker has prices."""
        labels = ("queue", "namespace")
        spent = GaugeMetricFamily(
            "multikueue_queue_spent", "What a queue spent of late; old money counts less", labels=labels
        )
        limit = GaugeMetricFamily("multikueue_queue_spend_limit", "What a queue may have spent", labels=labels)
        for queue in (*self.store.cluster_queues, *(self.store.local_queues if self.has_local_queues else ())):
            account, where = self.store.spends.account(queue.key), (queue.metadata.name, queue.metadata.namespace)
            if account is not None:
                spent.add_metric(where, account.spent_by(self.store.now()))
                if account.limit.most is not None:
                    limit.add_metric(where, account.limit.most)
        yield from (family for family in (spent, limit) if family.samples)

    def _unadmitted(self) -> Families:
        """Workloads that are not admitted, of LocalQueues that there are, though their ClusterQueue may be missing."""
        labels = ("cluster_queue", "reason", "underlying_cause")
        queues = _gauge("unadmitted_workloads", "Workloads that are not admitted, by why", *labels)
        local_queues = _gauge(
            "local_queue_unadmitted_workloads", "Workloads that are not admitted, by why", "name", "namespace", *labels
        )
        by_cluster_queue: Counter[tuple[str, str, str]] = Counter()
        for (key, reason, cause), count in self.unadmitted.items():
            if local := self.store.local_queues.get(key):
                why = (local.spec.cluster_queue, reason, cause)
                by_cluster_queue[why] += count
                local_queues.add_metric((key.name, key.namespace, *why), count)
        for why, count in by_cluster_queue.items():
            queues.add_metric(why, count)
        yield queues
        if self.has_local_queues:
            yield local_queues

    def _finished_by_cluster_queue(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for key, count in self.finished.items():
            if local := self.store.local_queues.get(key):
                found[local.spec.cluster_queue] += count
        return found

    def _state_of(self, queue: ClusterQueue) -> str:
        if queue.metadata.deletion_timestamp is not None:
            return "terminating"
        return "active" if self.store.engine.view.is_active(queue.metadata.name) else "pending"

    def _resources(self) -> Families:
        labels = ("cohort", "cluster_queue", "flavor", "resource")
        nominal = _gauge("cluster_queue_nominal_quota", "Nominal quota", *labels)
        borrowing = _gauge("cluster_queue_borrowing_limit", "Borrowing limit; 0 if there is none", *labels)
        lending = _gauge("cluster_queue_lending_limit", "Lending limit; 0 if there is none", *labels)
        reservation = _gauge("cluster_queue_resource_reservation", "What is reserved", *labels)
        usage = _gauge("cluster_queue_resource_usage", "What admitted workloads use", *labels)
        for queue in self.store.cluster_queues:
            queue_usage = self.store.engine.view.queue_usage(queue.metadata.name)
            for fr, quota in self.store.engine.view.quotas(queue.metadata.name).items():
                where = (queue.spec.cohort_name, queue.metadata.name, *fr)
                nominal.add_metric(where, _amount(fr, quota.nominal))
                borrowing.add_metric(where, _amount(fr, quota.borrowing_limit or 0))
                lending.add_metric(where, _amount(fr, quota.lending_limit or 0))
                reservation.add_metric(where, _amount(fr, queue_usage.reservation.get(fr, 0)))
                usage.add_metric(where, _amount(fr, queue_usage.usage.get(fr, 0)))
        yield from (nominal, borrowing, lending, reservation, usage)

    # LocalQueues.

    def _local_queues(self) -> Families:
        labels = ("name", "namespace")
        pending = _gauge("local_queue_pending_workloads", "Workloads that wait for quota", *labels, "status")
        finished = _gauge("local_queue_finished_workloads", "Finished workloads that are still there", *labels)
        reserving = _gauge("local_queue_reserving_active_workloads", "Workloads that hold quota", *labels)
        admitted = _gauge("local_queue_admitted_active_workloads", "Admitted workloads that are not finished", *labels)
        status = _gauge("local_queue_status", "1 for whether it is active: True, False, Unknown", *labels, "active")
        reservation = _gauge("local_queue_resource_reservation", "What is reserved", *labels, "flavor", "resource")
        usage = _gauge("local_queue_resource_usage", "What admitted workloads use", *labels, "flavor", "resource")
        waiting = self._waiting()
        for queue in self.store.local_queues:
            where = (queue.metadata.name, queue.metadata.namespace)
            queue_usage = self.store.engine.view.local_queue_usage(queue.key)
            for state, counts in waiting.items():
                pending.add_metric((*where, state), counts[queue.key])
            finished.add_metric(where, self.finished[queue.key])
            reserving.add_metric(where, queue_usage.reserving)
            admitted.add_metric(where, queue_usage.admitted)
            active = find_condition(queue.status.conditions, ACTIVE)
            for each in ("True", "False", "Unknown"):
                status.add_metric((*where, each), each == (active.status if active else "Unknown"))
            if self.has_resources:
                self._local_resources(queue, queue_usage, (reservation, usage))
        yield from (pending, finished, reserving, admitted, status)
        if self.has_resources:
            yield from (reservation, usage)

    def _waiting(self) -> dict[str, Counter[ObjectKey]]:
        found: dict[str, Counter[ObjectKey]] = {"active": Counter(), "inadmissible": Counter()}
        for queue in self.store.cluster_queues:
            ready, parked = self.store.engine.view.waiting_by_local_queue(queue.metadata.name)
            found["active"] += ready
            found["inadmissible"] += parked
        return found

    def _local_resources(
        self, queue: LocalQueue, queue_usage: QueueUsage, families: tuple[GaugeMetricFamily, GaugeMetricFamily]
    ) -> None:
        for fr in self.store.engine.view.quotas(queue.spec.cluster_queue):
            for family, amounts in zip(families, (queue_usage.reservation, queue_usage.usage), strict=True):
                where = (queue.metadata.name, queue.metadata.namespace, *fr)
                family.add_metric(where, _amount(fr, amounts.get(fr, 0)))


def _precise(share: Share) -> float:
    return nan if share.is_unbounded else share.value


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kueue_{name}", text, labels=labels)


def _amount(fr: FlavorResource, amount: int) -> float:
    """The amount in units of `api.values.quantity.scale`: cores for cpu."""
    return amount / quantity.scale(fr[1])


def _build() -> Metric:
    family = GaugeMetricFamily("multikueue_build_info", "1; the labels say what runs", labels=("version", "python"))
    family.add_metric((__version__, platform.python_version()), 1)
    return family
