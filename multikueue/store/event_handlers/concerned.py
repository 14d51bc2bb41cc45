"""The keys that a change concerns, from the change and the state with that change already applied. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from multikueue.api.jobs.job import AnyJob, Job, JobKey
from multikueue.api.jobs.pod import Pod, PodGroup
from multikueue.api.kinds import POD_GROUPS
from multikueue.api.kubernetes.builtins import Namespace, Secret
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, LocalQueue, WorkloadPriorityClass
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    Workload,
    owner_of,
    queue_of,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import ClusterProfile, MultiKueueCluster, MultiKueueConfig
from multikueue.api.values.foreign import answer_or
from multikueue.dispatch.remote import attempt_of, is_of_attempt, is_won_elsewhere
from multikueue.jobs.framework.adapter import Adapter, is_told_at_home
from multikueue.jobs.framework.nesting import is_whole
from multikueue.jobs.framework.workloads import is_of_group
from multikueue.quota.cache.status import check_names, flavor_names
from multikueue.store.caches.groups import group_key
from multikueue.store.event_handlers.changes import Change, is_result_alone
from multikueue.store.queues import Key
from multikueue.store.state import State
from multikueue.store.workers.known_objects import prebuilt_key

T = TypeVar("T")

ONCE = ("",)
"""The only key of `admission`; of `capacity`, the one that stands for no worker."""


def once(_change: Change[Any], _state: State) -> Iterable[Key]:
    return ONCE


def itself(change: Change[Any], _state: State) -> Iterable[Key]:
    """The object's own key, unless its own reconcile writes it. For namespaced kinds."""
    return () if change.is_own else (change.seen.key,)


def name_of(change: Change[Any], _state: State) -> Iterable[str]:
    return (change.seen.metadata.name,)


# A Workload.


def workloads_beside(change: Change[Workload], state: State) -> Iterable[Key]:
    """The other slices of its job."""
    return state.slices.beside(change.seen) if state.slices is not None else ()


def jobs_of(change: Change[Workload], state: State) -> Iterator[Key]:
    """The workload's owner, the jobs nested in it, and for a StatefulSet the group of its Pods."""
    workload = change.seen
    key, owner = state.owner(workload), owner_of(workload)
    if key is not None:
        yield key
    if owner is not None:
        yield from state.nesting.below(owner.uid)
    if key is not None and is_of_group(workload) and key.kind != POD_GROUPS.name:
        yield JobKey(POD_GROUPS.name, *workload.key)


def cluster_queues_of(change: Change[Workload], state: State) -> Iterable[Key]:
    """The ClusterQueues in which the workload waits or counts. It counts where it was admitted, even if its LocalQueue
    is gone or leads elsewhere now."""
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
    """The job itself; a group of Pods is reconciled by the changes of its members."""
    job = change.seen
    if not isinstance(job, PodGroup) and not change.is_own:
        yield state.adapters.key_of(job)


def its_group(change: Change[AnyJob], _state: State) -> Iterable[JobKey]:
    """The groups of a Pod, before and after the change."""
    if not isinstance(change.seen, Pod):
        return ()
    pods = (each for each in change.both if type(each) is Pod)
    return dict.fromkeys(JobKey(POD_GROUPS.name, *key) for pod in pods for key in group_key(pod))


def jobs_in_namespace(change: Change[Namespace], state: State) -> Iterable[Key]:
    """All jobs of the namespace, where it depends on the namespace whether they are taken in."""
    if state.managed_namespaces is not None:
        yield from (job for job in state.jobs.all_keys() if job.namespace == change.seen.metadata.name)


def jobs_below(change: Change[AnyJob], state: State) -> Iterable[Key]:
    job = change.seen
    return state.nesting.below(job.metadata.uid) if is_whole(state.adapters.of(job)) else ()


def workloads_of(change: Change[AnyJob], state: State) -> Iterable[Key]:
    """The job's workloads, unless its own reconcile starts it while it runs on a worker: no workload depends on that."""
    return () if _is_own_start(change) else (workload.key for workload in state.owned(change.seen))


