"""Kueue's job reconciler for one batch Job of a worker. Pure: observed objects in, writes out.

Unlike on the manager (`jobs.reconciler.decide`), the job runs here: a start adds the node selectors, tolerations and
other pod settings of flavors and admission checks, and a stop removes them (quota-engine 6.2-6.4). A Workload that
another client created for the job (contract 3.12) is adopted, and finished if the two do not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from multikueue.api.jobs.job import Job, job_spec, job_status
from multikueue.api.kinds import JOBS
from multikueue.api.kueue.queues import ResourceFlavor
from multikueue.api.kueue.slices import is_elastic
from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    OUT_OF_SYNC,
    QUOTA_RESERVED,
    REPLACES_ANNOTATION,
    Finish,
    Workload,
    workload_spec,
)
from multikueue.api.meta import ObjectKey, controller_of
from multikueue.jobs.framework import pod_set_info
from multikueue.jobs.framework.actions import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    PatchJob,
    PatchJobStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import prebuilt_name, workload_priority_class
from multikueue.jobs.kinds.batch_job import slices
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB, STOPPING_ANNOTATION
from multikueue.jobs.kinds.batch_job.template import BATCH_POD_SET_INFO, pods_count
from multikueue.jobs.reconciler.updates import adoption, spec_update
from multikueue.jobs.trees.templates import part, tree_of, with_comparable_containers

__all__ = [
    "JobView",
    "decide",
    "ending",
    "is_active",
    "is_stopped",
    "job_keys",
    "let_go",
]

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job, the Workloads controlled by a job of its name, and its prebuilt Workload.

    `priority` is called only if needed, and returns the same as `jobs.reconciler.decide.resolve_priority`. `flavors`
    has all flavors of the cluster, by name.
    """

    job: Job
    owned: tuple[Workload, ...] = ()
    named: Workload | None = None
    priority: Callable[[], Priority | str] = Priority
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)


def is_active(job: Job) -> bool:
    """Whether the job has active pods."""
    return job_status(job).active > 0


def decide(view: JobView) -> tuple[Action, ...]:
    """The next writes for the job, in this order; the order of the checks is Kueue's."""
    job = view.job
    if job.metadata.deletion_timestamp is not None:
        return let_go(view.owned)
    if not BATCH_JOB.queue_name(job):
        return ()
    if prebuilt_name(job):
        return _decide_prebuilt(view)
    return _decide_slices(view) if slices.is_sliced(job) else _decide_own(view)


def let_go(workloads: Iterable[Workload]) -> tuple[Action, ...]:
    """Remove the finalizers from the Workloads of a deleted or finished job."""
    return tuple(RemoveFinalizer(w.key) for w in workloads if w.metadata.finalizers)


def ending(workload: Workload, job: Job | None, flavors: Mapping[str, ResourceFlavor]) -> Finish | None:
    """The end of a Workload, from the job that controls it; None while neither has ended."""
    if job is None or job.metadata.deletion_timestamp is not None or not BATCH_JOB.queue_name(job):
        return None
    prebuilt, finish = prebuilt_name(job), BATCH_JOB.finished(job)
    if prebuilt and prebuilt != workload.metadata.name:
        return None
    starts = workload.has(ADMITTED) and not workload.has(EVICTED) and finish is None and _is_suspended(job)
    if not (prebuilt or finish or starts):
        return None  # nothing has ended: skip the comparison
    if not _is_in_sync(job, workload):
        message = "The prebuilt workload is out of sync with its user job"
        return Finish(reason=OUT_OF_SYNC, message=message) if prebuilt else None
    patch = BATCH_JOB.start_patch(job) if starts else None
    return pod_set_info.failed_start(job, patch, BATCH_POD_SET_INFO, workload, flavors) or finish


# --- the Workload of the job ----------------------------------------------------------------------------------------


def _decide_prebuilt(view: JobView) -> tuple[Action, ...]:
    job, workload = view.job, view.named
    owner = controller_of(workload.metadata) if workload else None
    if workload is None or (owner is not None and owner.uid != job.metadata.uid):
        return _stop(job, None)
    if owner is None:
        return (adoption(workload, JOBS, job.metadata),)
    if not _is_in_sync(job, workload):
        return _stop(job, None)
    return _decide_run(view, workload)


