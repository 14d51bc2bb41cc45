"""Which keys are looked at again after a change: one table, by kind and by what of an object changed.

A row says: if this aspect of an object is another than before, or the object came or went, these keys go to these queues.
Functions here are pure: they answer from one change and what the state has, with that change taken in already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from multikueue.api.core import LimitRange, Namespace, RuntimeClass, Secret
from multikueue.api.foreign import asked
from multikueue.api.job import AnyJob, JobKey
from multikueue.api.kinds import POD_GROUPS
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.multikueue import AdmissionCheck, ClusterProfile, MultiKueueCluster, MultiKueueConfig
from multikueue.api.pod import POD_FINALIZER, Pod, PodGroup
from multikueue.api.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.workload import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    Workload,
    owner_of,
    queue_of,
)
from multikueue.dispatch.fit import is_suspected
from multikueue.jobs.adapter import Adapter
from multikueue.jobs.nesting import is_whole
from multikueue.jobs.pod_members import able
from multikueue.jobs.workloads import is_of_group
from multikueue.quota.cache.status import check_names, flavor_names
from multikueue.store.groups import group_key
from multikueue.store.nesting import controllers
from multikueue.store.queues import Key, Queue
from multikueue.store.state import State
from multikueue.store.worker import WorkerAspect, prebuilt_key

__all__ = ["Change", "Row", "Table", "To", "keys_after"]

T = TypeVar("T")

ANNOTATIONS = "multikueue.dev/"
"""What all our annotations begin with."""

ALL = ("",)
"""The only key of `admission`."""


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after; None: it is not there.

    `worker` is the one that has it, empty for the manager cluster. `is_own`: it may be what its own reconcile writes just now,
    which is woken later, if at all. `moved` are the ClusterQueues whose quota is another by it.
    """

    old: T | None
    new: T | None
    worker: str = ""
    is_own: bool = False
    moved: tuple[str, ...] = ()

    @property
    def seen(self) -> T:
        """The newest that was seen of it."""
        seen = self.new if self.new is not None else self.old
        assert seen is not None
        return seen

    @property
    def both(self) -> tuple[T, ...]:
        return tuple(each for each in (self.old, self.new) if each is not None)


@dataclass(frozen=True, slots=True)
class To(Generic[T]):
    """A queue, and the keys that go there."""

    queue: Queue
    keys: Callable[[Change[T], State], Iterable[Key]]


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """If `aspect` of an object has changed, or it came or went: these keys go to these queues. None: after each change."""

    aspect: Callable[[T, State], object] | None
    targets: tuple[To[T], ...]

    def is_due(self, change: Change[T], state: State) -> bool:
        if self.aspect is None or change.old is None or change.new is None:
            return True
        return self.aspect(change.old, state) != self.aspect(change.new, state)


Table = tuple[Row[T], ...]
"""The rows of a kind."""


def keys_after(rows: Iterable[Row[T]], change: Change[T], state: State) -> Iterator[tuple[Queue, Key]]:
    """What to look at again, in order; a key may come more than once."""
    for row in rows:
        if row.is_due(change, state):
            for to in row.targets:
                for key in to.keys(change, state):
                    yield to.queue, key


# Aspects of an object: two values that differ are a change.


def presence(_item: object, _state: State) -> object:
    """Only that it came or went."""
    return None


def spec(item: Object, _state: State) -> object:
    meta = item.metadata
    return meta.generation, meta.uid, meta.deletion_timestamp is None


def said(item: Object, _state: State) -> object:
    """What is said to us by annotations."""
    return {name: text for name, text in item.metadata.annotations.items() if name.startswith(ANNOTATIONS)}


def all_annotations(item: Object, _state: State) -> object:
    return item.metadata.annotations


def checks(queue: ClusterQueue, _state: State) -> object:
    return check_names(queue)


def route(queue: LocalQueue, _state: State) -> object:
    """Where it leads: whether jobs that wait there are dispatched may be another question then."""
    return queue.spec.cluster_queue


def value(priority: WorkloadPriorityClass, _state: State) -> object:
    return priority.value


def workload_for_its_job(workload: Workload, _state: State) -> object:
    """What the job of a workload depends on. That quota was reserved is not among it: the job waits on."""
    meta, status = workload.metadata, workload.status
    states = tuple(workload.has(type_) for type_ in (ADMITTED, EVICTED, FINISHED))
    return states, status.cluster_name, meta.generation, meta.uid, meta.deletion_timestamp is None, meta.annotations


