"""The one Workload of a job: create it, rewrite it, or start over (Kueue's ensureOneWorkload)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    ADMISSION_GATED_BY_ANNOTATION,
    ADMITTED,
    CLASS_VALUE_ANNOTATION,
    QUOTA_RESERVED,
    UNDISPATCHABLE_ANNOTATION,
    Workload,
    admission_gates,
    workload_spec,
)
from multikueue.jobs.framework import priority as priorities
from multikueue.jobs.framework.actions import CreateWorkload, JobDecision
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import free_name, is_owned, is_referred_to_by_name, renamed
from multikueue.jobs.kinds.batch_job import slices
from multikueue.jobs.reconciler.case import LOOK_FOR_NAME_AFTER, NOTHING, JobCase, disagreement
from multikueue.jobs.reconciler.run import decide_run
from multikueue.jobs.reconciler.updates import annotated_update, delete, joined, let_go, spec_update, with_difference

LOOK_FOR_CLASS_AFTER = timedelta(minutes=1)
"""A new priority class wakes workloads, not a job that still has none (`store.event_handlers.triggers`)."""


def decide_own(case: JobCase) -> JobDecision:
    kept, others = choose(case)
    if kept is None:
        return _decide_missing(case, others)
    surplus = delete(others, "Deleted not matching Workload")
    update = follow_job(case, kept)
    return joined(surplus, update) if update.actions else joined(surplus, update, decide_run(case, kept))


def choose(case: JobCase) -> tuple[Workload | None, tuple[Workload, ...]]:
    """The Workload that matches the job, and the others. Of several: the most progress, then the oldest; to go back to
    another would stop pods that run."""
    owned = [w for w in case.view.workloads if is_owned(w, case.view.job)]
    if len(owned) > 1:
        owned.sort(key=_progress)
    for kept in owned:
        if case.adapter.is_equivalent(case.view.job, kept):
            return kept, tuple([w for w in owned if w is not kept])
    return None, tuple(owned)


def _progress(workload: Workload) -> tuple[bool, bool, bool, str, str]:
    meta = workload.metadata
    return (
        meta.deletion_timestamp is not None,
        not workload.has(ADMITTED),
        not workload.has(QUOTA_RESERVED),
        meta.creation_timestamp.isoformat() if meta.creation_timestamp else "",
        meta.name,
    )


def _decide_missing(case: JobCase, others: tuple[Workload, ...]) -> JobDecision:
    """No Workload matches the job: rewrite one if that is possible, else start over."""
    job = case.view.job
    candidate = others[0] if others else None
    if candidate is not None and case.is_held() and _may_change(case, candidate):
        return joined(delete(others[1:], "Deleted not matching Workload"), _rewrite(case, candidate))
    if others:
        stopped = case.stop("No matching Workload")
        leaving = let_go(case, others) if not stopped.actions else NOTHING
        return joined(stopped, delete(others, "Deleted not matching Workload", case.difference), leaving)
    stopped = case.settle("Missing Workload")
    # The new Workload waits until the pods of the last run are gone; the status of a job managed by us is reset once
    # nothing runs.
    if case.adapter.is_active(job) or case.running_remote() is not None or case.is_placed():
        return stopped
    return joined(stopped, create(case))


def _may_change(case: JobCase, workload: Workload) -> bool:
    if workload.has(QUOTA_RESERVED) or workload.metadata.deletion_timestamp is not None:
        return False
    return case.adapter.waits_for(case.view.job) == ""


def create(case: JobCase, *, replaces: Workload | None = None) -> JobDecision:
    priority = case.view.priority
    missing = case.adapter.waits_for(case.view.job)
    if missing is None:
        return NOTHING
    missing = missing or disagreement(case.view.job, case.view.label_keys)
    if missing:
        return JobDecision(events=(Event("Warning", "ErrWorkloadCompose", missing),))
    if isinstance(priority, str):
        return JobDecision(events=(Event("Warning", "PriorityNotFound", priority),), again_after=LOOK_FOR_CLASS_AFTER)
    return creation(case, _body(case, priority, replaces=replaces))


def creation(case: JobCase, body: dict[str, Any]) -> JobDecision:
    """Creates the Workload, under another name if its own belongs to another Workload."""
    name, is_taken = body["metadata"]["name"], case.view.is_taken
    if not is_taken(name):
        return JobDecision(actions=(CreateWorkload(body),))
    if is_referred_to_by_name(body):
        why = f"the Workload {name} is not the job's, whose Pods name it: the job waits until it is gone"
        return JobDecision(events=(Event("Warning", "WorkloadNameTaken", why),), again_after=LOOK_FOR_NAME_AFTER)
    free = free_name(name, case.view.job.metadata.uid, is_taken)
    told = Event("Warning", "WorkloadNameTaken", f"the Workload {name} is not the job's, which gets {free}")
    return JobDecision(actions=(CreateWorkload(renamed(body, free)),), events=(told,))


def _body(case: JobCase, priority: Priority, *, replaces: Workload | None = None) -> dict[str, Any]:
    if case.view.is_elastic:
        return case.labelled(slices.slice_body(case.view.job, priority=priority, replaces=replaces))
    return case.labelled(case.adapter.workload_body(case.view.job, priority=priority))


def _rewrite(case: JobCase, workload: Workload) -> JobDecision:
    """Gives a Workload without quota the job's present spec; `active` stays."""
    priority = case.view.priority
    if isinstance(priority, str):
        spec = workload_spec(workload)
        priority = Priority(spec.priority, spec.priority_class_ref)
    optional: dict[str, Any] = {"maximumExecutionTimeSeconds": None, "priorityClassRef": None}
    spec_body = optional | case.adapter.workload_body(case.view.job, priority=priority)["spec"]
    told = with_difference(
        f"Updated not matching Workload for suspended job: {workload.key}", case.difference(workload)
    )
    event = Event("Normal", "UpdatedWorkload", told)
    marks = _class_marks(priority, workload)
    return JobDecision(actions=(annotated_update(workload, spec_body, marks),), events=(event,))


