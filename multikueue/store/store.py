"""The manager's side of what we know, and the questions that need both sides."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Protocol

from multikueue.api.core import Namespace, PriorityClass, Secret
from multikueue.api.job import Job
from multikueue.api.meta import Object, ObjectKey, controller_of
from multikueue.api.multikueue import CONTROLLER_NAME, AdmissionCheck, MultiKueueCluster, MultiKueueConfig
from multikueue.api.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.workload import ADMITTED, EVICTED, FINISHED, Workload, workload_spec
from multikueue.dispatch.group import Group, Reach, Remote, attempt_of
from multikueue.jobs.table import adapter_for, adapter_of
from multikueue.quota.engine import Engine
from multikueue.store.cache import Cache
from multikueue.store.worker import WorkerView

CLUSTERS_ANNOTATION = "multikueue.dev/clusters"
"""On a MultiKueueConfig: more cluster names, comma separated, beyond the 20 that its spec may hold."""

CORDON_ANNOTATION = "multikueue.dev/cordon"
"""On a MultiKueueCluster: `true` keeps new workloads away from it."""


class Touched(Protocol):
    """Who must look again. Each call only notes a key."""

    def workload(self, key: ObjectKey) -> None: ...
    def job(self, key: ObjectKey) -> None: ...
    def queue(self, cluster_queue: str, local_queue: ObjectKey | None) -> None: ...
    def check(self, name: str) -> None: ...
    def cluster(self, name: str) -> None: ...
    def admission(self) -> None: ...


def _owner_uid(workload: Workload) -> Iterable[str]:
    owner = controller_of(workload.metadata)
    return (owner.uid,) if owner else ()


def _check_names(workload: Workload) -> Iterable[str]:
    return () if workload.has(FINISHED) else (c.name for c in workload.status.admission_checks)


def _queue(workload: Workload) -> Iterable[ObjectKey]:
    if workload.has(FINISHED):
        return ()
    return (ObjectKey(workload.metadata.namespace, workload_spec(workload).queue_name),)


class Store:
    """Owner: the manager. Caches are filled by the manager cluster's watches; `workers` by each worker's connection.

    Each change is passed on to the quota engine at once and to `touched` as keys. `now` is the time of the change.
    """

    def __init__(self, engine: Engine, touched: Touched, now: Callable[[], datetime]) -> None:
        self.engine, self.touched, self.now = engine, touched, now
        self.workers: dict[str, WorkerView] = {}
        self.choices: dict[ObjectKey, tuple[str, str]] = {}
        """The attempt of a workload and the worker chosen in it, until it is recorded in the object."""
        self.jobs: Cache[Job] = Cache(self._job_changed)
        self.workloads: Cache[Workload] = Cache(
            self._workload_changed, indexes={"owner": _owner_uid, "check": _check_names, "queue": _queue}
        )
        self.cluster_queues: Cache[ClusterQueue] = Cache(self._cluster_queue_changed)
        self.local_queues: Cache[LocalQueue] = Cache(
            self._local_queue_changed, indexes={"cluster_queue": lambda q: (q.spec.cluster_queue,)}
        )
        self.flavors: Cache[ResourceFlavor] = Cache(self._flavor_changed)
        self.cohorts: Cache[Cohort] = Cache(self._cohort_changed)
        self.checks: Cache[AdmissionCheck] = Cache(self._check_changed, indexes={"config": _config_of})
        self.configs: Cache[MultiKueueConfig] = Cache(self._config_changed, indexes={"cluster": clusters_of})
        self.clusters: Cache[MultiKueueCluster] = Cache(self._cluster_changed, indexes={"secret": _secret_of})
        self.secrets: Cache[Secret] = Cache(self._secret_changed)
        self.namespaces: Cache[Namespace] = Cache(self._namespace_changed)
        self.priority_classes: Cache[WorkloadPriorityClass] = Cache(self._priority_class_changed)
        self.pod_priority_classes: Cache[PriorityClass] = Cache()

    # Questions.

    def worker(self, name: str) -> WorkerView:
        """The view of a worker, made on first use."""
        if name not in self.workers:
            self.workers[name] = WorkerView(name, self._remote_changed, self._remote_job_changed, since=self.now())
        return self.workers[name]

    def owner(self, workload: Workload) -> ObjectKey | None:
        """The key of the job that owns a workload."""
        owner = controller_of(workload.metadata)
        return ObjectKey(workload.metadata.namespace, owner.name) if owner and owner.kind == "Job" else None

    def owned(self, job: Job) -> tuple[Workload, ...]:
        return self.workloads.by("owner", job.metadata.uid)

    def local_job(self, workload: Workload) -> Job | None:
        """The job that owns a workload, if it is the very one and not a later job of the same name."""
        key, owner = self.owner(workload), controller_of(workload.metadata)
        job = self.jobs.get(key) if key else None
        return job if job and owner and job.metadata.uid == owner.uid else None

    def held_jobs(self, key: ObjectKey) -> bool:
        """Whether any worker holds a job of ours for that workload."""
        return any(worker.job_of(key) is not None for worker in self.workers.values())

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

    def clusters_for(self, check: AdmissionCheck | None) -> tuple[str, ...]:
        """The cluster names of a check's MultiKueueConfig, in its order."""
        name = next(iter(_config_of(check)), "") if check else ""
        config = self.configs.get(ObjectKey("", name))
        return clusters_of(config) if config else ()

    def group(self, key: ObjectKey, local: Workload | None, *, origin: str, lost_after: timedelta) -> Group:
        """Everything the decision on one workload looks at. `local` may be ahead of the cache by what is to be written."""
        check = self.multikueue_check(local) if local else None
        job = self.local_job(local) if local else None
        return Group(
            key=key,
            local=local,
            check=check.metadata.name if check else "",
            remotes=tuple(self._remotes(key, local, self.clusters_for(check))),
            problem=self._problem(local, job) if local else "",
            job_known=job is not None,
            job_finished=job is not None and adapter_for(job).finished(job) is not None,
            choice=self._choice(key, local),
            origin=origin,
            lost_after=lost_after,
        )

    def _choice(self, key: ObjectKey, local: Workload | None) -> str:
        attempt, cluster = self.choices.get(key, ("", ""))
        return cluster if local is not None and attempt and attempt == attempt_of(local) else ""

    def chose(self, group: Group) -> None:
        """Remember the choice made for a workload; forget it where there is none to make."""
        if group.choice and group.local is not None and not group.local.status.cluster_name:
            self.choices[group.key] = (group.attempt, group.choice)
        else:
            self.choices.pop(group.key, None)

    def _remotes(self, key: ObjectKey, local: Workload | None, configured: tuple[str, ...]) -> Iterable[Remote]:
        recorded = (local.status.cluster_name,) if local and local.status.cluster_name else ()
        holding = (name for name, worker in self.workers.items() if worker.holds(key))
        for name in dict.fromkeys((*configured, *recorded, *holding)):
            yield self._remote(key, name, configured=name in configured)

    def _remote(self, key: ObjectKey, name: str, *, configured: bool) -> Remote:
        worker, cluster = self.worker(name), self.clusters.get(ObjectKey("", name))
        conflict = worker.conflict(key, self.now())
        cordoned = cluster is not None and cluster.metadata.annotations.get(CORDON_ANNOTATION) == "true"
        return Remote(
            cluster=name,
            reach=worker.reach,
            since=worker.since if worker.reach is not Reach.CONNECTED else None,
            known=worker.known,
            workload=worker.workloads.get(key),
            job=worker.job_of(key),
            maybe_job=worker.asked.get(key, ""),
            conflict=conflict.text if conflict else "",
            conflict_until=conflict.until if conflict else None,
            configured=configured,
            usable=not cordoned,
            why="cordoned" if cordoned else worker.why,
            labels=cluster.metadata.labels if cluster else {},
            annotations=cluster.metadata.annotations if cluster else {},
        )

    def _problem(self, local: Workload, job: Job | None) -> str:
        """Why the job cannot be dispatched at all, in Kueue's words (contract 3.1 E3, E4)."""
        owner = controller_of(local.metadata) or next(iter(local.metadata.owner_references), None)
        if owner is None:
            return "No multikueue adapter found"
        if adapter_of(owner.api_version, owner.kind) is None:
            return f'No multikueue adapter found for owner kind "{owner.api_version}, Kind={owner.kind}"'
        reason = adapter_for(job).unmanaged_reason(job) if job else None
        return f"The owner is not managed by Kueue: {reason}" if reason else ""

    # Changes. Each notes who must look again.

    def reach_changed(self, name: str) -> None:
        """A worker came or went: everything that is dispatched to it, or may be, looks again."""
        self.touched.cluster(name)
        for key in self._dispatched_to(name):
            self.touched.workload(key)

    def _dispatched_to(self, name: str) -> set[ObjectKey]:
        found = self.worker(name).held()
        for config in self.configs.by("cluster", name):
            for check in self.checks.by("config", config.metadata.name):
                found.update(w.key for w in self.workloads.by("check", check.metadata.name))
        return found

    def _workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        if new is not None:
            self.engine.set_workload(new, self.now())
        elif old is not None:
            self.engine.remove_workload(old.key, self.now())
        touched = new or old
        assert touched is not None
        self.touched.workload(touched.key)
        self.touched.admission()
        owner = self.owner(touched)
        if owner is not None and (old is None or new is None or _traits(old) != _traits(new)):
            self.touched.job(owner)
        self._touch_queue_of(touched)

    def _touch_queue_of(self, workload: Workload) -> None:
        key = ObjectKey(workload.metadata.namespace, workload_spec(workload).queue_name)
        local = self.local_queues.get(key)
        if local is not None:
            self.touched.queue(local.spec.cluster_queue, key)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        touched = new or old
        assert touched is not None
        self.touched.job(touched.key)
        if old is None or new is None or _job_traits(old) != _job_traits(new):
            for workload in self.owned(touched):
                self.touched.workload(workload.key)

    def _remote_changed(self, key: ObjectKey, worker: str, leaving: bool) -> None:
        """What leaves a worker is news only as long as the workload still waits for it, or runs there."""
        local = self.workloads.get(key)
        if leaving and local is not None and local.metadata.deletion_timestamp is None and not local.has(EVICTED):
            winner = local.status.cluster_name
            if local.has(FINISHED) or (winner and winner != worker):
                return
        self.touched.workload(key)

    def _remote_job_changed(self, key: ObjectKey) -> None:
        self.touched.job(key)

    def _cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        name = _name(new or old)
        if new is None:
            self.engine.remove_cluster_queue(name, self.now())
        else:
            self.engine.set_cluster_queue(new, self.now())
        if old is None or new is None or _spec_changed(old, new):
            self._queue_touched(name)

    def _queue_touched(self, cluster_queue: str) -> None:
        self.touched.admission()
        self.touched.queue(cluster_queue, None)
        for local in self.local_queues.by("cluster_queue", cluster_queue):
            self.touched.queue(cluster_queue, local.key)
            self._touch_workloads_in(local.key)

    def _touch_workloads_in(self, local_queue: ObjectKey) -> None:
        for workload in self.workloads.by("queue", local_queue):
            self.touched.workload(workload.key)

    def _local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        touched = new or old
        assert touched is not None
        if new is None:
            self.engine.remove_local_queue(touched.key, self.now())
        else:
            self.engine.set_local_queue(new, self.now())
        if old is not None and new is not None and not _spec_changed(old, new):
            return
        self.touched.admission()
        self.touched.queue(touched.spec.cluster_queue, touched.key)
        self._touch_workloads_in(touched.key)
        for workload in self.workloads.by("queue", touched.key):
            owner = self.owner(workload)
            if owner is not None:
                self.touched.job(owner)

    def _flavor_changed(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        if new is None:
            self.engine.remove_flavor(_name(old), self.now())
        else:
            self.engine.set_flavor(new, self.now())
        self._all_queues_touched()

    def _cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        if new is None:
            self.engine.remove_cohort(_name(old), self.now())
        else:
            self.engine.set_cohort(new, self.now())
        self._all_queues_touched()

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is None:
            self.engine.remove_namespace(_name(old), self.now())
        else:
            self.engine.set_namespace(new, self.now())
        self.touched.admission()

    def _all_queues_touched(self) -> None:
        for queue in self.cluster_queues:
            self._queue_touched(queue.metadata.name)

    def _check_changed(self, old: AdmissionCheck | None, new: AdmissionCheck | None) -> None:
        name = _name(new or old)
        if new is None:
            self.engine.remove_check(name, self.now())
        else:
            self.engine.set_check(new, self.now())
        self.touched.check(name)
        if old is not None and new is not None and not _spec_changed(old, new):
            self._all_queues_touched()
            return
        self._touch_check_users(name)
        self._all_queues_touched()

    def _touch_check_users(self, name: str) -> None:
        for workload in self.workloads.by("check", name):
            self.touched.workload(workload.key)

    def _config_changed(self, old: MultiKueueConfig | None, new: MultiKueueConfig | None) -> None:
        for check in self.checks.by("config", _name(new or old)):
            self.touched.check(check.metadata.name)
            self._touch_check_users(check.metadata.name)

    def _cluster_changed(self, old: MultiKueueCluster | None, new: MultiKueueCluster | None) -> None:
        name = _name(new or old)
        self.touched.cluster(name)
        for config in self.configs.by("cluster", name):
            for check in self.checks.by("config", config.metadata.name):
                self.touched.check(check.metadata.name)
                if old is None or new is None or old.metadata.annotations != new.metadata.annotations:
                    self._touch_check_users(check.metadata.name)

    def _secret_changed(self, old: Secret | None, new: Secret | None) -> None:
        for cluster in self.clusters.by("secret", _name(new or old)):
            self.touched.cluster(cluster.metadata.name)

    def _priority_class_changed(self, old: WorkloadPriorityClass | None, new: WorkloadPriorityClass | None) -> None:
        """The value of a class is written into every workload that names it (quota-engine 1.4)."""
        name = _name(new or old)
        for workload in self.workloads:
            ref = workload_spec(workload).priority_class_ref
            owner = self.owner(workload)
            if ref is not None and ref.name == name and owner is not None:
                self.touched.job(owner)


def _name(item: Object | None) -> str:
    assert item is not None
    return item.metadata.name


def _traits(workload: Workload) -> tuple[object, ...]:
    """What the job of a workload depends on. That quota was reserved is not among it: the job waits on."""
    meta, status = workload.metadata, workload.status
    states = tuple(workload.has(type_) for type_ in (ADMITTED, EVICTED, FINISHED))
    return states, status.cluster_name, meta.generation, meta.uid, meta.deletion_timestamp is None, meta.annotations


def _job_traits(job: Job) -> tuple[object, ...]:
    """What the workload of a job depends on; running counts are not among it."""
    meta = job.metadata
    return meta.generation, meta.deletion_timestamp is None, adapter_for(job).finished(job)


def _spec_changed(old: Object, new: Object) -> bool:
    deleting = (old.metadata.deletion_timestamp is None) != (new.metadata.deletion_timestamp is None)
    return deleting or old.metadata.generation != new.metadata.generation or old.metadata.uid != new.metadata.uid


def _config_of(check: AdmissionCheck) -> tuple[str, ...]:
    return (check.spec.parameters.name,) if check.spec.parameters else ()


def clusters_of(config: MultiKueueConfig) -> tuple[str, ...]:
    """The clusters a MultiKueueConfig names, in order: its spec, then the annotation for more than 20."""
    more = config.metadata.annotations.get(CLUSTERS_ANNOTATION, "")
    return tuple(dict.fromkeys((*config.spec.clusters, *(n.strip() for n in more.split(",") if n.strip()))))


def _secret_of(cluster: MultiKueueCluster) -> tuple[str, ...]:
    source = cluster.spec.cluster_source.kube_config
    return (source.location,) if source and source.location_type == "Secret" else ()
