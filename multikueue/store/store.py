"""The state connected with the work queues: each change is applied, and the keys it concerns are added.

Writes under way are known, so that no reconcile is woken by its own write.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kind import Kind
from multikueue.api.kueue.queues import ClusterQueue, LabelSelector, LocalQueue
from multikueue.api.kueue.workload import FINISHED, QUOTA_RESERVED, Workload, WorkloadStatus
from multikueue.api.meta import Object, ObjectKey
from multikueue.dispatch.remote import Asked, is_won_elsewhere
from multikueue.jobs.integrations.frameworks import BATCH_ONLY, Adapters
from multikueue.quota.cache.status import check_names
from multikueue.quota.engine import Engine
from multikueue.store.caches.cache import Cache, Failed, ignore
from multikueue.store.event_handlers import concerned, triggers
from multikueue.store.event_handlers.changes import Change
from multikueue.store.event_handlers.triggers import Table, keys_after
from multikueue.store.queues import Key, Queue, WorkQueues
from multikueue.store.state import State, workers_named_by
from multikueue.store.workers.known_objects import prebuilt_key
from multikueue.store.workers.worker import FOREVER, WorkerAspect, WorkerView
from multikueue.workload.nomination.foresight import is_told_closed

__all__ = ["Store", "WorkerObserver", "Write", "Writes"]

T = TypeVar("T")

TIME_TO_ANSWER = timedelta(minutes=1)
"""How long after this process has begun to act, or has met it, a worker that it has not reached since then is not lost."""


class WorkerObserver(Protocol):
    """An observer of workers: called after a worker was met or forgotten, and after its connectivity changed."""

    def worker_met(self, worker: WorkerView) -> None: ...
    def worker_forgotten(self, worker: WorkerView) -> None: ...
    def reach_changed(self, worker: WorkerView) -> None: ...


class Store(State):
    """The state. Each change goes to the quota engine at once, and as keys to `queues`, by the table `triggers`.

    `now` is the time of a change. Other arguments: see `State`.
    """

    def __init__(
        self,
        engine: Engine,
        queues: WorkQueues,
        now: Callable[[], datetime],
        *,
        namespace: str = "kueue-system",
        adapters: Adapters = BATCH_ONLY,
        should_wait_for_pods: bool = False,
        has_elastic_jobs: bool = False,
        managed_namespaces: LabelSelector | None = None,
    ) -> None:
        super().__init__(
            now,
            queues,
            namespace=namespace,
            adapters=adapters,
            should_wait_for_pods=should_wait_for_pods,
            has_elastic_jobs=has_elastic_jobs,
            managed_namespaces=managed_namespaces,
        )
        self.engine, self._queues = engine, queues
        self._observers: list[tuple[WorkerObserver, Failed]] = []
        self._leads = True
        self._writes = Writes()
        self.workloads.follow(self._workload_changed)
        self.jobs.follow(self._job_changed)
        quota: tuple[tuple[Cache[Any], Table[Any]], ...] = (
            (self.cluster_queues, triggers.CLUSTER_QUEUE),
            (self.local_queues, triggers.LOCAL_QUEUE),
            (self.flavors, triggers.FLAVOR),
            (self.cohorts, triggers.COHORT),
            (self.checks, triggers.CHECK),
            (self.namespaces, triggers.NAMESPACE),
            (self.limit_ranges, triggers.LIMIT_RANGE),
            (self.runtime_classes, triggers.RUNTIME_CLASS),
            (self.claim_templates, triggers.CLAIM_TEMPLATE),
            (self.device_classes, triggers.DEVICE_CLASS),
        )
        for cache, rows in quota:
            cache.follow(partial(self._quota_changed, rows))
        self.configs.follow(partial(self._fleet_changed, triggers.CONFIG))
        self.clusters.follow(partial(self._fleet_changed, triggers.CLUSTER))
        self.secrets.follow(partial(self._changed, triggers.SECRET))
        self.profiles.follow(partial(self._changed, triggers.PROFILE))
        self.priority_classes.follow(partial(self._changed, triggers.PRIORITY_CLASS))
        self.local_queues.follow(self._route_changed)
        self.cluster_queues.follow(self._checks_changed)

    # The manager cluster.

    def look_at(self, queue: Queue, key: Key = "", *, is_news: bool = True) -> None:
        """Reconcile a key for a reason that no object shows."""
        self._queues.add(queue, key, is_news=is_news)

    def writing(self, key: ObjectKey | JobKey) -> Write:
        """Wraps a reconcile's write of its own object; what it is entered as applies the answer. That write does not
        wake the reconcile, which continues by itself if needed; any other change does."""
        return self._writes.under_way(key, self._look_later, self._apply)

    def _apply(self, answer: Workload | AnyJob) -> None:
        self.workloads.upsert(answer) if isinstance(answer, Workload) else self.jobs.upsert(answer)

    def _look_later(self, key: ObjectKey | JobKey) -> None:
        """Something else than its own write came meanwhile."""
        if not isinstance(key, JobKey):
            self._queues.add("workloads", key)
            return
        self._queues.add("jobs", key)
        job = self.jobs.get(key)
        for workload in self.owned(job) if job is not None else ():
            self._queues.add("workloads", workload.key)

    def source_changed(self, type_: str, location: str) -> None:
        """A kubeconfig source has changed. For a Path, which no watch reports."""
        for name in concerned.clusters_read_from(type_, location, self):
            self._queues.add("clusters", name)

    def open_jobs(self, kind: Kind[Any]) -> Cache[Any]:
        """Opens a kind of jobs that the manager cluster now serves, here and on the workers."""
        for worker in self.workers.values():
            worker.jobs.open(kind)
        return self.jobs.open(kind)

    def forget(self, key: ObjectKey) -> None:
        """The workload is gone."""
        self.ceilings.news.discard(key)
        self.ended.remove(key)
        for worker in self.workers.values():
            worker.expectations.forget(key)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self.engine.observe(old, new, self.now())
        key = _newest(old, new).key
        if new is None or new.status.cluster_name is not None:
            self.placements.forget(key)
        if old is None and new is not None:
            self._call_in(new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._remember(old)
        self._look_again(triggers.WORKLOAD, Change(old, new, is_own=self._is_held_back(key, new)))

    def _call_in(self, local: Workload) -> None:
        """The workload is new: if workers left out objects of its names, they are its own from now on."""
        owner = self.owner(local)
        names = (local.key,) if owner is None else (local.key, owner.object)
        for worker in self.workers.values():
            if worker.may_have_left_out(names):
                worker.call_in(local.key, self.now())

    def _remember(self, gone: Workload) -> None:
        """The status of a workload that is gone was the only trace of what a process before this one asked for on workers
        that have not been seen since (contract I1): a new workload of that name must wait for them."""
        if gone.has(FINISHED):
            return
        for name in set(workers_named_by(gone)):
            worker = self.workers.get(name)
            if worker is not None and not worker.link.is_known:
                worker.ask_for_job(gone.key, Asked("", self.now()))

    def _job_changed(self, old: AnyJob | None, new: AnyJob | None) -> None:
        key = self.adapters.key_of(_newest(old, new))
        self._look_again(triggers.JOB, Change(old, new, is_own=self._is_held_back(key, new)))

    def _is_held_back(self, key: ObjectKey | JobKey, new: Workload | AnyJob | None) -> bool:
        """Whether a new version may be the write that the reconcile of `key` has under way."""
        return new is not None and self._writes.should_hold_back(key, new)

    def _quota_changed(self, rows: Table[T], old: Any, new: Any) -> None:
        moved = tuple(self.engine.observe(old, new, self.now()))
        self._look_again(rows, Change(old, new, moved=moved))

    def _route_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        """Workers may lack a LocalQueue that begins to lead there."""
        if new is not None and (old is None or old.spec.cluster_queue != new.spec.cluster_queue):
            self._checks_changed(None, self.cluster_queues.get(ObjectKey("", new.spec.cluster_queue)))

    def _checks_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if new is not None and (old is None or check_names(old) != check_names(new)):
            self.closed_queues.doubt(self.clusters_for(self.queue_check(new)))

    def _fleet_changed(self, rows: Table[T], old: T | None, new: T | None) -> None:
        self.fleets.clear()
        self._look_again(rows, Change(old, new))

    def _changed(self, rows: Table[Any], old: Any, new: Any) -> None:
        self._look_again(rows, Change(old, new))

    def _look_again(self, rows: Table[T], change: Change[T]) -> None:
        for queue, key in keys_after(rows, change, self):
            self._queues.add(queue, key)

    # Workers.

    def observe(self, observer: WorkerObserver, failed: Failed = ignore) -> None:
        """Call the observer from now on. What it raises goes to `failed` and nowhere else, as in `Cache.observe`."""
        self._observers.append((observer, failed))

    def _show(self, what: Callable[[WorkerObserver], None]) -> None:
        for observer, failed in self._observers:
            try:
                what(observer)
            except Exception as error:  # noqa: BLE001  # the boundary: who looks is no part of what is done
                with suppress(Exception):
                    failed(error)

    def stand_by(self) -> None:
        """This process does not act until `lead`: no worker is lost."""
        self._leads = False
        for worker in self.workers.values():
            worker.stands_by()

    def lead(self) -> None:
        """This process acts from now on. An absence that the leader before it did not record counts from now on, and
        each worker has `TIME_TO_ANSWER`."""
        self._leads, now = True, self.now()
        for worker in self.workers.values():
            worker.leads(now, now + TIME_TO_ANSWER)

    def writes(self, key: ObjectKey, status: WorkloadStatus) -> None:
        """The status of a workload is on its way, until `wrote`."""
        self.written[key] = status

    def wrote(self, key: ObjectKey) -> None:
        self.written.pop(key, None)

    def worker(self, name: str) -> WorkerView:
        """The view of a worker, created on first use."""
        found = self.workers.get(name)
        return found if found is not None else self._meet(name)

    def _meet(self, name: str) -> WorkerView:
        worker = WorkerView(
            name,
            self._worker_changed,
            places=self._places,
            adapters=self.adapters,
            since=(now := self.now()),
            never_lost_before=now + TIME_TO_ANSWER if self._leads else FOREVER,
            known=self,
        )
        for kind in self.jobs.kinds:
            worker.jobs.open(kind)
        worker.workloads.follow(partial(self._copy_changed, worker))
        worker.jobs.follow(partial(self._remote_job_changed, worker))
        self.workers[name] = worker
        self._show(lambda observer: observer.worker_met(worker))
        return worker

    def forget_worker(self, name: str) -> bool:
        """Forget a worker without MultiKueueCluster, unless a config or workload names it, or something of ours is, or
        may be, there. Returns whether it is forgotten."""
        worker = self.workers.get(name)
        if worker is None or self.clusters.get(ObjectKey("", name)) or self.configs.by("cluster", name):
            return False
        if worker.is_in_use:
            return False
        naming = self.workloads.by("worker", name)
        if any(local.status.cluster_name == name for local in naming):
            return False
        del self.workers[name]
        self.ceilings.forget(name)
        self.closed_queues.forget_worker(name)
        self.rooms.forget_worker(name)
        self.releases.forget_worker(name)
        self.waits.forget_worker(name)
        self.fleets.clear()
        for local in naming:  # they may have waited for it
            self._queues.add("workloads", local.key)
        self._show(lambda observer: observer.worker_forgotten(worker))
        return True

    def _worker_changed(self, worker: WorkerView, aspect: WorkerAspect) -> None:
        if aspect != "silence":
            self.fleets.clear()
        self._look_again(triggers.WORKER[aspect], Change(None, None, worker=worker.name))
        if aspect == "reach":
            self._show(lambda observer: observer.reach_changed(worker))

    def _copy_changed(self, worker: WorkerView, old: Workload | None, new: Workload | None) -> None:
        """Skips changes that the plan expects. A copy that comes while a status is written is news, whatever the plan says: the
        decision under way does not know of it, and its plan takes the place of that one. So is one that goes, unless another
        worker has won by that status."""
        change = Change(old, new, worker=worker.name)
        seen = change.seen
        key = seen.key
        written = self.written.get(key) if old is None or new is None else None
        is_between = written is not None and (old is None or not is_won_elsewhere(written, worker.name))
        if is_between or not self.plans.is_expected(old, seen, worker.name, worker.expectations.is_creating(key)):
            self._look_again(triggers.COPY, change)
        told = new.condition(QUOTA_RESERVED) if new is not None else None
        if told is not None and told.status == "False" and is_told_closed(told.message):
            self.closed_queues.doubt((worker.name,))
        if new is not None and self.ceilings.heard(worker.name, new):
            self.look_at_judged(worker, new.metadata.namespace)
        self._tidy(key)

    def look_at_judged(self, worker: WorkerView, namespace: str = "") -> None:
        """Reconciles the workloads (of one namespace) whose copies the worker's Kueue can never admit."""
        for copy in worker.workloads:
            if namespace in ("", copy.metadata.namespace) and self.ceilings.is_judged(worker.name, copy):
                self.look_at("workloads", copy.key)

    def _remote_job_changed(self, worker: WorkerView, old: AnyJob | None, new: AnyJob | None) -> None:
        change = Change(old, new, worker=worker.name)
        self._look_again(triggers.REMOTE_JOB, change)
        for key in prebuilt_key(change.seen):
            self._tidy(key)

    def _tidy(self, key: ObjectKey) -> None:
        """Drops the plan of a workload that has ended, and that no worker has any more."""
        local = self.workloads.get(key)
        if (local is None or local.has(FINISHED)) and not self.places(key):
            self.plans.put(key, None)