def _is_own_start(change: Change[AnyJob]) -> bool:
    """Of the writes that their reconcile holds back, a start is the one of the spec."""
    old, new = change.old, change.new
    return change.is_own and old is not None and new is not None and old.metadata.generation != new.metadata.generation


# Copies and jobs on workers.


def workloads_of_a_copy(change: Change[Workload], state: State) -> Iterable[Key]:
    return () if _is_told_by_its_job(change, state) else _concerned(change.seen.key, change, state)


def _is_told_by_its_job(change: Change[Workload], state: State) -> bool:
    """Whether the copy only reports the end of its job, which the job has reported itself: the local job gets that status
    first, and wakes the workload."""
    old, new = change.old, change.new
    if old is None or new is None or not is_result_alone(old, new):
        return False
    local = state.workloads.get(new.key)
    if local is None or not _should_run_on(local, change.worker):
        return False
    job, held = state.local_job(local), state.workers[change.worker].job_of(new.key)
    if job is None or held is None or state.adapters.of(job).is_external:
        return False
    adapter, attempt = state.adapters.of(held), attempt_of(local)
    return is_of_attempt(held, local, attempt) and answer_or(
        lambda: adapter.finished(held) is not None, otherwise=False
    )


def workloads_of_a_remote_job(change: Change[AnyJob], state: State) -> Iterator[Key]:
    for key in prebuilt_key(change.seen):
        yield from _concerned(key, change, state)


def _concerned(key: ObjectKey, change: Change[Any], state: State) -> Iterator[Key]:
    """The workload and its later slices. A deletion on a worker is news only while the workload needs it, or may need it by
    the status that is being written."""
    yield from _later_slices(key, state)
    is_leaving = change.new is None or change.new.metadata.deletion_timestamp is not None
    if not (is_leaving and _is_settled_elsewhere(key, change.worker, state)):
        yield key


def _later_slices(key: ObjectKey, state: State) -> Iterable[ObjectKey]:
    return state.slices.after(key) if state.slices is not None else ()


def workloads_affected_by_its_pods(change: Change[AnyJob], state: State) -> Iterator[Key]:
    """A change between pods and no pods is news only where the pods have to go, or should not be."""
    if change.old is None or change.new is None:
        return
    for key in prebuilt_key(change.seen):
        local = state.workloads.get(key)
        if local is None or state.slices is not None or not _should_run_on(local, change.worker):
            yield from _later_slices(key, state)
            yield key


def _should_run_on(local: Workload, worker: str) -> bool:
    """Whether a workload is to run on that worker, and is not being stopped."""
    stops = local.metadata.deletion_timestamp is not None or local.has(EVICTED) or local.has(FINISHED)
    return local.has(ADMITTED) and local.status.cluster_name == worker and not stops


def _is_settled_elsewhere(key: ObjectKey, worker: str, state: State) -> bool:
    """Also by the status that is being written, if there is one."""
    local, written = state.workloads.get(key), state.written.get(key)
    if local is None or local.metadata.deletion_timestamp is not None or local.has(EVICTED):
        return False
    if written is not None and not is_won_elsewhere(written, worker):
        return False
    winner = local.status.cluster_name
    return local.has(FINISHED) or bool(winner and winner != worker)


def workloads_waiting_for_pods(change: Change[AnyJob], state: State) -> Iterator[Key]:
    """The workloads that need the number of ready pods (`waitForPodsReady`), which the local job does not show."""
    for key in local_job_of(change, state) if state.should_wait_for_pods else ():
        local = state.jobs.get(key)  # also of a group
        if local is not None and not is_told_at_home(state.adapters.of(local), local):
            yield from (workload.key for workload in state.owned(local))


def local_job_of(change: Change[AnyJob], state: State) -> Iterator[JobKey]:
    """The local job of a remote job. The rest of a finished job on a worker is the workload reconciler's concern, and a
    remote job that still waits has no status for a local job that has not started."""
    job = change.seen
    if not isinstance(job, PodGroup):
        key = state.adapters.key_of(job)
        local = state.jobs.get(key)
        if local is None or not _has_no_news_for(local, change, state):
            yield key
    yield from its_group(change, state)


