"""One change of one object, and the aspects of objects: an aspect has changed if its two values differ."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import POD_FINALIZER, Pod
from multikueue.api.kueue.queues import (
    FOLLOW_ANNOTATION,
    ClusterQueue,
    LocalQueue,
    WorkloadPriorityClass,
    has_manager_as_worker,
)
from multikueue.api.kueue.unadmitted import NEVER_ADMITTED
from multikueue.api.kueue.workload import (
    ADMITTED,
    DEACTIVATION_TARGET,
    EVICTED,
    FAILED,
    FINISHED,
    SUCCEEDED,
    Workload,
)
from multikueue.api.meta import Object
from multikueue.api.multikueue.clusters import MultiKueueCluster
from multikueue.api.values.foreign import answer_or
from multikueue.dispatch.copies.preemption_gates import BLOCKED
from multikueue.jobs.framework.adapter import OwnJob
from multikueue.jobs.framework.nesting import is_whole
from multikueue.jobs.kinds.pods.members import able
from multikueue.quota.cache.status import check_names
from multikueue.store.caches.jobs import controllers
from multikueue.store.state import State
from multikueue.workload.fit import is_suspected

__all__ = ["Change"]

T = TypeVar("T")

ANNOTATIONS = "multikueue.dev/"
"""The prefix of all our annotations."""


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after; None: it does not exist.

    `worker` has the object; empty for the manager cluster. `is_own`: the change may be the write that its own reconcile
    has under way, which is woken later, if at all. `moved`: the ClusterQueues whose quota the change affects.
    """

    old: T | None
    new: T | None
    worker: str = ""
    is_own: bool = False
    moved: tuple[str, ...] = ()

    @property
    def seen(self) -> T:
        """The newest version seen."""
        seen = self.new if self.new is not None else self.old
        assert seen is not None
        return seen

    @property
    def both(self) -> tuple[T, ...]:
        if self.old is None or self.new is None:
            return (self.seen,)
        return self.old, self.new


def presence(_item: object, _state: State) -> object:
    """Nothing of the object: only its creation and deletion count."""
    return None


def labels(item: Object, _state: State) -> object:
    return item.metadata.labels


def spec(item: Object, _state: State) -> object:
    meta = item.metadata
    return meta.generation, meta.uid, meta.deletion_timestamp is None


def status(item: ClusterQueue | LocalQueue, _state: State) -> object:
    """Only the leader writes it, but what a former leader sent may arrive late."""
    return item.status


def said(item: Object, _state: State) -> object:
    """Our annotations."""
    return {name: text for name, text in item.metadata.annotations.items() if name.startswith(ANNOTATIONS)}


def worker_for_workloads(cluster: MultiKueueCluster, _state: State) -> object:
    return cluster.metadata.annotations, cluster.spec.unschedulable


def checks(queue: ClusterQueue, _state: State) -> object:
    return check_names(queue), has_manager_as_worker(queue)


def followed(queue: ClusterQueue, _state: State) -> object:
    """Whether it follows workers, and which. Its quotas are no part of that: who follows writes them."""
    return queue.metadata.annotations.get(FOLLOW_ANNOTATION), check_names(queue)


def route(queue: LocalQueue, _state: State) -> object:
    """The ClusterQueue: it decides whether the jobs that wait there are dispatched."""
    return queue.spec.cluster_queue


def value(priority: WorkloadPriorityClass, _state: State) -> object:
    return priority.value


def workload_for_its_job(workload: Workload, _state: State) -> object:
    """The parts of a workload that its job depends on. Not the reservation of quota: the job waits on."""
    meta, status = workload.metadata, workload.status
    states = workload.has(ADMITTED), workload.has(EVICTED), workload.has(FINISHED)
    return states, status.cluster_name, meta.generation, meta.uid, meta.deletion_timestamp is None, meta.annotations


def job_for_its_workload(job: AnyJob, state: State) -> object:
    """The parts of a job that its workload depends on. Ready pods count only where `waitForPodsReady` does."""
    meta, adapter, completed = job.metadata, state.adapters.of(job), state.runtimes.completed(job)
    ready = adapter.ready_pods(completed) if state.should_wait_for_pods else 0
    freed, copyable = adapter.reclaimable(completed), adapter.may_be_copied(job)
    states = adapter.finished(job), copyable, freed, ready, OwnJob(job, adapter).may_run, able(job)
    return meta.generation, meta.deletion_timestamp is None, states, said(job, state)


def job_for_those_below(job: AnyJob, state: State) -> object:
    """The parts of a job that the jobs it owns depend on."""
    adapter = state.adapters.of(job)
    return (job.metadata.uid, adapter.queue_name(job), controllers(job)) if is_whole(adapter) else None


_DECISIVE = frozenset({ADMITTED, EVICTED, FINISHED, DEACTIVATION_TARGET, BLOCKED})


def copy_for_a_decision(copy: Workload, _state: State) -> object:
    """The parts of a copy that a decision reads. A worker's Kueue writes more: finalizers, owners, and pending
    messages, of which only one counts: that it can never hold the copy."""
    return _decisive(copy, _DECISIVE)


def _decisive(copy: Workload, types: frozenset[str]) -> object:
    states = tuple(
        (c.type, c.status, c.reason) for c in copy.status.conditions if c.type in types or c.reason in NEVER_ADMITTED
    )
    meta = copy.metadata
    return states, is_suspected(copy), meta.deletion_timestamp is None, meta.uid, meta.annotations, bytes(copy.spec)


def is_result_alone(old: Workload, new: Workload) -> bool:
    """Whether a copy has finished with the result of its job, and all else that a decision reads is as before."""
    finished, others = new.condition(FINISHED), _DECISIVE - {FINISHED}
    has_result = finished is not None and finished.status == "True" and finished.reason in (SUCCEEDED, FAILED)
    return has_result and not old.has(FINISHED) and _decisive(old, others) == _decisive(new, others)


def remote_job_for_a_decision(job: AnyJob, _state: State) -> object:
    meta = job.metadata
    is_kept = type(job) is Pod and POD_FINALIZER in meta.finalizers  # it counts in its group even while being deleted
    return meta.deletion_timestamp is None, is_kept, meta.uid, meta.annotations


def has_pods(job: AnyJob, state: State) -> object:
    """Whether a job has pods; None if the worker's status is malformed, so that later changes are still seen."""
    adapter = state.adapters.of(job)
    return answer_or(lambda: adapter.is_active(job), otherwise=None)
