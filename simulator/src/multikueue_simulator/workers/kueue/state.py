"""The state of a simulated Kueue: caches, the quota engine behind them, and the keys that a change concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from multikueue.api import kinds
from multikueue.api.jobs.job import Job
from multikueue.api.kind import Kind
from multikueue.api.kubernetes.builtins import Namespace, PriorityClass
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.compatibility import Compatibility, Release
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    Workload,
    WorkloadStatus,
    queue_of,
)
from multikueue.api.meta import Object, ObjectKey, controller_of
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import prebuilt_name
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.reconciler.decide import resolve_priority
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.requests.devices import DeviceRules
from multikueue.runtime import WorkQueue
from multikueue.store.caches.cache import ByName, Cache
from multikueue.store.caches.slices import replaced
from multikueue_simulator.workers.kueue.job_reconciler import JobView, is_active, job_keys

__all__ = ["CYCLE", "Look", "Seen"]

T = TypeVar("T", bound=Object)

What = Literal["cycle", "workload", "job", "cluster_queue", "local_queue", "check"]


class Look(NamedTuple):
    """A key of the single work queue."""

    what: What
    key: ObjectKey = ObjectKey("", "")

    def __str__(self) -> str:
        return f"{self.what} {self.key}"


CYCLE = Look("cycle")

PLAYED: Release = "0.16"
"""The release of Kueue that is simulated (docs/compatibility.md)."""

DEVICES = DeviceRules(is_counting=False, should_refuse=False)
"""Devices that pods claim are not simulated: who claims some gets quota as if it claimed none."""


class Seen:
    """Owner: the simulated Kueue. Changed by the watches, and by the answers to its own writes.

    Each change goes to the engine at once; `queue` gets the dependent keys. `is_held_back` keeps a pending workload
    from the engine. Queues are reconciled `figures` after a change of their counts; None: not for counts.
    """

    def __init__(
        self,
        queue: WorkQueue[Look],
        *,
        now: Callable[[], datetime],
        is_held_back: Callable[[Workload], bool],
        figures: timedelta | None,
    ) -> None:
        self.engine = Engine(
            EngineRules(compatibility=Compatibility.of(PLAYED), devices=DEVICES, has_elastic_jobs=True, has_copies=True)
        )
        self._expected: dict[ObjectKey, WorkloadStatus] = {}
        self._queue, self._now, self._is_held_back, self._figures = queue, now, is_held_back, figures
        self.namespaces: Cache[Namespace] = Cache(self._namespace_changed)
        self.flavors: Cache[ResourceFlavor] = Cache(self._flavor_changed)
        self.cohorts: Cache[Cohort] = Cache(self._cohort_changed)
        self.checks: Cache[AdmissionCheck] = Cache(self._check_changed)
        self.cluster_queues: Cache[ClusterQueue] = Cache(self._cluster_queue_changed)
        self.local_queues: Cache[LocalQueue] = Cache(
            self._local_queue_changed, indexes={"cluster_queue": lambda queue: (queue.spec.cluster_queue,)}
        )
        self.classes: Cache[WorkloadPriorityClass] = Cache(self._class_changed)
        self.pod_classes: Cache[PriorityClass] = Cache(self._class_changed)
        self.workloads: Cache[Workload] = Cache(
            self._workload_changed,
            indexes={"job": job_keys, "queue": lambda workload: (queue_of(workload),), "replaces": replaced},
        )
        self.jobs: Cache[Job] = Cache(self._job_changed, indexes={"prebuilt": _prebuilt_key})

    def caches(self) -> tuple[tuple[Kind[Any], Cache[Any]], ...]:
        """The caches, each with the kind whose watch fills it."""
        return (
            (kinds.NAMESPACES, self.namespaces),
            (kinds.RESOURCE_FLAVORS, self.flavors),
            (kinds.COHORTS, self.cohorts),
            (kinds.ADMISSION_CHECKS, self.checks),
            (kinds.CLUSTER_QUEUES, self.cluster_queues),
            (kinds.LOCAL_QUEUES, self.local_queues),
            (kinds.WORKLOAD_PRIORITY_CLASSES, self.classes),
            (kinds.PRIORITY_CLASSES, self.pod_classes),
            (kinds.WORKLOADS, self.workloads),
            (kinds.JOBS, self.jobs),
        )

    # Queries.

    def owner(self, workload: Workload) -> Job | None:
        """The job that controls a workload, compared by UID."""
        owner = controller_of(workload.metadata)
        jobs = (self.jobs.get(key) for key in job_keys(workload))
        return next((job for job in jobs if job and owner and job.metadata.uid == owner.uid), None)

    def successor(self, workload: Workload) -> Workload | None:
        """The newer slice with quota that replaces this one."""
        later = self.workloads.by("replaces", workload.key)
        return next((w for w in later if w.has(QUOTA_RESERVED) and not w.has(FINISHED)), None)

    def stays(self, workload: Workload) -> str | None:
        """The cluster of the slice that this one replaces."""
        before = next(filter(None, map(self.workloads.get, replaced(workload))), None)
        return before.status.cluster_name if before is not None else None

    def view(self, job: Job) -> JobView:
        """The state of a job."""
        return JobView(
            job=job,
            owned=self.workloads.by("job", job.key),
            named=next(iter(self._named(job)), None),
            priority=partial(self._priority, job),
            flavors=ByName(self.flavors),
        )

    def _priority(self, job: Job) -> Priority | str:
        return resolve_priority(job, ByName(self.classes), ByName(self.pod_classes))

    def queues(self, workload: Workload) -> tuple[LocalQueue | None, ClusterQueue | None]:
        """The LocalQueue of a workload, and the ClusterQueue behind it."""
        local = self.local_queues.get(queue_of(workload))
        return local, self.cluster_queues.get(ObjectKey("", local.spec.cluster_queue)) if local else None

    def _named(self, job: Job) -> tuple[Workload, ...]:
        """The prebuilt workload of a job."""
        found = (self.workloads.get(key) for key in _prebuilt_key(job))
        return tuple(workload for workload in found if workload)

    # Changes.

    @contextmanager
    def expecting(self, key: ObjectKey, status: WorkloadStatus) -> Iterator[None]:
        """A block in which this status is written, so that its event causes no reconcile of the workload."""
        self._expected[key] = status
        try:
            yield
        finally:
            del self._expected[key]

    def consider(self, workload: Workload) -> None:
        """Pass a workload to the engine, unless it is held back."""
        self.engine.observe(workload, None if self._is_held_back(workload) else workload, self._now())
        self._cycle_if_worth_it()

    def _cycle_if_worth_it(self) -> None:
        now = self._now()
        due = self.engine.scheduler.next_look(now)
        if due is not None:
            self._queue.add_after(CYCLE, due - now)

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        touched = _either(old, new)
        if new is not None:
            self.consider(new)
        else:
            self.engine.observe(old, None, self._now())
            self._cycle_if_worth_it()
        if not self._is_expected(old, new):
            self._queue.add(Look("workload", touched.key))
        for key in replaced(touched):
            self._queue.add(Look("workload", key))
        if old is None or new is None or _traits(old) != _traits(new):
            named_by = (job.key for job in self.jobs.by("prebuilt", touched.key))
            for key in dict.fromkeys((*job_keys(touched), *named_by)):
                self._queue.add(Look("job", key))
        self._figures_changed(queue_of(touched))

    def _is_expected(self, old: Workload | None, new: Workload | None) -> bool:
        if old is None or new is None or _frame(old) != _frame(new):
            return False
        return self._expected.get(new.key) == new.status

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        touched = _either(old, new)
        if old is None or new is None or _job_traits(old) != _job_traits(new):
            self._queue.add(Look("job", touched.key))
            self._look_at_workloads_of(touched)
        elif is_active(old) and not is_active(new):
            # New workloads, and evicted ones with quota, wait until the job's pods are gone.
            self._queue.add(Look("job", touched.key))
            self._look_at_workloads_of(touched)

    def _look_at_workloads_of(self, job: Job) -> None:
        for key in dict.fromkeys(w.key for w in (*self.workloads.by("job", job.key), *self._named(job))):
            self._queue.add(Look("workload", key))

    def _cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        name = _either(old, new).metadata.name
        self.engine.observe(old, new, self._now())
        if _is_news(old, new):
            self._queues_changed([name])

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        touched = _either(old, new)
        self.engine.observe(old, new, self._now())
        if _is_news(old, new):
            self._local_queue_touched(touched.key)
            self._queue.add(Look("cluster_queue", ObjectKey("", touched.spec.cluster_queue)))

    def _flavor_changed(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        self.engine.observe(old, new, self._now())
        self._all_queues_changed()
        for job in self.jobs if old is None else ():
            self._queue.add(Look("job", job.key))

    def _cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        self.engine.observe(old, new, self._now())
        self._all_queues_changed()

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        touched = _either(old, new)
        self.engine.observe(old, new, self._now())
        self._queue.add(Look("check", touched.key))
        self._all_queues_changed()

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        self.engine.observe(old, new, self._now())
        self._cycle_if_worth_it()

    def _class_changed(self, _old: Object | None, _new: Object | None) -> None:
        for job in self.jobs:
            self._queue.add(Look("job", job.key))

    def _all_queues_changed(self) -> None:
        self._queues_changed(queue.metadata.name for queue in self.cluster_queues)

    def _queues_changed(self, names: Iterable[str]) -> None:
        for name in names:
            self._queue.add(Look("cluster_queue", ObjectKey("", name)))
            for queue in self.local_queues.by("cluster_queue", name):
                self._local_queue_touched(queue.key)
        self._cycle_if_worth_it()

    def _local_queue_touched(self, key: ObjectKey) -> None:
        self._queue.add(Look("local_queue", key))
        for workload in self.workloads.by("queue", key):
            self._queue.add(Look("workload", workload.key))
        self._cycle_if_worth_it()

    def _figures_changed(self, key: ObjectKey) -> None:
        queue = self.local_queues.get(key)
        if queue is not None and self._figures is not None:
            self._queue.add_after(Look("local_queue", key), self._figures)
            self._queue.add_after(Look("cluster_queue", ObjectKey("", queue.spec.cluster_queue)), self._figures)


def _either(old: T | None, new: T | None) -> T:
    touched = new or old
    assert touched is not None
    return touched


def _prebuilt_key(job: Job) -> Iterable[ObjectKey]:
    name = prebuilt_name(job)
    return (ObjectKey(job.metadata.namespace, name),) if name else ()


def _frame(workload: Workload) -> tuple[object, ...]:
    """All fields but the status."""
    meta = workload.metadata
    return meta.uid, meta.generation, meta.deletion_timestamp is None, meta.finalizers, meta.owner_references


def _traits(workload: Workload) -> tuple[object, ...]:
    """The fields of a workload that its job depends on."""
    meta, owner = workload.metadata, controller_of(workload.metadata)
    states = tuple(workload.has(type_) for type_ in (ADMITTED, EVICTED, FINISHED, QUOTA_RESERVED))
    return states, meta.generation, meta.deletion_timestamp is None, meta.finalizers, owner.uid if owner else ""


def _job_traits(job: Job) -> tuple[object, ...]:
    """The fields of a job that Kueue reads, except counts of ended pods."""
    meta = job.metadata
    state = (BATCH_JOB.reclaimable(job), BATCH_JOB.finished(job))
    return meta.generation, meta.deletion_timestamp is None, meta.labels, meta.annotations, state


def _is_news(old: Object | None, new: Object | None) -> bool:
    """Whether more than the status changed."""
    if old is None or new is None:
        return True
    leaving = (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
    return leaving or old.metadata.generation != new.metadata.generation or old.metadata.uid != new.metadata.uid
