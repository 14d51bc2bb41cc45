"""The decision of the jobs controller: one job, its Workloads and its remote in; writes on the manager cluster out.

Rules: quota-engine 6.2-6.4, 4.3; contract 3.11, 5.3. Deciding twice with nothing changed gives no second write, since
every action changes what the next view shows. The workload controller, not this one, finishes a Workload, deletes
copies and removes finalizers at the end of a job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kubernetes.builtins import PriorityClass
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.queues import WorkloadPriorityClass
from multikueue.api.kueue.slices import is_elastic
from multikueue.api.kueue.unadmitted import INADMISSIBLE
from multikueue.api.kueue.workload import (
    EVICTED,
    FINISHED,
    OUT_OF_SYNC,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    Workload,
    owner_of,
    workload_spec,
)
from multikueue.api.meta import Condition
from multikueue.jobs.framework import priority as priorities
from multikueue.jobs.framework.actions import JobDecision, PatchJobStatus, PatchWorkloadStatus, UpdateWorkloadSpec
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.nesting import MOST_HOPS, Nested
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import is_owned, prebuilt_name, workload_priority_class
from multikueue.jobs.kinds.batch_job import slices
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from multikueue.jobs.kinds.batch_job.template import pods_count
from multikueue.jobs.reconciler import ensure_workload
from multikueue.jobs.reconciler.case import LOOK_FOR_NAME_AFTER, NOTHING, JobCase, JobView
from multikueue.jobs.reconciler.ensure_workload import choose, create, decide_own, follow_job
from multikueue.jobs.reconciler.run import decide_run
from multikueue.jobs.reconciler.updates import (
    adoption,
    annotated_update,
    conditions_patch,
    delete,
    joined,
    let_go,
    with_difference,
)

__all__ = ["Decide", "JobView", "Priority", "decide", "decide_elastic", "mirror", "resolve_priority"]

Decide = Callable[[JobView, datetime, Adapter], JobDecision]


def decide(view: JobView, now: datetime, adapter: Adapter = BATCH_JOB) -> JobDecision:
    """The decision for a job. The order of the checks is their precedence."""
    if adapter.is_external:
        return mirror(view, now, adapter)
    case = JobCase(_present(view), adapter)
    decision = _decided(case, now)
    if decision.actions or not adapter.should_tell_suspension:
        return decision
    told = _told_suspended(case, now)
    return joined(decision, told) if told is not NOTHING else decision


def _decided(case: JobCase, now: datetime) -> JobDecision:
    view, adapter = case.view, case.adapter
    if view.nested is not None and not case.is_over():
        return _decide_nested(case, view.nested)
    if not case.is_ours():
        return case.released()
    final = case.final_status()
    if final:
        return JobDecision(actions=final)
    if case.end() is not None:
        return JobDecision(actions=case.end_from_workload())
    if view.unreadable and not view.workloads:
        return JobDecision(
            events=(Event("Warning", "WorkloadUnreadable", view.unreadable),), again_after=LOOK_FOR_NAME_AFTER
        )
    if prebuilt_name(view.job):
        return _decide_prebuilt(case)
    unknown = adapter.runtimes.problem(view.job) if adapter.runtimes is not None else None
    if unknown is not None and not view.workloads:
        return JobDecision(events=(Event("Warning", "PodsUnknown", unknown),))
    if case.undispatchable():
        return _decide_undispatchable(case, now)
    return decide_elastic(case, now) if view.is_elastic and case.view.workloads else decide_own(case)


def _told_suspended(case: JobCase, now: datetime) -> JobDecision:
    """Says in the status of a job that has waited for a while that it is suspended. One that is started at once costs no
    such write. While pods of it run, its status is that of the worker."""
    job, after, created = case.view.job, case.view.tell_suspended_after, case.view.job.metadata.creation_timestamp
    if after is None or created is None or not case.adapter.is_suspended(job):
        return NOTHING
    left = created + after - now
    if left > timedelta():
        return JobDecision(again_after=left)
    patch = case.adapter.suspension_patch(job, now) if case.is_ours() and case.is_quiet() else None
    return JobDecision(actions=(PatchJobStatus(patch),)) if patch is not None else NOTHING


def _present(view: JobView, *, is_elastic: bool = False) -> JobView:
    return replace(view, workloads=slices.present(view.workloads)) if view.is_elastic or is_elastic else view


def mirror(view: JobView, _now: datetime, adapter: Adapter = BATCH_JOB) -> JobDecision:
    """The decision for a job that another controller queues and starts: only its status is copied (contract 5.3).

    Kueue gives the quota of an evicted job back once its status shows no pods, so the status must get there (CX-22).
    """
    case = JobCase(_present(view, is_elastic=any(map(is_elastic, view.workloads))), adapter)
    job = view.job
    if job.metadata.deletion_timestamp is not None or adapter.unmanaged_reason(job) or adapter.finished(job):
        return NOTHING
    remote = view.remote if not view.is_remote_lost else None
    if remote is not None and (adapter.finished(remote) or adapter.is_active(remote) or not adapter.is_suspended(job)):
        return JobDecision(actions=case.copied_status(remote))
    told = case.end_from_workload()
    if told:
        return JobDecision(actions=told)
    patch = adapter.reset_status_patch(job)
    return JobDecision(actions=(PatchJobStatus(patch),) if patch is not None else ())


def resolve_priority(
    job: AnyJob,
    classes: Mapping[str, WorkloadPriorityClass],
    pod_classes: Mapping[str, PriorityClass],
    adapter: Adapter = BATCH_JOB,
    *,
    should_count_system_classes: bool = False,
) -> Priority | str:
    """The priority of the job's Workload, or why there is none. `pod_classes` are all of the cluster, by name."""
    return priorities.resolve(
        workload_class=workload_priority_class(job),
        pod_class=adapter.pod_priority_class(job),
        classes=classes,
        pod_classes=pod_classes,
        should_count_system_classes=should_count_system_classes,
    )