def job_for_its_workload(job: AnyJob, state: State) -> object:
    """What the workload of a job depends on; of running counts only whether they suffice, where that matters."""
    meta, adapter, completed = job.metadata, state.adapters.of(job), state.runtimes.completed(job)
    ready = adapter.ready_pods(completed) if state.minds_pods else 0
    freed, copyable = adapter.reclaimable(completed), adapter.may_be_copied(job)
    states = adapter.finished(job), copyable, freed, ready, state.runs_here(job), able(job)
    return meta.generation, meta.deletion_timestamp is None, states, said(job, state)


def job_for_those_below(job: AnyJob, state: State) -> object:
    """What those depend on that belong to a job."""
    adapter = state.adapters.of(job)
    return (job.metadata.uid, adapter.queue_name(job), controllers(job)) if is_whole(adapter) else None


_DECISIVE = frozenset({ADMITTED, EVICTED, FINISHED, DEACTIVATION_TARGET})


def copy_for_a_decision(copy: Workload, _state: State) -> object:
    """A worker's Kueue writes more than that: finalizers, owners, pending messages but for the one that it can never hold
    it."""
    states = tuple(
        (c.type, c.status, c.reason)
        for c in copy.status.conditions
        if c.type in _DECISIVE or c.reason == "Inadmissible"
    )
    meta = copy.metadata
    return states, is_suspected(copy), meta.deletion_timestamp is None, meta.uid, meta.annotations, bytes(copy.spec)


def remote_job_for_a_decision(job: AnyJob, _state: State) -> object:
    meta = job.metadata
    is_kept = type(job) is Pod and POD_FINALIZER in meta.finalizers  # it counts in its group, also while it is deleted
    return meta.deletion_timestamp is None, is_kept, meta.uid, meta.annotations


def has_pods(job: AnyJob, state: State) -> object:
    """The worker's words may be odd; what comes after them must be seen all the same."""
    adapter = state.adapters.of(job)
    return asked(lambda: adapter.is_active(job), otherwise=None)


# Keys after a change.


def once(_change: Change[Any], _state: State) -> Iterable[Key]:
    return ALL


def itself(change: Change[Any], _state: State) -> Iterable[Key]:
    """An object with a namespace, unless its own reconcile writes it."""
    return () if change.is_own else (change.seen.key,)


def its_name(change: Change[Any], _state: State) -> Iterable[Key]:
    return (change.seen.metadata.name,)


# A Workload.


def slices_beside(change: Change[Workload], state: State) -> Iterable[Key]:
    return state.slices.beside(change.seen) if state.slices is not None else ()


def jobs_of(change: Change[Workload], state: State) -> Iterator[Key]:
    """Its owner, what belongs to that, and, where it is a StatefulSet, the group of its Pods."""
    workload = change.seen
    key, owner = state.owner(workload), owner_of(workload)
    if key is not None:
        yield key
    if owner is not None:
        yield from state.nesting.below(owner.uid)
    if key is not None and is_of_group(workload) and key.kind != POD_GROUPS.name:
        yield JobKey(POD_GROUPS.name, *workload.key)


def cluster_queues_of(change: Change[Workload], state: State) -> Iterable[Key]:
    """Those in which it waits or counts; it counts where it was admitted, even if its LocalQueue is gone or another one of
    that name leads elsewhere."""
    found: dict[str, None] = {}
    for seen in change.both:
        local, admission = state.local_queues.get(queue_of(seen)), seen.status.admission
        if local is not None:
            found[local.spec.cluster_queue] = None
        if admission is not None:
            found[admission.cluster_queue] = None
    return found


def local_queues_of(change: Change[Workload], state: State) -> Iterable[Key]:
    keys = dict.fromkeys(map(queue_of, change.both))
    return (key for key in keys if state.local_queues.get(key) is not None)


# A job.


def its_job_key(change: Change[AnyJob], state: State) -> Iterator[Key]:
    """A group of Pods is looked at when a member changes."""
    job = change.seen
    if not isinstance(job, PodGroup) and not change.is_own:
        yield JobKey(state.adapters.of(job).kind.name, job.metadata.namespace, job.metadata.name)


def its_group(change: Change[AnyJob], _state: State) -> Iterable[JobKey]:
    """Of a Pod, before and after."""
    pods = (each for each in change.both if type(each) is Pod)
    return dict.fromkeys(JobKey(POD_GROUPS.name, *key) for pod in pods for key in group_key(pod))


def jobs_below(change: Change[AnyJob], state: State) -> Iterable[Key]:
    job = change.seen
    return state.nesting.below(job.metadata.uid) if is_whole(state.adapters.of(job)) else ()