def _class_marks(priority: Priority, workload: Workload) -> dict[str, str | None]:
    """The changes of its annotations, as it gets this priority."""
    old: dict[str, str | None] = dict.fromkeys(workload.metadata.annotations.keys() & {CLASS_VALUE_ANNOTATION})
    return old | priorities.class_marks(priority)


def follow_job(case: JobCase, workload: Workload) -> JobDecision:
    """Follows changes that need no new Workload: queue, priority, and whether the job can be dispatched."""
    if workload.metadata.deletion_timestamp is not None:
        return NOTHING
    wanted_queue, queue = case.adapter.queue_name(case.view.job), workload_spec(workload).queue_name
    moved = queue != wanted_queue and case.adapter.is_suspended(case.view.job) and not workload.has(ADMITTED)
    if moved and workload.has(QUOTA_RESERVED) and case.view.has_local_queue:
        # The queue is immutable while quota is reserved; waiting on in the old one would ignore the user's wish.
        return delete((workload,), "Deleted Workload because the job changed queues")
    changes: dict[str, Any] = {"queueName": wanted_queue} if moved and not workload.has(QUOTA_RESERVED) else {}
    annotations = _gate_changes(case, workload)
    wanted = case.view.priority
    events = _late_class(wanted, workload)
    if not isinstance(wanted, str) and _may_take(wanted, workload):
        changes |= {"priorityClassRef": wanted.class_ref, "priority": wanted.value}
        annotations |= _class_marks(wanted, workload)
    if UNDISPATCHABLE_ANNOTATION in workload.metadata.annotations:
        annotations, changes = annotations | {UNDISPATCHABLE_ANNOTATION: None}, changes | {"active": True}
    if annotations:
        return JobDecision(actions=(annotated_update(workload, changes, annotations),), events=events)
    return JobDecision(actions=(spec_update(workload, changes),) if changes else (), events=events)


def _gate_changes(case: JobCase, workload: Workload) -> dict[str, str | None]:
    """The annotation of a gated Workload, as the job has it now. A job that has none at first never gets gates."""
    gates, wanted = admission_gates(workload.metadata), admission_gates(case.view.job.metadata)
    return {ADMISSION_GATED_BY_ANNOTATION: wanted or None} if gates and gates != wanted else {}


def _may_take(priority: Priority, workload: Workload) -> bool:
    """Whether the Workload is to get this priority, as the job names another WorkloadPriorityClass. A change of that class's
    value is followed in the Workload itself, not here.

    Other classes cannot change. While quota is reserved, the API server refuses to add or remove a class.
    """
    ref = workload_spec(workload).priority_class_ref
    if priority.class_ref == ref:
        return False
    new, old = priorities.is_workload_class(priority.class_ref), priorities.is_workload_class(ref)
    may = new or old if not workload.has(QUOTA_RESERVED) else new and old
    return may and (ref is None or old)


def _late_class(priority: Priority | str, workload: Workload) -> tuple[Event, ...]:
    """Says that a class which the job names has no effect, and until when."""
    if isinstance(priority, str) or priority.class_ref is None or not priorities.is_workload_class(priority.class_ref):
        return ()
    ref = workload_spec(workload).priority_class_ref
    if priorities.is_workload_class(ref) or _may_take(priority, workload):
        return ()
    why = (
        f"its Workload has the priority of the PriorityClass {ref.name} for good: submit the job again"
        if ref is not None
        else "its Workload got quota without one: it counts from the next attempt"
    )
    return (Event("Warning", "PriorityClassIgnored", f"WorkloadPriorityClass {priority.class_ref.name}: {why}"),)