def _is_in_sync(job: Job, workload: Workload) -> bool:
    """Whether job and Workload match. A slice that replaces another one of an elastic job is not compared."""
    is_slice = REPLACES_ANNOTATION in workload.metadata.annotations and is_elastic(job) and bool(prebuilt_name(job))
    return is_slice or (not _has_twice(job) and BATCH_JOB.is_equivalent(job, workload))


def _has_twice(job: Job) -> bool:
    """Whether a container has, say, a port twice, which its Workload cannot: Kueue itself drops duplicates of variables
    only."""
    spec = part(tree_of(job_spec(job).template), "spec")
    return with_comparable_containers(spec) != spec


def _decide_own(view: JobView) -> tuple[Action, ...]:
    job = view.job
    owned = sorted(view.owned, key=lambda w: w.key)
    kept = next((w for w in owned if BATCH_JOB.is_equivalent(job, w)), None)
    others = [w for w in owned if w is not kept]
    if kept is None and others and _is_suspended(job) and not others[0].has(QUOTA_RESERVED):
        return _deletions(others[1:]) or _rewrite(view, others[0])
    stopped: tuple[Action, ...] = ()
    if kept is None and BATCH_JOB.finished(job) is None:
        stopped = _stop(job, others[0] if len(others) == 1 else None)
    if others:
        return (*stopped, *_deletions(others))
    if kept is None:
        return stopped or _creation(view)
    return _priority_update(view, kept) or _decide_run(view, kept)


def _deletions(workloads: Iterable[Workload]) -> tuple[Action, ...]:
    actions: list[Action] = []
    for workload in workloads:
        actions += let_go([workload])
        if workload.metadata.deletion_timestamp is None:
            actions.append(DeleteWorkload(workload.key, workload.metadata.uid))
    return tuple(actions)


def _rewrite(view: JobView, workload: Workload) -> tuple[Action, ...]:
    """Update a Workload without quota to the job's present spec."""
    priority = view.priority()
    if isinstance(priority, str):
        return ()
    optional: Tree = {"maximumExecutionTimeSeconds": None, "priorityClassRef": None}
    spec = optional | BATCH_JOB.workload_body(view.job, priority=priority)["spec"]
    return (spec_update(workload, spec),)


def _decide_slices(view: JobView) -> tuple[Action, ...]:
    """An elastic job: its Workload shrinks with it; to grow, it gets a new slice."""
    job, found = view.job, slices.in_order(slices.present(view.owned))
    last = found[-1] if found else None
    if last is None or BATCH_JOB.finished(job) is not None or not all(slices.may_be_slice_of(job, w) for w in found):
        return _decide_own(replace(view, owned=found))
    if not BATCH_JOB.is_equivalent(job, last):
        if not last.has(QUOTA_RESERVED) or pods_count(job) < slices.size(last):
            return (UpdateWorkloadSpec(last.key, slices.count_patch(job, last)),)
        return _slice(view, replaces=last) if len(found) == 1 else ()
    runs = last if last.has(QUOTA_RESERVED) else found[0]
    may_proceed = runs.has(QUOTA_RESERVED) and not runs.has(ADMITTED) and not _is_suspended(job)
    return () if may_proceed and not runs.has(EVICTED) else _decide_run(view, runs)


def _creation(view: JobView) -> tuple[Action, ...]:
    if BATCH_JOB.finished(view.job) is not None or is_active(view.job):
        return ()
    if slices.is_sliced(view.job):
        return _slice(view)
    priority = view.priority()
    return () if isinstance(priority, str) else (CreateWorkload(BATCH_JOB.workload_body(view.job, priority=priority)),)


def _slice(view: JobView, *, replaces: Workload | None = None) -> tuple[Action, ...]:
    priority = view.priority()
    if isinstance(priority, str):
        return ()
    return (CreateWorkload(slices.slice_body(view.job, priority=priority, replaces=replaces)),)