def workloads_of(change: Change[AnyJob], state: State) -> Iterable[Key]:
    return (workload.key for workload in state.owned(change.seen))


# What workers have of a workload.


def workloads_of_a_copy(change: Change[Workload], state: State) -> Iterable[Key]:
    return _concerned(change.seen.key, change, state)


def workloads_of_a_remote_job(change: Change[AnyJob], state: State) -> Iterator[Key]:
    for key in prebuilt_key(change.seen):
        yield from _concerned(key, change, state)


def _concerned(key: ObjectKey, change: Change[Any], state: State) -> Iterator[Key]:
    """What leaves a worker is news only as long as the workload still waits for it, or runs there."""
    yield from _later_slices(key, state)
    is_leaving = change.new is None or change.new.metadata.deletion_timestamp is not None
    if not (is_leaving and _is_settled_elsewhere(state.workloads.get(key), change.worker)):
        yield key


def _later_slices(key: ObjectKey, state: State) -> Iterable[ObjectKey]:
    return state.slices.after(key) if state.slices is not None else ()


def workloads_that_mind_its_pods(change: Change[AnyJob], state: State) -> Iterator[Key]:
    """Whether the job of a worker has pods is news only where they have to go, or should not be."""
    if change.old is None or change.new is None:
        return
    for key in prebuilt_key(change.seen):
        local = state.workloads.get(key)
        if local is None or state.slices is not None or not _runs_on(local, change.worker):
            yield from _later_slices(key, state)
            yield key


def _runs_on(local: Workload, worker: str) -> bool:
    """Whether a workload is to run on that worker, and nothing says otherwise."""
    stops = local.metadata.deletion_timestamp is not None or local.has(EVICTED) or local.has(FINISHED)
    return local.has(ADMITTED) and local.status.cluster_name == worker and not stops


def _is_settled_elsewhere(local: Workload | None, worker: str) -> bool:
    if local is None or local.metadata.deletion_timestamp is not None or local.has(EVICTED):
        return False
    winner = local.status.cluster_name
    return local.has(FINISHED) or bool(winner and winner != worker)


def local_job_of(change: Change[AnyJob], state: State) -> Iterator[Key]:
    """The job here of one on a worker; what is left there of a job that is over is its workload's affair, and one that only
    waits there has nothing to say before it is started here."""
    yield from _unfinished(change, state)


def workloads_waiting_for_pods(change: Change[AnyJob], state: State) -> Iterator[Key]:
    """Where somebody minds pods, and nobody copies their number into the job here."""
    for key in _unfinished(change, state) if state.minds_pods else ():
        local = state.jobs.get(key)  # be it a group
        if local is not None and not state.adapters.of(local).mirrors:
            yield from (workload.key for workload in state.owned(local))


def _unfinished(change: Change[AnyJob], state: State) -> Iterator[JobKey]:
    job = change.seen
    if not isinstance(job, PodGroup):
        key = JobKey(state.adapters.of(job).kind.name, job.metadata.namespace, job.metadata.name)
        local = state.jobs.get(key)
        if local is None or not _says_nothing_to(local, change, state):
            yield key
    yield from its_group(change, state)


def _says_nothing_to(local: AnyJob, change: Change[AnyJob], state: State) -> bool:
    adapter = state.adapters.of(local)
    if adapter.finished(local) is not None:
        return True
    return adapter.resumes and adapter.is_suspended(local) and _is_idle(change, state.adapters.of(change.seen))


def _is_idle(change: Change[AnyJob], adapter: Adapter) -> bool:
    """Whether a job that is there neither has pods nor shows an end, and did not before."""
    return change.new is not None and all(_waits(adapter, job) for job in change.both)


def _waits(adapter: Adapter, job: AnyJob) -> bool:
    return asked(lambda: adapter.finished(job) is None and not adapter.is_active(job), otherwise=False)


# Queues and quota.


def _in_cluster_queues(names: Callable[[Change[T], State], Iterable[str]]) -> tuple[To[T], ...]:
    """All that waits in these ClusterQueues, and their own statuses."""

    def local_queues(change: Change[T], state: State) -> Iterator[ObjectKey]:
        for name in names(change, state):
            yield from (local.key for local in state.local_queues.by("cluster_queue", name))

    def workloads(change: Change[T], state: State) -> Iterator[Key]:
        for key in local_queues(change, state):
            yield from state.workloads.keys_by("named", key)

    def admission(change: Change[T], state: State) -> Iterable[Key]:
        return ALL if any(True for _ in names(change, state)) else ()

    return (
        To("admission", admission),
        To("cluster_queues", names),
        To("local_queues", local_queues),
        To("workloads", workloads),
    )