def _newest(old: T | None, new: T | None) -> T:
    seen = new if new is not None else old
    assert seen is not None
    return seen


class Writes:
    """The versions seen since the request went out, by key of the writing reconcile.

    The watch often brings a write before its answer does. Only the answer says which version is the written one, so the
    reconcile is woken after it, if there was any other.
    """

    def __init__(self) -> None:
        self._seen: dict[ObjectKey | JobKey, set[str]] = {}

    def under_way(self, key: ObjectKey | JobKey, wake: Callable[[Any], None], apply: Callable[[Any], None]) -> Write:
        """Meanwhile `should_hold_back` collects changes of `key`. `wake` is called with it at the end if there was another
        change, or no answer came; `apply` with the answer."""
        return Write(self._seen, key, wake, apply)

    def should_hold_back(self, key: ObjectKey | JobKey, changed: Object) -> bool:
        """Whether the reconcile of `key` has a write under way, so that this version wakes it later, if at all."""
        seen = self._seen.get(key)
        if seen is not None:
            seen.add(changed.metadata.resource_version)
        return seen is not None


class Write:
    """One of them, as the context of its request: it is entered as the function that takes the answer."""

    __slots__ = ("_apply", "_by_key", "_key", "_seen", "_wake")

    def __init__(
        self,
        by_key: dict[ObjectKey | JobKey, set[str]],
        key: ObjectKey | JobKey,
        wake: Callable[[Any], None],
        apply: Callable[[Any], None],
    ) -> None:
        self._by_key, self._key, self._wake, self._apply, self._seen = by_key, key, wake, apply, set[str]()

    def __enter__(self) -> Callable[[Workload | AnyJob], None]:
        self._by_key[self._key] = self._seen
        return self._take_in

    def _take_in(self, answer: Workload | AnyJob) -> None:
        self._apply(answer)
        self._seen.discard(answer.metadata.resource_version)

    def __exit__(self, *_error: object) -> None:
        del self._by_key[self._key]
        if self._seen:
            self._wake(self._key)
