"""The manager's side of what we know, and the questions that need both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

from multikueue import strategy as contract
from multikueue.api import kinds
from multikueue.api.core import LimitRange, Namespace, PriorityClass, RuntimeClass, Secret
from multikueue.api.job import AnyJob, JobKey
from multikueue.api.kinds import POD_GROUPS, Kind
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.multikueue import (
    CONTROLLER_NAME,
    AdmissionCheck,
    ClusterProfile,
    MultiKueueCluster,
    MultiKueueConfig,
)
from multikueue.api.pod import PodGroup
from multikueue.api.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    Finish,
    Workload,
    owner_of,
    queue_of,
    workload_spec,
)
from multikueue.dispatch.group import Fleet
from multikueue.dispatch.question import may_be_on
from multikueue.jobs.adapter import Adapter, stays
from multikueue.jobs.nesting import is_whole
from multikueue.jobs.placement import failed_start
from multikueue.jobs.pod_members import able
from multikueue.jobs.table import BATCH_ONLY, Adapters
from multikueue.jobs.workloads import is_of_group, is_owned
from multikueue.quota.cache.status import check_names, flavor_names
from multikueue.quota.engine import Engine
from multikueue.store.cache import ByName, Cache, Indexer
from multikueue.store.jobs import JobCaches
from multikueue.store.nesting import CONTROLLER, Nesting, controllers
from multikueue.store.placements import PLACEMENT_ANNOTATION, Placements, named
from multikueue.store.plans import Plans
from multikueue.store.runtimes import Runtimes
from multikueue.store.slices import Slices, replaced
from multikueue.store.worker import Places, WorkerView
from multikueue.store.writes import Writes

T = TypeVar("T")

ANNOTATIONS = "multikueue.dev/"
"""What all our annotations begin with."""

CLUSTERS_ANNOTATION = "multikueue.dev/clusters"
"""On a MultiKueueConfig: more cluster names, comma separated, beyond the 20 that its spec may hold."""

CLUSTER_UID_ANNOTATION = "multikueue.dev/cluster-uid"
"""On a MultiKueueCluster: the UID of the namespace kube-system of the cluster that its name stands for."""

CORDON_ANNOTATION = "multikueue.dev/cordon"
"""On a MultiKueueCluster: `true` keeps new workloads away from it."""


class Touched(Protocol):
    """Who must look again. Each call only notes a key."""

    def workload(self, key: ObjectKey) -> None: ...
    def job(self, key: JobKey) -> None: ...
    def queue(self, cluster_queue: str, local_queue: ObjectKey | None) -> None: ...
    def cohort(self, name: str) -> None: ...
    def check(self, name: str) -> None: ...
    def flavor(self, name: str) -> None: ...
    def cluster(self, name: str) -> None: ...
    def admission(self) -> None: ...


def _owner_uid(workload: Workload) -> Iterable[str]:
    owner = owner_of(workload)
    return (owner.uid,) if owner else ()


def _check_names(workload: Workload) -> Iterable[str]:
    return () if workload.has(FINISHED) else (c.name for c in workload.status.admission_checks)


def _named(workload: Workload) -> Iterable[ObjectKey | str]:
    """The LocalQueue and the priority class that an unfinished workload names, by one look into its spec."""
    if workload.has(FINISHED):
        return
    spec = workload_spec(workload)
    yield ObjectKey(workload.metadata.namespace, spec.queue_name)
    if spec.priority_class_ref is not None:
        yield spec.priority_class_ref.name


class Observer(Protocol):
    """Who only looks on: told of each worker that is met or forgotten, and of each that came or went."""

    def worker_met(self, worker: WorkerView) -> None: ...
    def worker_forgotten(self, worker: WorkerView) -> None: ...
    def reach_changed(self, worker: WorkerView) -> None: ...


class Store:
    """Owner: the manager. Caches are filled by the manager cluster's watches; `workers` by each worker's connection.

    Each change is passed on to the quota engine at once and to `touched` as keys. `now` is the time of the change.
    `namespace` is ours, in which Placements are looked for unless named with another. `adapters` are the kinds of jobs in use.
    With `minds_pods` a workload is touched when the pods of its job become ready or cease to be. With `elastic` jobs may
    change their size while they run; without, nothing of theirs is looked at.
    """

    def __init__(
        self,
        engine: Engine,
        touched: Touched,
        now: Callable[[], datetime],
        *,
        namespace: str = "kueue-system",
        adapters: Adapters = BATCH_ONLY,
        minds_pods: bool = False,
        elastic: bool = False,
    ) -> None:
        self.engine, self.touched, self.now, self.namespace, self.adapters = engine, touched, now, namespace, adapters
        self._minds_pods = minds_pods
        self.placements = Placements(lambda key: self.touched.workload(key), now)
        self.observers: list[Observer] = []
        self.workers: dict[str, WorkerView] = {}
        self._places = Places()
        self._writes = Writes()
        self.fleets: dict[tuple[str, str, str], Fleet] = {}
        """What `Views` has found out about MultiKueueConfigs, kinds and namespaces, until something of it changes."""
        self.jobs = JobCaches(
            adapters, self._job_changed, touch=lambda key: self.touched.job(key), indexes={CONTROLLER: controllers}
        )
        self.nesting = Nesting(adapters, self.jobs, self._is_admitted)
        self.runtimes = Runtimes(adapters, self.jobs, lambda key: self.touched.job(key))
        slicing: dict[str, Indexer[Workload]] = {"replaces": replaced} if elastic else {}
        self.workloads: Cache[Workload] = Cache(
            self._workload_changed, indexes={"owner": _owner_uid, "check": _check_names, "named": _named, **slicing}
        )
        self.plans = Plans(self.workloads)
        self.slices: Slices | None = Slices(self.workloads) if elastic else None
        """How the workloads of elastic jobs are joined; None: there are no elastic jobs."""
        self.cluster_queues: Cache[ClusterQueue] = Cache(
            self._cluster_queue_changed, indexes={"flavor": flavor_names, "check": check_names}
        )
        self.local_queues: Cache[LocalQueue] = Cache(
            self._local_queue_changed, indexes={"cluster_queue": lambda q: (q.spec.cluster_queue,)}
        )
        self.flavors: Cache[ResourceFlavor] = Cache(self._flavor_changed)
        self.cohorts: Cache[Cohort] = Cache(self._cohort_changed)
        self.checks: Cache[AdmissionCheck] = Cache(self._check_changed, indexes={"config": config_of})
        self.configs: Cache[MultiKueueConfig] = Cache(self._config_changed, indexes={"cluster": clusters_of})
        self.clusters: Cache[MultiKueueCluster] = Cache(
            self._cluster_changed, indexes={"source": source_of, "file": _file_of, "uid": _uid_of}
        )
        self.secrets: Cache[Secret] = Cache(self._secret_changed)
        self.profiles: Cache[ClusterProfile] = Cache(self._profile_changed)
        self.namespaces: Cache[Namespace] = Cache(self._namespace_changed)
        self.priority_classes: Cache[WorkloadPriorityClass] = Cache(self._priority_class_changed)
        self.pod_priority_classes: Cache[PriorityClass] = Cache()
        self.limit_ranges: Cache[LimitRange] = Cache(self._limit_range_changed)
        self.runtime_classes: Cache[RuntimeClass] = Cache(self._runtime_class_changed)

    # Questions.

    def worker(self, name: str) -> WorkerView:
        """The view of a worker, made on first use."""
        if name not in self.workers:
            worker = WorkerView(
                name,
                self._remote_changed,
                self._remote_job_changed,
                self._remote_pods_changed,
                settled=self._is_settled,
                places=self._places,
                adapters=self.adapters,
                since=self.now(),
            )
            for kind in self.jobs.kinds:
                worker.jobs.open(kind)
            self.workers[name] = worker
            for observer in self.observers:
                observer.worker_met(worker)
        return self.workers[name]

    def forget_worker(self, name: str) -> bool:
        """Forget a worker that has no MultiKueueCluster, unless something names it or is, or may be, there."""
        worker = self.workers.get(name)
        if worker is None or self.clusters.get(ObjectKey("", name)) or self.configs.by("cluster", name):
            return False
        if worker.held() or worker.asked or worker.creating:
            return False
        if any(local.status.cluster_name == name and not local.has(FINISHED) for local in self.workloads):
            return False
        del self.workers[name]
        self.fleet_changed()
        for observer in self.observers:
            observer.worker_forgotten(worker)
        return True

    def may_be_on(self, name: str) -> bool:
        """Whether something of a workload may be on a worker that was not seen since this process began."""
        return any(not local.has(FINISHED) and may_be_on(local, name) for local in self.workloads)

    def open_jobs(self, kind: Kind[Any]) -> Cache[Any]:
        """The manager cluster has that kind of jobs: from now on there are such jobs, here and on the workers."""
        for worker in self.workers.values():
            worker.jobs.open(kind)
        return self.jobs.open(kind)

    def owner(self, workload: Workload) -> JobKey | None:
        """The key of the job that owns a workload."""
        owner = owner_of(workload)
        if owner is None and is_of_group(workload):
            return JobKey(POD_GROUPS.name, *workload.key)
        adapter = self.adapters.owner(owner.api_version, owner.kind) if owner else None
        return JobKey(adapter.kind.name, workload.metadata.namespace, owner.name) if owner and adapter else None

    def runs_here(self, job: AnyJob) -> bool:
        """Whether a job has pods on the manager cluster, or may have, or still says where it had: it is none of those that
        are dispatched. Started from there, it could not go where another flavor wants it."""
        adapter = self.adapters.of(job)
        if placed_for(adapter, job):
            return True
        if adapter.unmanaged_reason(job) is None:
            return False
        return adapter.is_active(job) or not adapter.is_suspended(job)

    def failed_start(self, workload: Workload, job: AnyJob) -> Finish | None:
        """The end of a workload whose job was to run on the manager cluster and never can; None if nothing is wrong."""
        adapter = self.adapters.of(job)
        if adapter.placing is None or not workload.has(ADMITTED):
            return None
        patch, dispatched = adapter.start_patch(job), self.multikueue_check(workload) is not None
        if patch is None or not stays(adapter, job, workload, dispatched=dispatched):
            return None
        if job.metadata.deletion_timestamp is not None or not adapter.matches(job, workload):
            return None
        return failed_start(job, patch, adapter.placing, workload, ByName(self.flavors))

    def owned(self, job: AnyJob) -> tuple[Workload, ...]:
        if isinstance(job, PodGroup):
            found = self.workloads.get(job.key)
            return (found,) if found is not None and is_owned(found, job) else ()
        return self.workloads.by("owner", job.metadata.uid)

    def _is_admitted(self, job: AnyJob) -> bool:
        return any(workload.has(ADMITTED) for workload in self.owned(job))

    def local_job(self, workload: Workload) -> AnyJob | None:
        """The job that owns a workload, if it is the very one and not a later job of the same name."""
        key, owner = self.owner(workload), owner_of(workload)
        job = self.jobs.get(key) if key else None
        if isinstance(job, PodGroup):
            return job
        return job if job and owner and job.metadata.uid == owner.uid else None

    def with_job(self, key: ObjectKey) -> Iterator[str]:
        """The workers that hold a job of ours for that workload."""
        return (name for name in self.places(key) if self.workers[name].job_of(key) is not None)

    def places(self, key: ObjectKey) -> tuple[str, ...]:
        """The workers that have something to do with a workload by themselves."""
        return self._places.of(key, lambda name: name in self.workers and self.workers[name].concerns(key))

    def multikueue_check(self, workload: Workload) -> AdmissionCheck | None:
        """The first of the workload's checks that is ours (contract 3.1 E2)."""
        checks = (self.checks.get(ObjectKey("", c.name)) for c in workload.status.admission_checks)
        return next((c for c in checks if c and c.spec.controller_name == CONTROLLER_NAME), None)

    def queue_check(self, queue: ClusterQueue) -> AdmissionCheck | None:
        """The MultiKueue check of a ClusterQueue."""
        rules = queue.spec.admission_checks_strategy.admission_checks
        checks = (self.checks.get(ObjectKey("", rule.name)) for rule in rules)
        return next((c for c in checks if c and c.spec.controller_name == CONTROLLER_NAME), None)

    def uses_multikueue(self, namespace: str, queue: str) -> bool | None:
        """Whether jobs of a LocalQueue are dispatched; None if the queue or its ClusterQueue does not exist."""
        local = self.local_queues.get(ObjectKey(namespace, queue))
        cluster_queue = self.cluster_queues.get(ObjectKey("", local.spec.cluster_queue)) if local else None
        return None if cluster_queue is None else self.queue_check(cluster_queue) is not None

    def nobody_dispatches(self, queue: ObjectKey, workloads: Iterable[Workload]) -> bool:
        """Whether a job surely goes to no worker: neither where its workloads have quota, nor, as long as none has any,
        where its LocalQueue leads, is there a MultiKueue check."""
        local = self.local_queues.get(queue)
        holding = {w.status.admission.cluster_queue for w in workloads if w.status.admission is not None}
        names = holding or ({local.spec.cluster_queue} if local is not None else set())
        return bool(names) and all(self._is_without_check(name) for name in names)

    def _is_without_check(self, cluster_queue: str) -> bool:
        """False as well while the queue, or a check of it, is not there: it may be one of ours."""
        queue = self.cluster_queues.get(ObjectKey("", cluster_queue))
        known = queue is not None and all(self.checks.get(ObjectKey("", name)) for name in check_names(queue))
        return queue is not None and known and self.queue_check(queue) is None

    def clusters_for(self, check: AdmissionCheck | None) -> tuple[str, ...]:
        """The cluster names of a check's MultiKueueConfig, in its order."""
        name = next(iter(config_of(check)), "") if check else ""
        config = self.configs.get(ObjectKey("", name))
        return clusters_of(config) if config else ()

    def placement_for(
        self, local: Workload, *, option: str = "", by_workload: bool = False
    ) -> contract.Placement | None:
        """The Placement named for a workload as its strategy sees it, None if none is; it hears of changes from now on.

        The most specific name counts: workload and job if they may name one (`by_workload`), LocalQueue, ClusterQueue,
        AdmissionCheck, the strategy's option.
        """
        check = self.multikueue_check(local)
        queue = self.local_queues.get(queue_of(local))
        cluster_queue = self.cluster_queues.get(ObjectKey("", queue.spec.cluster_queue)) if queue else None
        own = (local, self.local_job(local)) if by_workload else ()
        givers = (*own, queue, cluster_queue, check)
        wanted = named(givers, option=option, namespace=self.namespace)
        return self.placements.view(local.key, wanted, self.clusters_for(check))

    def names_placement(self, local: Workload) -> bool:
        """Whether a workload or its job names the Placement it wants to follow."""
        givers = (local, self.local_job(local))
        return any(giver is not None and PLACEMENT_ANNOTATION in giver.metadata.annotations for giver in givers)

    def forget(self, key: ObjectKey) -> None:
        """The workload is gone."""
        for worker in self.workers.values():
            worker.conflicts.pop(key, None)
            worker.read.pop(key, None)

    def may_run_beside(self, key: ObjectKey, name: str) -> Iterator[str]:
        """The other workers that hold the job of a workload, or may."""
        return (n for n in self.places(key) if n != name and self.workers[n].may_run(key))

    def caches(self) -> Iterator[tuple[str, Kind[Any], Cache[Any]]]:
        """All there are, each with its cluster (empty: the manager's) and kind."""
        own: tuple[tuple[Kind[Any], Cache[Any]], ...] = (
            (kinds.WORKLOADS, self.workloads),
            (kinds.CLUSTER_QUEUES, self.cluster_queues),
            (kinds.LOCAL_QUEUES, self.local_queues),
            (kinds.RESOURCE_FLAVORS, self.flavors),
            (kinds.COHORTS, self.cohorts),
            (kinds.ADMISSION_CHECKS, self.checks),
            (kinds.MULTIKUEUE_CONFIGS, self.configs),
            (kinds.MULTIKUEUE_CLUSTERS, self.clusters),
            (kinds.SECRETS, self.secrets),
            (kinds.CLUSTER_PROFILES, self.profiles),
            (kinds.NAMESPACES, self.namespaces),
            (kinds.WORKLOAD_PRIORITY_CLASSES, self.priority_classes),
            (kinds.PRIORITY_CLASSES, self.pod_priority_classes),
            (kinds.LIMIT_RANGES, self.limit_ranges),
            (kinds.RUNTIME_CLASSES, self.runtime_classes),
        )
        yield from (("", kind, cache) for kind, cache in own)
        yield from (("", kind, self.jobs.of(kind)) for kind in self.jobs.kinds)
        for name, worker in self.workers.items():
            yield name, kinds.WORKLOADS, worker.workloads
            yield from ((name, kind, worker.jobs.of(kind)) for kind in worker.jobs.kinds)

    # Changes. Each notes who must look again.

    def fleet_changed(self) -> None:
        """Something that is true of a worker for everybody is another now."""
        self.fleets.clear()

    @contextmanager
    def writing(self, key: ObjectKey | JobKey) -> Iterator[Callable[[Workload | AnyJob], None]]:
        """While the reconcile of a workload or a job writes its own object: what is yielded takes the answer in. That write
        does not wake the reconcile, which goes on by itself where there is need; anything else does."""
        wake = partial(self.touched.job, key) if isinstance(key, JobKey) else partial(self.touched.workload, key)
        with self._writes.under_way(key, wake) as answered:

            def take_in(answer: Workload | AnyJob) -> None:
                if isinstance(answer, Workload):
                    self.workloads.upsert(answer)
                else:
                    self.jobs.upsert(answer)
                answered(answer)

            yield take_in

    def reach_changed(self, name: str) -> None:
        """A worker came or went: everything that is dispatched to it, or may be, looks again."""
        self.fleet_changed()
        self.touched.cluster(name)
        for observer in self.observers:
            observer.reach_changed(self.worker(name))
        for key in self._dispatched_to(name):
            self.touched.workload(key)

    def lacks(self, name: str, kind: Kind[Any], why: str, *, namespace: str = "") -> None:
        """A worker does not have that kind in one of its namespaces, or does not let us see it, as `why` says; empty: now it
        does."""
        if not self.worker(name).sight.note(kind, namespace, why, self.now()):
            return
        self.fleet_changed()
        self.touched.cluster(name)
        for key in self._dispatched_to(name):
            self.touched.workload(key)

    def heard(self, name: str, *, silent: bool) -> None:
        """A worker fell silent, or answers again: who may win what it has admitted is another question now."""
        worker = self.worker(name)
        if worker.silent == silent:
            return
        worker.silent = silent
        for copy in worker.workloads:
            local = self.workloads.get(copy.key)
            if local is not None and local.status.cluster_name is None and copy.has(ADMITTED):
                self.touched.workload(copy.key)

    def _dispatched_to(self, name: str) -> set[ObjectKey]:
        found = self.worker(name).held()
        for config in self.configs.by("cluster", name):
            for check in self.checks.by("config", config.metadata.name):
                found.update(w.key for w in self.workloads.by("check", check.metadata.name))
        return found

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        self.engine.observe(old, new, self.now())
        touched = new or old
        assert touched is not None
        if new is None or new.status.cluster_name is not None:
            self.placements.forget(touched.key)
        self.touched.admission()  # first: what gets quota at once is looked at once
        if not self._is_held_back(touched.key, new):
            self.touched.workload(touched.key)
        if self.slices is not None:
            for key in self.slices.beside(touched):
                self.touched.workload(key)
        if old is None or new is None or _traits(old) != _traits(new):
            self._touch_jobs_of(touched)
        for queue in dict.fromkeys(place for seen in (old, new) if seen is not None for place in self._places_of(seen)):
            self.touched.queue(*queue)

    def _is_held_back(self, key: ObjectKey | JobKey, new: Object | None) -> bool:
        """Whether a new version may be what the reconcile of `key` writes just now."""
        return new is not None and self._writes.holds_back(key, new)

    def _touch_jobs_of(self, workload: Workload) -> None:
        """Its owner, what belongs to that, and, where it is a StatefulSet, the group of its Pods."""
        owner = self.owner(workload)
        if owner is not None:
            self.touched.job(owner)
        for uid in _owner_uid(workload):
            self._touch_jobs_below(uid)
        if is_of_group(workload) and owner is not None and owner.kind != POD_GROUPS.name:
            self.touched.job(JobKey(POD_GROUPS.name, *workload.key))

    def _touch_jobs_below(self, uid: str) -> None:
        for key in self.nesting.below(uid):
            self.touched.job(key)

    def _places_of(self, workload: Workload) -> Iterator[tuple[str, ObjectKey | None]]:
        """The queues in which a workload waits or counts; it counts where it was admitted, even if its LocalQueue is gone
        or another one of that name leads elsewhere."""
        key = queue_of(workload)
        local, admission = self.local_queues.get(key), workload.status.admission
        if local is not None:
            yield local.spec.cluster_queue, key
        if admission is not None and (local is None or local.spec.cluster_queue != admission.cluster_queue):
            yield admission.cluster_queue, None

    def _job_changed(self, adapter: Adapter, old: AnyJob | None, new: AnyJob | None) -> None:
        touched = new or old
        assert touched is not None
        traits = self._job_traits(adapter, new) if new is not None else None  # may raise, and then nothing has changed
        # Of a group that was told when a member changed.
        if not isinstance(touched, PodGroup):
            key = JobKey(adapter.kind.name, touched.metadata.namespace, touched.metadata.name)
            if not self._is_held_back(key, new):
                self.touched.job(key)
        if is_whole(adapter) and (old is None or new is None or _standing(adapter, old) != _standing(adapter, new)):
            self._touch_jobs_below(touched.metadata.uid)
        if old is None or new is None or self._job_traits(adapter, old) != traits:
            for workload in self.owned(touched):
                self.touched.workload(workload.key)

    def _job_traits(self, adapter: Adapter, job: AnyJob) -> tuple[object, ...]:
        """What the workload of a job depends on; of running counts only whether they suffice, where that matters."""
        meta, completed = job.metadata, self.runtimes.completed(job)
        ready = adapter.ready_pods(completed) if self._minds_pods else 0
        freed, copyable = adapter.reclaimable(completed), adapter.may_be_copied(job)
        state = adapter.finished(job), copyable, freed, ready, self.runs_here(job), able(job)
        return meta.generation, meta.deletion_timestamp is None, state, _said(job)

    def _remote_changed(self, key: ObjectKey, worker: str, leaving: bool) -> None:
        """What leaves a worker is news only as long as the workload still waits for it, or runs there."""
        local = self.workloads.get(key)
        if self.slices is not None:
            for later in self.slices.after(key):
                self.touched.workload(later)
        if leaving and local is not None and local.metadata.deletion_timestamp is None and not local.has(EVICTED):
            winner = local.status.cluster_name
            if local.has(FINISHED) or (winner and winner != worker):
                self._tidy(key)
                return
        self.touched.workload(key)

    def _remote_pods_changed(self, key: ObjectKey, worker: str) -> None:
        """Whether the job of a worker has pods is news only where they have to go, or should not be."""
        local = self.workloads.get(key)
        if local is None or self.slices is not None or not _runs_on(local, worker):
            self._remote_changed(key, worker, leaving=False)

    def _is_settled(self, old: Workload | None, new: Workload | None, worker: str, making: bool) -> bool:
        """Whether a change of a copy is no news, as `Plans` tells."""
        copy = new or old
        assert copy is not None
        if not self.plans.settles(old, copy, worker, making):
            return False
        self._tidy(copy.key)
        return True

    def _tidy(self, key: ObjectKey) -> None:
        """Nothing is kept of what is over, and on no worker any more."""
        local = self.workloads.get(key)
        if (local is None or local.has(FINISHED)) and not self.places(key):
            self.plans.put(key, None)

    def _remote_job_changed(self, key: JobKey, idle: bool) -> None:
        """What is left on workers of a job that is over is its workload's affair, and one that only waits there has nothing to
        say before it is started here. A group is looked at when it is asked for."""
        local = self.jobs.get(key) if key.kind != POD_GROUPS.name else None
        if local is not None:
            adapter = self.adapters.of(local)
            if adapter.finished(local) is not None or (idle and adapter.resumes and adapter.is_suspended(local)):
                return
        self.touched.job(key)
        local = self.jobs.get(key) if self._minds_pods else None  # be it a group
        if local is not None and not self.adapters.of(local).mirrors:
            for workload in self.owned(local):
                self.touched.workload(workload.key)

    def _cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        name = _name(new or old)
        self.engine.observe(old, new, self.now())
        if old is None or new is None or _spec_changed(old, new):
            self._queue_touched(name)
            self._no_more_used(old, new)
            if old is not None and new is not None and check_names(old) != check_names(new):
                self._touch_jobs_in(name)
        elif _said(old) != _said(new):
            self.touched.admission()
            self.touched.queue(name, None)
            for local in self.local_queues.by("cluster_queue", name):
                self._touch_workloads_in(local.key)

    def _no_more_used(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        """What a ClusterQueue names no more may have been kept for it alone."""
        for names, touch in ((flavor_names, self.touched.flavor), (check_names, self.touched.check)):
            for name in (names(old) if old else set()) - (names(new) if new else set()):
                touch(name)

    def _queue_touched(self, cluster_queue: str) -> None:
        self.touched.admission()
        self.touched.queue(cluster_queue, None)
        for local in self.local_queues.by("cluster_queue", cluster_queue):
            self.touched.queue(cluster_queue, local.key)
            self._touch_workloads_in(local.key)

    def _touch_workloads_in(self, local_queue: ObjectKey) -> None:
        for workload in self.workloads.by("named", local_queue):
            self.touched.workload(workload.key)

    def _touch_jobs_in(self, cluster_queue: str) -> None:
        """Whether jobs that wait there are dispatched may be another question now."""
        for local in self.local_queues.by("cluster_queue", cluster_queue):
            for workload in self.workloads.by("named", local.key):
                self._touch_owner(workload)

    def _touch_owner(self, workload: Workload) -> None:
        owner = self.owner(workload)
        if owner is not None:
            self.touched.job(owner)

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        touched = new or old
        assert touched is not None
        self.engine.observe(old, new, self.now())
        if old is not None and new is not None and not _spec_changed(old, new):
            if _said(old) != _said(new):
                self._touch_workloads_in(touched.key)
            return
        self.touched.admission()
        self.touched.queue(touched.spec.cluster_queue, touched.key)
        self._touch_workloads_in(touched.key)
        for workload in self.workloads.by("named", touched.key):
            self._touch_owner(workload)

    def _flavor_changed(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        self._queues_touched(self.engine.observe(old, new, self.now()))
        self.touched.flavor(_name(new or old))

    def _cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        self._queues_touched(self.engine.observe(old, new, self.now()))
        if old is None or new is None or _spec_changed(old, new):
            self.touched.cohort(_name(new or old))

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        self.engine.observe(old, new, self.now())
        self.touched.admission()

    def _limit_range_changed(self, old: LimitRange | None, new: LimitRange | None) -> None:
        self.engine.observe(old, new, self.now())
        self.touched.admission()

    def _runtime_class_changed(self, old: RuntimeClass | None, new: RuntimeClass | None) -> None:
        self.engine.observe(old, new, self.now())
        self.touched.admission()

    def _queues_touched(self, names: Iterable[str]) -> None:
        for name in names:
            self._queue_touched(name)

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        name = _name(new or old)
        self.touched.check(name)
        concerned = set(self.engine.observe(old, new, self.now()))
        if old is None or new is None or _spec_changed(old, new):
            concerned.update(queue.metadata.name for queue in self.cluster_queues.by("check", name))
        self._queues_touched(sorted(concerned))
        if old is None or new is None or _spec_changed(old, new):
            self._touch_check_users(name)
            if old is None or new is None:
                for using in self.cluster_queues.by("check", name):
                    self._touch_jobs_in(using.metadata.name)
        elif _said(old) != _said(new):
            self._touch_check_users(name)

    def _touch_check_users(self, name: str) -> None:
        for workload in self.workloads.by("check", name):
            self.touched.workload(workload.key)

    def _config_changed(self, old: MultiKueueConfig | None, new: MultiKueueConfig | None) -> None:
        self.fleet_changed()
        for check in self.checks.by("config", _name(new or old)):
            self.touched.check(check.metadata.name)
            self._touch_check_users(check.metadata.name)

    def _cluster_changed(self, old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> None:
        name = _name(new or old)
        self.fleet_changed()
        self.touched.cluster(name)
        for config in self.configs.by("cluster", name):
            for check in self.checks.by("config", config.metadata.name):
                self.touched.check(check.metadata.name)
                if old is None or new is None or old.metadata.annotations != new.metadata.annotations:
                    self._touch_check_users(check.metadata.name)

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        self.source_changed("Secret", _name(new or old))

    def _profile_changed(self, old: ClusterProfile | None, new: ClusterProfile | None) -> None:
        self.source_changed("ClusterProfile", _name(new or old))

    def files(self) -> tuple[str, ...]:
        """The paths from which clusters are read."""
        return tuple(map(str, self.clusters.named("file")))

    def source_changed(self, type_: str, location: str) -> None:
        """Where clusters are read from (Secret, Path, ClusterProfile) says something else now."""
        for cluster in self.clusters.by("source", (type_, location)):
            self.touched.cluster(cluster.metadata.name)

    def _priority_class_changed(self, old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None) -> None:
        """The value of a class is written into every workload that names it (quota-engine 1.4)."""
        if old is not None and new is not None and old.value == new.value:
            return
        name = _name(new or old)
        for workload in self.workloads.by("named", name):
            owner = self.owner(workload)
            if owner is not None:
                self.touched.job(owner)
            else:
                self.touched.workload(workload.key)


def placed_for(adapter: Adapter, job: AnyJob) -> str:
    """The name of the Workload by which a job says where it ran on the manager cluster; empty if it does not."""
    return adapter.placing.placed_for(job) if adapter.placing is not None else ""


def _name(item: Object | None) -> str:
    assert item is not None
    return item.metadata.name


def _traits(workload: Workload) -> tuple[object, ...]:
    """What the job of a workload depends on. That quota was reserved is not among it: the job waits on."""
    meta, status = workload.metadata, workload.status
    states = tuple(workload.has(type_) for type_ in (ADMITTED, EVICTED, FINISHED))
    return states, status.cluster_name, meta.generation, meta.uid, meta.deletion_timestamp is None, meta.annotations


def _runs_on(local: Workload, worker: str) -> bool:
    """Whether a workload is to run on that worker, and nothing says otherwise."""
    stops = local.metadata.deletion_timestamp is not None or local.has(EVICTED) or local.has(FINISHED)
    return local.has(ADMITTED) and local.status.cluster_name == worker and not stops


def _standing(adapter: Adapter, job: AnyJob) -> tuple[object, ...]:
    """What those depend on that belong to a job."""
    return job.metadata.uid, adapter.queue_name(job), controllers(job)


def _said(item: Object) -> dict[str, str]:
    """What is said to us by annotations."""
    return {name: text for name, text in item.metadata.annotations.items() if name.startswith(ANNOTATIONS)}


def _spec_changed(old: Object, new: Object) -> bool:
    deleting = (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
    return deleting or old.metadata.generation != new.metadata.generation or old.metadata.uid != new.metadata.uid


def config_of(check: AdmissionCheck) -> tuple[str, ...]:
    return (check.spec.parameters.name,) if check.spec.parameters else ()


def clusters_of(config: MultiKueueConfig) -> tuple[str, ...]:
    """The clusters a MultiKueueConfig names, in order: its spec, then the annotation for more than 20."""
    more = config.metadata.annotations.get(CLUSTERS_ANNOTATION, "")
    return tuple(dict.fromkeys((*config.spec.clusters, *(n.strip() for n in more.split(",") if n.strip()))))


def _uid_of(cluster: MultiKueueCluster) -> Iterable[str]:
    uid = cluster.metadata.annotations.get(CLUSTER_UID_ANNOTATION)
    return (uid,) if uid else ()


def source_of(cluster: MultiKueueCluster) -> tuple[tuple[str, str], ...]:
    """Where a cluster's kubeconfig comes from: type and location. Several clusters may share one."""
    source = cluster.spec.cluster_source
    if source.kube_config is not None:
        return ((source.kube_config.location_type, source.kube_config.location),)
    profile = source.cluster_profile_ref
    return (("ClusterProfile", profile.name),) if profile is not None else ()


def _file_of(cluster: MultiKueueCluster) -> tuple[str, ...]:
    return tuple(location for type_, location in source_of(cluster) if type_ == "Path")