def name_of(change: Change[Any], _state: State) -> Iterable[str]:
    return (change.seen.metadata.name,)


def moved(change: Change[Any], _state: State) -> Iterable[str]:
    return change.moved


def queues_with_check(change: Change[AdmissionCheck], state: State) -> Iterable[str]:
    return (queue.metadata.name for queue in state.cluster_queues.by("check", change.seen.metadata.name))


def flavors_no_more_used(change: Change[ClusterQueue], _state: State) -> Iterable[Key]:
    """What a ClusterQueue names no more may have been kept for it alone."""
    return _dropped(flavor_names, change)


def checks_no_more_used(change: Change[ClusterQueue], _state: State) -> Iterable[Key]:
    return _dropped(check_names, change)


def _dropped(names: Callable[[ClusterQueue], Iterable[str]], change: Change[ClusterQueue]) -> set[str]:
    old, new = (set(names(each)) if each is not None else set() for each in (change.old, change.new))
    return old - new


def jobs_waiting_there(change: Change[ClusterQueue], state: State) -> Iterator[Key]:
    """Whether jobs that wait there are dispatched may be another question now."""
    if change.old is not None and change.new is not None:
        yield from _jobs_in(change.seen.metadata.name, state)


def jobs_that_wait_for_check(change: Change[AdmissionCheck], state: State) -> Iterator[Key]:
    for name in queues_with_check(change, state):
        yield from _jobs_in(name, state)


def _jobs_in(cluster_queue: str, state: State) -> Iterator[Key]:
    for local in state.local_queues.by("cluster_queue", cluster_queue):
        yield from _owners(state.workloads.by("named", local.key), state)


def _owners(workloads: Iterable[Workload], state: State) -> Iterator[Key]:
    return (key for key in map(state.owner, workloads) if key is not None)


def workloads_in_local_queues(change: Change[ClusterQueue], state: State) -> Iterator[Key]:
    for local in state.local_queues.by("cluster_queue", change.seen.metadata.name):
        yield from state.workloads.keys_by("named", local.key)


def its_cluster_queue(change: Change[LocalQueue], _state: State) -> Iterable[Key]:
    return (change.seen.spec.cluster_queue,)


def workloads_in_it(change: Change[LocalQueue], state: State) -> Iterable[Key]:
    return state.workloads.keys_by("named", change.seen.key)


def jobs_in_it(change: Change[LocalQueue], state: State) -> Iterable[Key]:
    return _owners(state.workloads.by("named", change.seen.key), state)


def workloads_of_class(change: Change[WorkloadPriorityClass], state: State) -> Iterable[Key]:
    return (workload.key for workload in state.workloads.by("named", change.seen.metadata.name))


# Checks and workers.


def workloads_with_check(change: Change[AdmissionCheck], state: State) -> Iterable[Key]:
    return _with_checks((change.seen.metadata.name,), state)


def checks_with_config(change: Change[MultiKueueConfig], state: State) -> Iterable[str]:
    return (check.metadata.name for check in state.checks.by("config", change.seen.metadata.name))


def workloads_with_config(change: Change[MultiKueueConfig], state: State) -> Iterable[Key]:
    return _with_checks(checks_with_config(change, state), state)


def checks_with_cluster(change: Change[MultiKueueCluster], state: State) -> Iterable[str]:
    return _checks_over(change.seen.metadata.name, state)


def workloads_with_cluster(change: Change[MultiKueueCluster], state: State) -> Iterable[Key]:
    return _with_checks(checks_with_cluster(change, state), state)


def _checks_over(cluster: str, state: State) -> Iterator[str]:
    for config in state.configs.by("cluster", cluster):
        yield from (check.metadata.name for check in state.checks.by("config", config.metadata.name))


def _with_checks(names: Iterable[str], state: State) -> Iterator[ObjectKey]:
    for name in names:
        yield from (workload.key for workload in state.workloads.by("check", name))


def clusters_of_secret(change: Change[Secret], state: State) -> Iterable[Key]:
    return clusters_read_from("Secret", change.seen.metadata.name, state)


def clusters_of_profile(change: Change[ClusterProfile], state: State) -> Iterable[Key]:
    return clusters_read_from("ClusterProfile", change.seen.metadata.name, state)


def clusters_read_from(type_: str, location: str, state: State) -> Iterable[Key]:
    return (cluster.metadata.name for cluster in state.clusters.by("source", (type_, location)))


def the_worker(change: Change[Any], _state: State) -> Iterable[Key]:
    return (change.worker,)