# --- jobs with a Workload made by the user ---------------------------------------------------------------------------


def _decide_prebuilt(case: JobCase) -> JobDecision:
    """The user made the Workload: adopt it, but never create, change or delete it (quota-engine 6.2)."""
    job, name = case.view.job, prebuilt_name(case.view.job)
    workload = next((w for w in case.view.workloads if w.metadata.name == name), None)
    if workload is None:
        return _unusable(case, f"Prebuilt Workload {name} not found")
    owner = owner_of(workload)
    if owner is not None and not is_owned(workload, job):
        return _unusable(case, f"Prebuilt Workload {name} belongs to {owner.kind} {owner.name}")
    if owner is None and workload.metadata.deletion_timestamp is None:
        return JobDecision(actions=(adoption(workload, case.adapter.kind, job.metadata),))
    if not case.adapter.is_equivalent(job, workload):
        why = f"Prebuilt Workload {name} is out of sync with the job"
        return _unusable(case, with_difference(why, case.difference(workload)))
    return decide_run(case, workload)


def _unusable(case: JobCase, why: str) -> JobDecision:
    return joined(
        case.settle(why), JobDecision(events=(Event("Warning", "PrebuiltWorkload", f"{why}: the job waits"),))
    )


# --- jobs that belong to others --------------------------------------------------------------------------------------


def _decide_nested(case: JobCase, nested: Nested) -> JobDecision:
    """Keeps a nested job suspended until its owner is admitted; the owner's controller unsuspends it. A Workload of its
    own, from before it had that owner, is deleted unless it is prebuilt (quota-engine 6.1): the quota of the owner is for
    the pods of all below it, and they would be counted twice."""
    if nested is Nested.UNSEEN:
        return NOTHING
    if nested is Nested.TOO_DEEP:
        why = f"Terminated search for the job it belongs to: there are more than {MOST_HOPS} above it, or they go round"
        return JobDecision(events=(Event("Warning", "JobNestingTooDeep", why),))
    named = prebuilt_name(case.view.job)
    own = tuple(w for w in case.view.workloads if is_owned(w, case.view.job) and w.metadata.name != named)
    held = case.suspend("The job it belongs to is not admitted") if nested is Nested.WAITING else NOTHING
    deleted = delete(own, "Deleted the Workload of a job that belongs to another")
    return joined(held, deleted, let_go(case, own) if own else NOTHING)


# --- jobs that cannot be dispatched ----------------------------------------------------------------------------------


