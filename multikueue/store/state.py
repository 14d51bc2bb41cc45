"""The present state, in one file: a cache for each kind of the manager cluster, a view for each worker, questions about both.

It changes only through its caches and views; `Store` connects these with the work queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from operator import attrgetter, methodcaller
from typing import Any

from multikueue import strategy as contract
from multikueue.api import kinds
from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import PodGroup
from multikueue.api.kind import Kind
from multikueue.api.kinds import POD_GROUPS
from multikueue.api.kubernetes.builtins import (
    DeviceClass,
    LimitRange,
    Namespace,
    PriorityClass,
    ResourceClaimTemplate,
    RuntimeClass,
    Secret,
)
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME, AdmissionCheck
from multikueue.api.kueue.queues import (
    ClusterQueue,
    Cohort,
    LabelSelector,
    LocalQueue,
    ResourceFlavor,
    WorkloadPriorityClass,
    has_manager_as_worker,
)
from multikueue.api.kueue.workload import (
    ADMITTED,
    DRAINED_FROM_ANNOTATION,
    FAILED_ON,
    FINISHED,
    FITS_NO_WORKER,
    GROUP_LABEL,
    QUOTA_RESERVED,
    Finish,
    Workload,
    WorkloadStatus,
    owner_of,
    queue_of,
    workload_spec,
)
from multikueue.api.meta import ObjectKey, OwnerReference
from multikueue.api.multikueue.clusters import (
    ClusterProfile,
    MultiKueueCluster,
    MultiKueueConfig,
    clusters_of,
    config_of,
    file_of,
    source_of,
    uid_of,
)
from multikueue.jobs.framework.adapter import is_local
from multikueue.jobs.framework.pod_set_info import failed_start
from multikueue.jobs.framework.workloads import is_of_group, is_owned
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.reconciler.case import is_over
from multikueue.quota.cache.status import check_names, flavor_names
from multikueue.quota.requests.matching import is_selected
from multikueue.store.caches.cache import ByName, Cache, Indexer
from multikueue.store.caches.ceilings import Ceilings
from multikueue.store.caches.closed_queues import ClosedQueues
from multikueue.store.caches.ended import EndedCopies
from multikueue.store.caches.hub_scores import HubScores
from multikueue.store.caches.jobs import CONTROLLER, JobCaches, Nesting, Runtimes, controllers
from multikueue.store.caches.on_demand import OnDemand
from multikueue.store.caches.placements import PLACEMENT_ANNOTATION, Placements, named
from multikueue.store.caches.rooms import Rooms
from multikueue.store.caches.slices import Slices, replaced
from multikueue.store.caches.spends import Spends
from multikueue.store.caches.waits import WorkerWaits
from multikueue.store.plans import Plans
from multikueue.store.queues import WorkQueues
from multikueue.store.refusals import Bounds, Refusals
from multikueue.store.workers.worker import Places, WorkerView
from multikueue.workload.case import Fleet
from multikueue.workload.nomination.request import failures, may_be_on

_NAME = attrgetter("name")


def _owner_uid(workload: Workload) -> Iterable[str]:
    owner = owner_of(workload)
    return (owner.uid,) if owner else ()


def _check_names(workload: Workload) -> Iterable[str]:
    return map(_NAME, workload.status.admission_checks)


def _parked(workload: Workload) -> Iterable[str]:
    """Index of workloads that fit no worker, as far as is known: one value for all."""
    return (FITS_NO_WORKER,) if workload.has(FITS_NO_WORKER) else ()


def workers_named_by(local: Workload) -> Iterable[str]:
    """The workers in a workload's status: the winner, the nominated, and those where attempts failed."""
    status, failed = local.status, local.condition(FAILED_ON)
    winner = (status.cluster_name,) if status.cluster_name else ()
    return (*winner, *status.nominated_cluster_names, *(failures(failed.message) if failed is not None else ()))