def workloads_dispatched_there(change: Change[Any], state: State) -> Iterable[Key]:
    """All that is dispatched to a worker, or may be."""
    found = state.workers[change.worker].held()
    found.update(_with_checks(_checks_over(change.worker, state), state))
    return found


def workloads_it_may_win(change: Change[Any], state: State) -> Iterator[Key]:
    """Who may win what a worker has admitted is another question once it falls silent, or answers again."""
    for copy in state.workers[change.worker].workloads:
        local = state.workloads.get(copy.key)
        if local is not None and local.status.cluster_name is None and copy.has(ADMITTED):
            yield copy.key


# The table.

WORKLOAD: Table[Workload] = (
    Row(None, (To("admission", once), To("workloads", itself), To("workloads", slices_beside))),
    Row(workload_for_its_job, (To("jobs", jobs_of),)),
    Row(None, (To("cluster_queues", cluster_queues_of), To("local_queues", local_queues_of))),
)

JOB: Table[AnyJob] = (
    Row(None, (To("jobs", its_job_key),)),
    Row(job_for_those_below, (To("jobs", jobs_below),)),
    Row(job_for_its_workload, (To("workloads", workloads_of),)),
    Row(None, (To("jobs", its_group),)),
)

COPY: Table[Workload] = (Row(copy_for_a_decision, (To("workloads", workloads_of_a_copy),)),)
"""A Workload on a worker."""

REMOTE_JOB: Table[AnyJob] = (
    Row(None, (To("jobs", local_job_of), To("workloads", workloads_waiting_for_pods))),
    Row(remote_job_for_a_decision, (To("workloads", workloads_of_a_remote_job),)),
    Row(has_pods, (To("workloads", workloads_that_mind_its_pods),)),
)
"""A job on a worker."""

CLUSTER_QUEUE: Table[ClusterQueue] = (
    Row(spec, _in_cluster_queues(name_of)),
    Row(spec, (To("flavors", flavors_no_more_used), To("checks", checks_no_more_used))),
    Row(checks, (To("jobs", jobs_waiting_there),)),
    Row(said, (To("admission", once), To("cluster_queues", its_name), To("workloads", workloads_in_local_queues))),
)

LOCAL_QUEUE: Table[LocalQueue] = (
    Row(spec, (To("admission", once), To("cluster_queues", its_cluster_queue), To("local_queues", itself))),
    Row(spec, (To("workloads", workloads_in_it),)),
    Row(route, (To("jobs", jobs_in_it),)),
    Row(said, (To("workloads", workloads_in_it),)),
)

FLAVOR: Table[ResourceFlavor] = (Row(None, (*_in_cluster_queues(moved), To("flavors", its_name))),)

COHORT: Table[Cohort] = (Row(None, _in_cluster_queues(moved)), Row(spec, (To("cohorts", its_name),)))

NAMESPACE: Table[Namespace] = (Row(None, (To("admission", once),)),)
LIMIT_RANGE: Table[LimitRange] = (Row(None, (To("admission", once),)),)
RUNTIME_CLASS: Table[RuntimeClass] = (Row(None, (To("admission", once),)),)

CHECK: Table[AdmissionCheck] = (
    Row(None, (To("checks", its_name), *_in_cluster_queues(moved))),
    Row(spec, (*_in_cluster_queues(queues_with_check), To("workloads", workloads_with_check))),
    Row(presence, (To("jobs", jobs_that_wait_for_check),)),
    Row(said, (To("workloads", workloads_with_check),)),
)

CONFIG: Table[MultiKueueConfig] = (
    Row(None, (To("checks", checks_with_config), To("workloads", workloads_with_config))),
)

CLUSTER: Table[MultiKueueCluster] = (
    Row(None, (To("clusters", its_name), To("checks", checks_with_cluster))),
    Row(all_annotations, (To("workloads", workloads_with_cluster),)),
)

SECRET: Table[Secret] = (Row(None, (To("clusters", clusters_of_secret),)),)
PROFILE: Table[ClusterProfile] = (Row(None, (To("clusters", clusters_of_profile),)),)

PRIORITY_CLASS: Table[WorkloadPriorityClass] = (Row(value, (To("workloads", workloads_of_class),)),)
"""The value of a class is written into every workload that names it (quota-engine 1.4)."""

_REACH: Table[Any] = (Row(None, (To("clusters", the_worker), To("workloads", workloads_dispatched_there))),)

WORKER: Mapping[WorkerAspect, Table[Any]] = {
    "reach": _REACH,
    "use": _REACH,
    "silence": (Row(None, (To("workloads", workloads_it_may_win),)),),
    "why": (),
}
"""By what of a worker changed."""