def _decide_undispatchable(case: JobCase, now: datetime) -> JobDecision:
    """Keeps a Workload as an explanation, inactive so that it takes no quota from others.

    If it has quota already, the dispatcher rejects it (contract 3.1 E4); without a dispatcher, its deactivation takes
    the quota back. If a user activates it, the event is repeated.
    """
    why = case.undispatchable() or ""
    warning = Event("Warning", "Undispatchable", why)
    kept, others = choose(case)
    first = joined(case.settle("Not dispatchable"), delete(others, "Deleted not matching Workload"))
    if kept is None:
        return joined(first, _marked_creation(case, why, warning))
    dispatchers = kept.has(QUOTA_RESERVED) and not case.is_stranded()
    if dispatchers or kept.metadata.deletion_timestamp is not None:
        return joined(delete(others, "Deleted not matching Workload"), decide_run(case, kept))
    if kept.metadata.annotations.get(UNDISPATCHABLE_ANNOTATION) != why or workload_spec(kept).active:
        mark = annotated_update(kept, {"active": False}, {UNDISPATCHABLE_ANNOTATION: why})
        return joined(first, JobDecision(actions=(mark,), events=(warning,)))
    if kept.condition(QUOTA_RESERVED) is None:
        return joined(first, JobDecision(actions=(_inadmissible(kept, why, now),)))
    return first


def _marked_creation(case: JobCase, why: str, warning: Event) -> JobDecision:
    if case.view.workloads or case.adapter.is_active(case.view.job):
        return NOTHING
    priority = case.view.priority if isinstance(case.view.priority, Priority) else Priority()
    body = case.labelled(case.adapter.workload_body(case.view.job, priority=priority))
    metadata, spec = body["metadata"], body["spec"]
    annotations = metadata.get("annotations", {}) | {UNDISPATCHABLE_ANNOTATION: why}
    marked = body | {"metadata": metadata | {"annotations": annotations}, "spec": spec | {"active": False}}
    return joined(ensure_workload.creation(case, marked), JobDecision(events=(warning,)))


def _inadmissible(workload: Workload, why: str, now: datetime) -> PatchWorkloadStatus:
    condition = Condition(
        type=QUOTA_RESERVED,
        status="False",
        reason=INADMISSIBLE,
        message=why,
        observed_generation=workload.metadata.generation,
    )
    return conditions_patch(workload, condition, now)


def decide_elastic(case: JobCase, now: datetime) -> JobDecision:
    """Follows the size of an elastic job, in its Workload or by another slice (contract 3.5).

    There are at most two slices: the running one and its replacement. Any other change starts over, as for other jobs.
    Growth takes another slice because quota that is reserved cannot grow: the next slice queues for the whole, and gives
    back what the first one has (KEP 77).
    """
    job = case.view.job
    found = slices.in_order([w for w in case.view.workloads if is_owned(w, job)])
    if len(found) not in (1, 2) or not all(slices.may_be_slice_of(job, w) for w in found):
        return decide_own(case)
    last, before = found[-1], found[0] if len(found) > 1 else None
    if before is not None and not before.has(QUOTA_RESERVED):
        return JobDecision(actions=(_out_of_sync(before, now),))
    runs = last if before is None or last.has(QUOTA_RESERVED) else before
    update = follow_job(case, last)
    if update.actions:
        return update
    scaled = _scaled(case, last, is_only_slice=before is None)
    return scaled if scaled.actions else joined(update, scaled, decide_run(case, runs))


def _scaled(case: JobCase, last: Workload, *, is_only_slice: bool) -> JobDecision:
    """Gives the last slice the job's size if it may change; else adds one slice, if there is only one."""
    job = case.view.job
    if case.adapter.is_equivalent(job, last):
        return NOTHING
    if not last.has(QUOTA_RESERVED) or pods_count(job) < slices.size(last):
        event = Event("Normal", "UpdatedWorkload", f"Updated the size of Workload: {last.key}")
        return JobDecision(actions=(UpdateWorkloadSpec(last.key, slices.count_patch(job, last)),), events=(event,))
    return create(case, replaces=last) if is_only_slice and not last.has(EVICTED) else NOTHING


def _out_of_sync(workload: Workload, now: datetime) -> PatchWorkloadStatus:
    """Finishes a slice that lost its quota: its replacement has the job now."""
    condition = Condition(
        type=FINISHED,
        status="True",
        reason=OUT_OF_SYNC,
        message="A later slice describes the elastic job",
        observed_generation=workload.metadata.generation,
    )
    return conditions_patch(workload, condition, now)