def _held(workload: Workload) -> Iterable[str]:
    """The worker for whose drain a workload is held until it has given its quota back."""
    name = workload.metadata.annotations.get(DRAINED_FROM_ANNOTATION)
    return (name,) if name is not None else ()


def _group(workload: Workload) -> Iterable[ObjectKey]:
    """The group that a workload is in, by namespace and name."""
    name = workload.metadata.labels.get(GROUP_LABEL, "")
    return (ObjectKey(workload.metadata.namespace, name),) if name else ()


def _named(workload: Workload) -> Iterable[ObjectKey | str]:
    """The LocalQueue and priority class that a workload names: one index, to decode the spec once."""
    spec = workload_spec(workload)
    queue, ref = ObjectKey(workload.metadata.namespace, spec.queue_name), spec.priority_class_ref
    return (queue,) if ref is None else (queue, ref.name)


class State:
    """Owner: the manager. The manager cluster's watches fill the caches; each worker's connection fills its view in
    `workers`.

    `namespace` is ours, the default for names of Placements. `adapters` are the kinds of jobs in use. `should_wait_for_pods`: a
    workload depends on whether the pods of its job are ready. `has_elastic_jobs`: jobs may change their size while they run;
    without it, slices are ignored. `managed_namespaces`: those whose jobs are taken in; without it, all. Only `placements` and
    `runtimes` know the followers of a Placement and the jobs that name a runtime, so these two add keys to `queues` themselves.
    """

    def __init__(
        self,
        now: Callable[[], datetime],
        queues: WorkQueues,
        *,
        namespace: str,
        adapters: Adapters,
        should_wait_for_pods: bool,
        has_elastic_jobs: bool,
        managed_namespaces: LabelSelector | None = None,
    ) -> None:
        self.managed_namespaces = managed_namespaces
        self.now, self.namespace, self.adapters = now, namespace, adapters
        self.should_wait_for_pods = should_wait_for_pods
        self.workers: dict[str, WorkerView] = {}
        self._places = Places()
        self.written: dict[ObjectKey, WorkloadStatus] = {}
        """Statuses of workloads by key, while reconciles write them: the cache has them only with the answer."""
        self.fleets: dict[tuple[str, str, str], Fleet] = {}
        """Computed by `Views`: the fleets by MultiKueueConfig, kind and namespace, until a part of one changes."""
        self.placements = Placements(lambda key: queues.add("workloads", key), now)
        self.jobs = JobCaches(adapters, indexes={CONTROLLER: controllers}, should_pack=True)
        self.nesting = Nesting(adapters, self.jobs, self._is_admitted)
        self.runtimes = Runtimes(adapters, self.jobs, lambda key: queues.add("jobs", key))
        slicing: dict[str, Indexer[Workload]] = {"replaces": replaced} if has_elastic_jobs else {}
        self.workloads: Cache[Workload] = Cache(
            indexes={"owner": _owner_uid, "held": _held, **slicing},
            indexes_until_over={
                "check": _check_names,
                "named": _named,
                "parked": _parked,
                "worker": workers_named_by,
                "group": _group,
            },
            is_over=methodcaller("has", FINISHED),
        )
        self.ceilings = Ceilings()
        self.ended = EndedCopies()
        self.refusals = Refusals()
        self.bounds = Bounds()
        self.plans = Plans(self.workloads)
        self.slices: Slices | None = Slices(self.workloads) if has_elastic_jobs else None
        """The slices of elastic jobs; None: elastic jobs are off."""
        self.cluster_queues: Cache[ClusterQueue] = Cache(indexes={"flavor": flavor_names, "check": check_names})
        self.local_queues: Cache[LocalQueue] = Cache(indexes={"cluster_queue": lambda q: (q.spec.cluster_queue,)})
        self.flavors: Cache[ResourceFlavor] = Cache()
        self.rooms = Rooms(lambda name: self.workers[name].workloads, self.flavors, now)
        self.releases = OnDemand()
        """Which release of Kueue workers run: their connections read it."""
        self.waits = WorkerWaits(self.workers, self.workloads, now)
        self.closed_queues = ClosedQueues(self.leading_to, lambda keys: self._look_at_those_waiting(keys, queues))
        self.cohorts: Cache[Cohort] = Cache()
        self.checks: Cache[AdmissionCheck] = Cache(indexes={"config": config_of})
        self.configs: Cache[MultiKueueConfig] = Cache(indexes={"cluster": clusters_of})
        self.clusters: Cache[MultiKueueCluster] = Cache(indexes={"source": source_of, "file": file_of, "uid": uid_of})
        self.hub_scores = HubScores(now)
        self.spends = Spends(self.workloads, self.clusters, (self.cluster_queues, self.local_queues), now)
        self.secrets: Cache[Secret] = Cache()
        self.profiles: Cache[ClusterProfile] = Cache()
        self.namespaces: Cache[Namespace] = Cache()
        self.priority_classes: Cache[WorkloadPriorityClass] = Cache()
        self.pod_priority_classes: Cache[PriorityClass] = Cache()
        self.limit_ranges: Cache[LimitRange] = Cache()
        self.runtime_classes: Cache[RuntimeClass] = Cache()
        self.claim_templates: Cache[ResourceClaimTemplate] = Cache()
        self.device_classes: Cache[DeviceClass] = Cache()

    # Questions.

    def may_be_on(self, name: str) -> bool:
        """Whether a workload may have left something on a worker that has not been seen since this process began."""
        return any(may_be_on(local, name) for local in self.workloads.going_on() if not local.has(FINISHED))

    def has_workload(self, key: ObjectKey, /) -> bool:
        """Whether there is such a workload, even if it cannot be decoded."""
        return self.workloads.get(key) is not None or key in self.workloads.unreadable

    def has_job(self, job: AnyJob, /) -> bool:
        """Whether there is a job of its kind and name, marked with any workload: an elastic job has several."""
        key = self.adapters.key_of(job)
        return self.jobs.get(key) is not None or self.jobs.has_unreadable(key)

    def owner(self, workload: Workload) -> JobKey | None:
        """The key of the job that owns a workload."""
        return self._key_of(owner_of(workload), workload)

    def _key_of(self, owner: OwnerReference | None, workload: Workload) -> JobKey | None:
        if owner is None and is_of_group(workload):
            return JobKey(POD_GROUPS.name, *workload.key)
        adapter = self.adapters.owner(owner.api_version, owner.kind) if owner else None
        return JobKey(adapter.kind.name, workload.metadata.namespace, owner.name) if owner and adapter else None

    def failed_start(self, workload: Workload, job: AnyJob) -> Finish | None:
        """The end of a workload whose job was to run on the manager cluster and can never start; None otherwise."""
        adapter = self.adapters.of(job)
        if adapter.pod_set_info is None or not workload.has(ADMITTED):
            return None
        patch, dispatched = adapter.start_patch(job), self.multikueue_check(workload) is not None
        if patch is None or not is_local(adapter, job, workload, is_dispatched=dispatched):
            return None
        if job.metadata.deletion_timestamp is not None or not adapter.is_equivalent(job, workload):
            return None
        return failed_start(job, patch, adapter.pod_set_info, workload, ByName(self.flavors))

    def owned(self, job: AnyJob) -> tuple[Workload, ...]:
        if isinstance(job, PodGroup):
            found = self.workloads.get(job.key)
            return (found,) if found is not None and is_owned(found, job) else ()
        return self.workloads.by("owner", job.metadata.uid)

    def _is_admitted(self, job: AnyJob) -> bool:
        return any(workload.has(ADMITTED) for workload in self.owned(job))

    def local_job(self, workload: Workload) -> AnyJob | None:
        """The job that owns a workload, if it is the very one and not a later job of the same name."""
        return self.key_and_job(workload)[1]

    def key_and_job(self, workload: Workload) -> tuple[JobKey | None, AnyJob | None]:
        """As `owner`, and `local_job`."""
        owner = owner_of(workload)
        key = self._key_of(owner, workload)
        job = self.jobs.get(key) if key else None
        is_it = isinstance(job, PodGroup) or (job is not None and owner is not None and job.metadata.uid == owner.uid)
        return key, job if is_it else None

    def job_to_stop(self, workload: Workload) -> AnyJob | None:
        """The job that must stop before a deleted workload may go; None if there is none, or if it is over or deleted too.

        It decides who removes the workload's finalizer, so that it is never both: the reconcile of that job, once nothing
        of it runs; without such a job, the reconcile of the workload.
        """
        job = self.local_job(workload)
        return None if job is None or is_over(job, self.adapters.of(job)) else job

    def with_job(self, key: ObjectKey) -> Iterator[str]:
        """The workers that have a job of ours for that workload."""
        return (name for name in self.places(key) if self.workers[name].job_of(key) is not None)

    def places(self, key: ObjectKey) -> tuple[str, ...]:
        """The workers that a workload concerns by what they have, hide or were found unfit for."""
        return self._places.of(key, self.workers)

    def multikueue_check(self, workload: Workload) -> AdmissionCheck | None:
        """The first of the workload's checks that is ours (contract 3.1 E2)."""
        return self.first_of_ours([c.name for c in workload.status.admission_checks])

    def queue_check(self, queue: ClusterQueue) -> AdmissionCheck | None:
        """The MultiKueue check of a ClusterQueue."""
        return self.first_of_ours([rule.name for rule in queue.spec.admission_checks_strategy.admission_checks])

    def first_of_ours(self, names: Iterable[str]) -> AdmissionCheck | None:
        """The first MultiKueue check among those of these names."""
        for name in names:
            check = self.checks.get(ObjectKey("", name))
            if check is not None and check.spec.controller_name == CONTROLLER_NAME:
                return check
        return None

    def should_dispatch(self, namespace: str, queue: str) -> bool | None:
        """Whether all jobs of a LocalQueue are dispatched; None if it or its ClusterQueue does not exist."""
        local = self.local_queues.get(ObjectKey(namespace, queue))
        found = self.cluster_queues.get(ObjectKey("", local.spec.cluster_queue)) if local else None
        return None if found is None else self.queue_check(found) is not None and not has_manager_as_worker(found)

    def has_manager_as_worker(self, queue: ObjectKey, workload: Workload | None = None) -> bool:
        """Whether the manager cluster is a worker of the ClusterQueue where the workload has quota, or of its LocalQueue's."""
        admission, local = workload.status.admission if workload else None, self.local_queues.get(queue)
        name = admission.cluster_queue if admission else local.spec.cluster_queue if local else ""
        found = self.cluster_queues.get(ObjectKey("", name))
        return found is not None and has_manager_as_worker(found)

    def is_managed(self, namespace: str) -> bool:
        """Whether jobs of the namespace are taken in. Not of one that is not seen yet: its labels are unknown."""
        if self.managed_namespaces is None:
            return True
        found = self.namespaces.get(ObjectKey("", namespace))
        return found is not None and is_selected(self.managed_namespaces, found.metadata.labels)

    def is_never_dispatched(self, queue: ObjectKey, workloads: Iterable[Workload]) -> bool:
        """Whether a job surely goes to no worker: neither the ClusterQueues where its workloads have quota, nor, if
        none has, the one of its LocalQueue has a MultiKueue check."""
        local = self.local_queues.get(queue)
        holding = {w.status.admission.cluster_queue for w in workloads if w.status.admission is not None}
        names = holding or ({local.spec.cluster_queue} if local is not None else set())
        return bool(names) and all(self._is_without_check(name) for name in names)

    def _is_without_check(self, cluster_queue: str) -> bool:
        """Whether the queue surely has no MultiKueue check: false while the queue or one of its checks is unknown."""
        queue = self.cluster_queues.get(ObjectKey("", cluster_queue))
        known = queue is not None and all(self.checks.get(ObjectKey("", name)) for name in check_names(queue))
        return queue is not None and known and self.queue_check(queue) is None

    def files(self) -> tuple[str, ...]:
        """The paths of kubeconfig files."""
        return tuple(map(str, self.clusters.named("file")))

    def parked(self) -> tuple[Workload, ...]:
        """The workloads that fit no worker, as far as is known."""
        return self.workloads.by("parked", FITS_NO_WORKER)

    def clusters_for(self, check: AdmissionCheck | None) -> tuple[str, ...]:
        """The cluster names of a check's MultiKueueConfig, in its order."""
        name = next(iter(config_of(check)), "") if check else ""
        config = self.configs.get(ObjectKey("", name))
        return clusters_of(config) if config else ()

    def leading_to(self, cluster: str) -> Iterator[ObjectKey]:
        """The LocalQueues whose jobs may go to a cluster, if it offers their namespaces."""
        for config in self.configs.by("cluster", cluster):
            for check in self.checks.by("config", config.metadata.name):
                for queue in self.cluster_queues.by("check", check.metadata.name):
                    yield from self.local_queues.keys_by("cluster_queue", queue.metadata.name)

    def _look_at_those_waiting(self, local_queues: Iterable[ObjectKey], queues: WorkQueues) -> None:
        """Reconciles the workloads of LocalQueues that wait for a worker."""
        for queue in local_queues:
            for local in self.workloads.by("named", queue):
                if local.status.cluster_name is None and (local.has(QUOTA_RESERVED) or local.has(FITS_NO_WORKER)):
                    queues.add("workloads", local.key)

    def placement_for(
        self, local: Workload, *, option: str = "", may_workload_choose: bool = False
    ) -> contract.Placement | None:
        """The strategy's view of the Placement named for a workload, None if none is; the workload is reconciled at its
        changes.

        The most specific name counts: workload and job if they may name one (`may_workload_choose`), LocalQueue, ClusterQueue,
        AdmissionCheck, the strategy's option.
        """
        check = self.multikueue_check(local)
        queue = self.local_queues.get(queue_of(local))
        cluster_queue = self.cluster_queues.get(ObjectKey("", queue.spec.cluster_queue)) if queue else None
        own = (local, self.local_job(local)) if may_workload_choose else ()
        givers = (*own, queue, cluster_queue, check)
        wanted = named(givers, option=option, namespace=self.namespace)
        return self.placements.view(local.key, wanted, self.clusters_for(check))

    def has_placement(self, local: Workload) -> bool:
        """Whether a workload or its job names a Placement."""
        givers = (local, self.local_job(local))
        return any(giver is not None and PLACEMENT_ANNOTATION in giver.metadata.annotations for giver in givers)

    def may_run_beside(self, key: ObjectKey, name: str) -> Iterator[str]:
        """The other workers that have the job of a workload, or may have it."""
        return (n for n in self.places(key) if n != name and self.workers[n].may_run(key))

    def caches(self) -> Iterator[tuple[str, Kind[Any], Cache[Any]]]:
        """All caches, each with its cluster (empty: the manager's) and kind."""
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
            (kinds.RESOURCE_CLAIM_TEMPLATES, self.claim_templates),
            (kinds.DEVICE_CLASSES, self.device_classes),
        )
        yield from (("", kind, cache) for kind, cache in own)
        yield from (("", kind, self.jobs.of(kind)) for kind in self.jobs.kinds)
        for name, worker in self.workers.items():
            yield name, kinds.WORKLOADS, worker.workloads
            yield from ((name, kind, worker.jobs.of(kind)) for kind in worker.jobs.kinds)