def _has_no_news_for(local: AnyJob, change: Change[AnyJob], state: State) -> bool:
    adapter = state.adapters.of(local)
    if adapter.finished(local) is not None or _has_same_status(change):
        return True
    return adapter.may_resume and adapter.is_suspended(local) and _is_idle(change, state.adapters.of(change.seen))


def _has_same_status(change: Change[AnyJob]) -> bool:
    """Whether it is a batch Job whose status and metadata did not change, as when Kueue there starts it: the local Job gets
    nothing but the status."""
    old, new = change.old, change.new
    if type(old) is not Job or type(new) is not Job or old.status != new.status:
        return False
    before, after = old.metadata, new.metadata
    return (before.uid, before.labels, before.annotations, before.deletion_timestamp) == (
        after.uid,
        after.labels,
        after.annotations,
        after.deletion_timestamp,
    )


def _is_idle(change: Change[AnyJob], adapter: Adapter) -> bool:
    """Whether the job exists, and neither has pods nor an end, before and after the change."""
    return change.new is not None and all(_is_waiting(adapter, job) for job in change.both)


def _is_waiting(adapter: Adapter, job: AnyJob) -> bool:
    return answer_or(lambda: adapter.finished(job) is None and not adapter.is_active(job), otherwise=False)


# Queues and quota.


def moved(change: Change[Any], _state: State) -> Iterable[str]:
    return change.moved


def queues_with_check(change: Change[AdmissionCheck], state: State) -> Iterable[str]:
    return (queue.metadata.name for queue in state.cluster_queues.by("check", change.seen.metadata.name))


def flavors_no_more_used(change: Change[ClusterQueue], _state: State) -> Iterable[Key]:
    """Flavors that a ClusterQueue no longer names: their finalizer may have been kept for it alone."""
    return _dropped(flavor_names, change)


def checks_no_more_used(change: Change[ClusterQueue], _state: State) -> Iterable[Key]:
    return _dropped(check_names, change)


def _dropped(names: Callable[[ClusterQueue], Iterable[str]], change: Change[ClusterQueue]) -> set[str]:
    old, new = (set(names(each)) if each is not None else set() for each in (change.old, change.new))
    return old - new


def jobs_waiting_there(change: Change[ClusterQueue], state: State) -> Iterator[Key]:
    """The jobs in the queue: whether they are dispatched may have changed, also because a queue of this name is new."""
    if change.new is not None:
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
    return state.workloads.keys_by("named", change.seen.metadata.name)


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
    """Among them those that get such a check by a write under way: what was decided for it is of before the change."""
    for name in names:
        yield from (workload.key for workload in state.workloads.by("check", name))
        for key, status in state.written.items():
            if any(check.name == name for check in status.admission_checks):
                yield key


def clusters_of_secret(change: Change[Secret], state: State) -> Iterable[Key]:
    return clusters_read_from("Secret", change.seen.metadata.name, state)


def clusters_of_profile(change: Change[ClusterProfile], state: State) -> Iterable[Key]:
    return clusters_read_from("ClusterProfile", change.seen.metadata.name, state)


def clusters_read_from(type_: str, location: str, state: State) -> Iterable[Key]:
    return (cluster.metadata.name for cluster in state.clusters.by("source", (type_, location)))


def the_worker(change: Change[Any], _state: State) -> Iterable[Key]:
    return (change.worker,)


def workloads_dispatched_there(change: Change[Any], state: State) -> Iterable[Key]:
    """The workloads that are or may be dispatched to a worker, and those that only name it: until it was seen, or is lost,
    it may hold a job of such a workload, even if it left the configuration."""
    worker = state.workers[change.worker]
    found = worker.held() | worker.expectations.awaited()
    found.update(state.workloads.keys_by("worker", change.worker))
    found.update(_with_checks(_checks_over(change.worker, state), state))
    return found


def workloads_it_may_win(change: Change[Any], state: State) -> Iterator[Key]:
    """The workloads without a winner that the worker has taken: it can win them only while it answers."""
    for copy in state.workers[change.worker].workloads:
        local = state.workloads.get(copy.key)
        if local is not None and local.status.cluster_name is None and copy.has(ADMITTED):
            yield copy.key