def _priority_update(view: JobView, workload: Workload) -> tuple[Action, ...]:
    """A priority class named by label may change at any time before the Workload is finished."""
    ref, name = workload_spec(workload).priority_class_ref, workload_priority_class(view.job)
    if name == (ref.name if ref else "") or workload.has(FINISHED):
        return ()
    if ref is not None and ref.kind != "WorkloadPriorityClass":
        return ()
    priority = view.priority()
    if isinstance(priority, str):
        return ()
    return (spec_update(workload, {"priorityClassRef": priority.class_ref, "priority": priority.value}),)


# --- starting and stopping -------------------------------------------------------------------------------------------


def _decide_run(view: JobView, workload: Workload) -> tuple[Action, ...]:
    job = view.job
    if workload.has(FINISHED):
        return let_go([workload])
    if workload.metadata.deletion_timestamp is not None:
        return (*_stop(job, workload), *let_go([workload]))
    if BATCH_JOB.finished(job) is not None:
        return ()
    if workload.has(EVICTED):
        return _stop(job, workload)
    if not workload.has(ADMITTED):
        return _move(job, workload) if _is_suspended(job) else _stop(job, workload)
    return _start(job, workload, view.flavors) if _is_suspended(job) else ()


def _start(job: Job, workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> tuple[Action, ...]:
    """Start the job, unless a flavor is missing or the pod settings conflict: then the job waits."""
    with suppress(pod_set_info.BadPodSetInfo):
        patch = pod_set_info.start_patch(job, BATCH_JOB.start_patch(job) or {}, BATCH_POD_SET_INFO, workload, flavors)
        return (PatchJob(patch),) if patch is not None else ()
    return ()


def _is_suspended(job: Job) -> bool:
    """Whether the job is suspended, with no stop in progress."""
    return BATCH_JOB.may_be_copied(job)


def _move(job: Job, workload: Workload) -> tuple[Action, ...]:
    queue = BATCH_JOB.queue_name(job)
    return (spec_update(workload, {"queueName": queue}),) if workload_spec(workload).queue_name != queue else ()


def is_stopped(job: Job, workload: Workload) -> bool:
    """Whether nothing is left of the stop: the job is suspended with its original template, or finished."""
    return BATCH_JOB.finished(job) is not None or not _stop(job, workload)


def _stop(job: Job, workload: Workload | None) -> tuple[Action, ...]:
    """Suspend the job, reset its start time and restore its template; steps already done are left out.

    The first patch fails if the job started meanwhile: its start time would not be reset, and then its template could
    never be restored. A half-stopped job may be admitted again, and no later pass would restore it.
    """
    uid = {"uid": job.metadata.uid}
    actions: list[Action] = []
    annotated = job.metadata.annotations.get(STOPPING_ANNOTATION) == "true"
    if not _is_suspended(job):
        mark = {"annotations": {STOPPING_ANNOTATION: "true"}}
        if not (annotated and BATCH_JOB.is_suspended(job)):
            seen = {"resourceVersion": job.metadata.resource_version}
            actions.append(PatchJob({"metadata": uid | seen | mark, "spec": {"suspend": True}}))
        annotated = True
    if job_status(job).start_time is not None:
        actions.append(PatchJobStatus({"metadata": uid, "status": {"startTime": None}}))
    restored = BATCH_POD_SET_INFO.restoring(job, workload) if workload is not None else {}
    if annotated or restored:
        unmark = {"annotations": {STOPPING_ANNOTATION: None}} if annotated else {}
        actions.append(PatchJob({"metadata": uid | unmark} | ({"spec": restored} if restored else {})))
    return tuple(actions)


def job_keys(workload: Workload) -> Iterable[ObjectKey]:
    """The key of the batch Job that controls a Workload, if any."""
    owner = controller_of(workload.metadata)
    if owner is None or (owner.api_version, owner.kind) != (JOBS.api_version, JOBS.kind):
        return ()
    return (ObjectKey(workload.metadata.namespace, owner.name),)
