"""The decision of the jobs controller: one job, its Workloads and its remote in; what to write on the manager out.

Rules: quota-engine 6.2-6.4, 4.3; contract 3.11, 5.3. Deciding twice with nothing changed gives no second write, since
every action changes what the next view shows. Who ends a Workload, deletes copies and removes finalizers at the end
of a job is the workload controller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.core import PriorityClass
from multikueue.api.job import AnyJob
from multikueue.api.meta import Condition, with_condition
from multikueue.api.pod import is_of_stateful_set
from multikueue.api.queues import ResourceFlavor, WorkloadPriorityClass
from multikueue.api.slices import replaced_key
from multikueue.api.workload import (
    ADMITTED,
    EVICTED,
    FAILED,
    FINISHED,
    OUT_OF_SYNC,
    QUOTA_RESERVED,
    SUCCEEDED,
    Workload,
    owner_of,
    workload_spec,
)
from multikueue.jobs.batch_job import slices
from multikueue.jobs.batch_job.adapter import BATCH_JOB
from multikueue.jobs.batch_job.size import pods_count
from multikueue.jobs.framework import pod_set_info
from multikueue.jobs.framework import priority as priorities
from multikueue.jobs.framework.actions import (
    Action,
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    JobDecision,
    JobEvent,
    PatchJob,
    PatchJobStatus,
    PatchWorkloadStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.adapter import MANAGED, Adapter, stays
from multikueue.jobs.framework.nesting import MOST_HOPS, Nested, is_whole
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.workloads import (
    UNDISPATCHABLE_ANNOTATION,
    free_name,
    goes_by_name,
    is_owned,
    job_uid_labels,
    owner_reference,
    prebuilt_name,
    renamed,
    workload_priority_class,
)
from multikueue.jobs.reconciler import labels

__all__ = ["Decide", "JobView", "Priority", "decide", "mirror", "resolve_priority"]

LOOK_FOR_CLASS_AFTER = timedelta(minutes=1)
LOOK_FOR_WORKER_AFTER = timedelta(seconds=5)
LOOK_FOR_NAME_AFTER = timedelta(minutes=1)
LOOK_FOR_FLAVOR_AFTER = timedelta(seconds=5)
_NO_CLASS = Priority()
_NOTHING = JobDecision()
_STRANDED = (
    "Nobody runs the job: it is managed by MultiKueue, and its ClusterQueue has no MultiKueue check. "
    f"Give the queue one, or recreate the job without `managedBy: {MANAGED}`"
)


def _never(_name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What is known of one job on the manager.

    `workloads` are those the job controls (by UID), and the one it names as prebuilt. `remote` is the winner's job as
    last seen, as long as it may still say something about this job; `remote_lost` says that its worker is lost, so
    that its pods no longer count as running. `may_run` says that some worker runs, or may run unseen, what a Workload
    that is being deleted was dispatched for. `dispatched` says that a Workload has our AdmissionCheck; one that has not
    starts here, where its `flavors`, by name, say. `undispatched` says that no queue of it has one, so that what is managed
    by us runs nowhere. `priority` is the answer of `resolve_priority`. An `elastic` job may
    change its size while it runs. `label_keys` name the labels that its Workload gets too. `nested` says that it belongs to
    another job, and how that stands. `is_taken` says whether there is a Workload of that name beside it. `hidden` says, in
    words, that one is there which may be the job's, and cannot be read.
    """

    job: AnyJob
    workloads: tuple[Workload, ...] = ()
    remote: AnyJob | None = None
    remote_lost: bool = False
    may_run: bool = False
    priority: Priority | str = _NO_CLASS
    queue_is_multikueue: bool = True
    dispatched: bool = True
    undispatched: bool = False
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    local_queue_exists: bool = True
    elastic: bool = False
    label_keys: tuple[str, ...] = ()
    nested: Nested | None = None
    is_taken: Callable[[str], bool] = _never
    hidden: str = ""


Decide = Callable[[JobView, datetime, Adapter], JobDecision]


def decide(view: JobView, now: datetime, adapter: Adapter = BATCH_JOB) -> JobDecision:
    """What to do for the job now. The order of the checks is their precedence."""
    if adapter.external:
        return mirror(view, now, adapter)
    case = _Case(_present(view), adapter)
    if view.nested is not None and not case.is_over():
        return _decide_nested(case, view.nested)
    if not case.is_ours():
        return case.released()
    final = case.final_status()
    if final:
        return JobDecision(actions=final)
    if case.end() is not None:
        return JobDecision(actions=case.told_end())
    if view.hidden and not view.workloads:
        return JobDecision(
            events=(JobEvent("Warning", "WorkloadUnreadable", view.hidden),), again_after=LOOK_FOR_NAME_AFTER
        )
    if prebuilt_name(view.job):
        return _decide_prebuilt(case)
    unknown = adapter.runtimes.problem(view.job) if adapter.runtimes is not None else None
    if unknown is not None and not view.workloads:
        return JobDecision(events=(JobEvent("Warning", "PodsUnknown", unknown),))
    if case.undispatchable():
        return _decide_undispatchable(case, now)
    return _decide_elastic(case, now) if view.elastic and case.view.workloads else _decide_own(case)


def _present(view: JobView) -> JobView:
    return replace(view, workloads=slices.present(view.workloads)) if view.elastic else view


def mirror(view: JobView, _now: datetime, adapter: Adapter = BATCH_JOB) -> JobDecision:
    """What to do for a job that others queue, start and stop: its status comes home, and nothing else (contract 5.3).

    Kueue gives the quota of an evicted job back once its status tells of no pods, so that must become true (CX-22).
    """
    case = _Case(_present(view), adapter)
    job = view.job
    if job.metadata.deletion_timestamp is not None or adapter.unmanaged_reason(job) or adapter.finished(job):
        return _NOTHING
    remote = view.remote if not view.remote_lost else None
    if remote is not None and (adapter.finished(remote) or adapter.is_active(remote) or not adapter.is_suspended(job)):
        return JobDecision(actions=case.copied_status(remote))
    told = case.told_end()
    if told:
        return JobDecision(actions=told)
    patch = adapter.reset_status_patch(job)
    return JobDecision(actions=(PatchJobStatus(patch),) if patch is not None else ())


def resolve_priority(
    job: AnyJob,
    classes: Mapping[str, WorkloadPriorityClass],
    pod_classes: Mapping[str, PriorityClass],
    adapter: Adapter = BATCH_JOB,
) -> Priority | str:
    """The priority of the job's Workload, or why there is none. `pod_classes` are all of the cluster, by name."""
    return priorities.resolve(
        workload_class=workload_priority_class(job),
        pod_class=adapter.pod_priority_class(job),
        classes=classes,
        pod_classes=pod_classes,
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """A view with the adapter of its kind: the questions that several branches ask."""

    view: JobView
    adapter: Adapter

    def is_ours(self) -> bool:
        return bool(self.adapter.queue_name(self.view.job)) and not self.is_over()

    def is_over(self) -> bool:
        """Whether it has ended, or is being deleted."""
        job = self.view.job
        return job.metadata.deletion_timestamp is not None or self.adapter.finished(job) is not None

    def released(self) -> JobDecision:
        """What is over, or being deleted, is let go."""
        job = self.view.job
        patch = self.adapter.release_patch(job) if self.adapter.queue_name(job) else None
        return JobDecision(actions=(PatchJob(patch),)) if patch is not None else _NOTHING

    def undispatchable(self) -> str | None:
        """Why no worker can ever run the job, and the way out; None if one can."""
        if self.is_stranded():
            return _STRANDED
        reason = self.adapter.unmanaged_reason(self.view.job)
        if reason is None or not self.view.queue_is_multikueue:
            return None
        return (
            f"The job can't be dispatched. {reason}, and the field is immutable: "
            f"recreate the job with `suspend: true` and `managedBy: {MANAGED}`, "
            "or enable the webhook, which sets both, and recreate it"
        )

    def is_stranded(self) -> bool:
        """Whether nobody would run the job: its own controller leaves it to us, and its queue to nobody. What runs on a
        worker already stays there; what only the gates of its Pods hold runs here."""
        if not self.view.undispatched or any(w.status.cluster_name for w in self.view.workloads):
            return False
        return is_whole(self.adapter) and self.adapter.unmanaged_reason(self.view.job) is None

    def final_status(self) -> tuple[Action, ...]:
        """Brings the result home: whatever else is going on, it comes first (invariant I8)."""
        remote = self.view.remote
        if remote is None or self.adapter.finished(remote) is None:
            return ()
        return self.copied_status(remote)

    def end(self) -> Condition | None:
        """That the job's Workload is finished."""
        finished = (w for w in self.view.workloads if w.has(FINISHED))
        return next((w.condition(FINISHED) for w in finished if self.adapter.matches(self.view.job, w)), None)

    def told_end(self) -> tuple[Action, ...]:
        """The job's end as its Workload tells it, if nothing is left that could tell more: whoever deletes the copy
        before its last status came home must not leave a job that never ends."""
        end = self.end()
        if end is None or end.reason not in (SUCCEEDED, FAILED) or self.view.remote is not None:
            return ()
        return self._written(self.adapter.status_of_end(self.view.job, end), is_all=False)

    def copied_status(self, remote: AnyJob) -> tuple[Action, ...]:
        """An end has consequences; how far it has come is for people to read."""
        is_all = self.adapter.finished(remote) is None
        return self._written(self.adapter.status_to_copy(self.view.job, remote), is_all=is_all)

    def _written(self, status: msgspec.Raw | None, *, is_all: bool) -> tuple[Action, ...]:
        if status is None:
            return ()
        return (PatchJobStatus(self.adapter.status_patch(self.view.job, status), is_all),)

    def labelled(self, body: dict[str, Any]) -> dict[str, Any]:
        """A new Workload of the job with those of the job's labels that it gets too."""
        return labels.labelled(body, self.view.job, self.view.label_keys)

    def stop(self, why: str) -> JobDecision:
        if not self.adapter.resumes:
            return _NOTHING if self.adapter.is_suspended(self.view.job) else self.ended(why)
        patch = self.adapter.stop_patch(self.view.job)
        if patch is None:
            return self.restored()
        if self.adapter.placing is not None:
            patch = self.adapter.placing.stop_patch(self.view.job, patch, self._before())
        return JobDecision(actions=(PatchJob(patch),), events=(JobEvent("Normal", "Stopped", why),))

    def held(self, why: str) -> JobDecision:
        """Stops a job that is not to run yet, as Kueue does with what belongs to others."""
        patch = self.adapter.stop_patch(self.view.job)
        if patch is None:
            return _NOTHING
        return JobDecision(actions=(PatchJob(patch),), events=(JobEvent("Normal", "Suspended", why),))

    def restored(self) -> JobDecision:
        """A held job gets back, step by step, what it was before it was started where its flavors said."""
        if not self.is_placed() or self.adapter.placing is None:
            return _NOTHING
        step = self.adapter.placing.restoration(self.view.job, self._before())
        return JobDecision(actions=(step,)) if step is not None else _NOTHING

    def _before(self) -> Workload | None:
        """The Workload that says what the job was before it was started: its own, or that of before it was changed."""
        owned = [w for w in self.view.workloads if is_owned(w, self.view.job)]
        matching = (w for w in owned if self.adapter.matches(self.view.job, w))
        return next(matching, owned[0] if len(owned) == 1 else None)

    def is_held(self) -> bool:
        """Whether it is held, and says what its user wrote."""
        return self.adapter.is_suspended(self.view.job) and not self.is_placed()

    def is_placed(self) -> bool:
        """Whether the job still says where it ran."""
        return self.adapter.placing is not None and bool(self.adapter.placing.placed_for(self.view.job))

    def ended(self, why: str) -> JobDecision:
        """Stops for good a job that cannot be held again."""
        action = DeleteJob(self.view.job.metadata.uid)
        return JobDecision(actions=(action,), events=(JobEvent("Normal", "Stopped", why),))

    def runs_elsewhere(self, workload: Workload) -> bool:
        """Whether the job never starts here: it is dispatched, and has nothing like managedBy to keep it from running."""
        view = self.view
        return not self.adapter.resumes and bool(
            view.queue_is_multikueue or view.dispatched or workload.status.cluster_name
        )

    def awaits_winner(self, workload: Workload) -> bool:
        """Whether it was admitted before its queue had a check, and no worker has it yet: once started it may not be copied."""
        ours = self.view.dispatched and self.adapter.unmanaged_reason(self.view.job) is None
        return ours and not workload.status.cluster_name

    def queues_again(self) -> bool:
        """Whether there is any use for the job without its Workload: what could not be queued again goes with that."""
        return self.adapter.resumes or is_of_stateful_set(self.view.job)

    def settle(self, why: str) -> JobDecision:
        """Stops the job, then makes its status say that nothing runs, as soon as nothing does."""
        stopped = self.stop(why)
        if stopped.actions:
            return stopped
        remote = self.running_remote()
        if remote is not None:
            return JobDecision(actions=self.copied_status(remote))
        patch = self.adapter.reset_status_patch(self.view.job)
        return JobDecision(actions=(PatchJobStatus(patch),) if patch is not None else ())

    def running_remote(self) -> AnyJob | None:
        """The remote as long as it has pods."""
        remote = self.view.remote
        return remote if remote is not None and not self.view.remote_lost and self.adapter.is_active(remote) else None

    def is_quiet(self) -> bool:
        """Nothing of the job runs, here or there."""
        runs = self.adapter.is_active(self.view.job) or self.running_remote() is not None or self.view.may_run
        return self.is_held() and not runs


# --- jobs whose Workload we make -------------------------------------------------------------------------------------


def _decide_own(case: _Case) -> JobDecision:
    kept, others = _choose(case)
    if kept is None:
        return _decide_missing(case, others)
    surplus = _delete(others, "Deleted not matching Workload")
    update = _update(case, kept)
    return _joined(surplus, update if update.actions or update.events else _decide_run(case, kept))


def _choose(case: _Case) -> tuple[Workload | None, tuple[Workload, ...]]:
    """The Workload that describes the job, and the others. Of several, the one that got furthest, then the oldest."""
    owned = sorted((w for w in case.view.workloads if is_owned(w, case.view.job)), key=_progress)
    kept = next((w for w in owned if case.adapter.matches(case.view.job, w)), None)
    return kept, tuple(w for w in owned if w is not kept)


def _progress(workload: Workload) -> tuple[bool, bool, bool, str, str]:
    meta = workload.metadata
    return (
        meta.deletion_timestamp is not None,
        not workload.has(ADMITTED),
        not workload.has(QUOTA_RESERVED),
        meta.creation_timestamp.isoformat() if meta.creation_timestamp else "",
        meta.name,
    )


def _decide_missing(case: _Case, others: tuple[Workload, ...]) -> JobDecision:
    """No Workload describes the job: bring one in line if that is possible, else begin anew."""
    job = case.view.job
    candidate = others[0] if others else None
    if candidate is not None and case.is_held() and _may_change(case, candidate):
        return _joined(_delete(others[1:], "Deleted not matching Workload"), _rewrite(case, candidate))
    if others:
        stopped = case.stop("No matching Workload")
        let_go = _let_go(case, others) if not stopped.actions else _NOTHING
        return _joined(stopped, _delete(others, "Deleted not matching Workload"), let_go)
    stopped = case.settle("Missing Workload")
    # The new one waits until the pods of the last run are gone; a job of ours says so as soon as nothing runs.
    if case.adapter.is_active(job) or case.running_remote() is not None or case.is_placed():
        return stopped
    return _joined(stopped, _create(case))


def _may_change(case: _Case, workload: Workload) -> bool:
    if workload.has(QUOTA_RESERVED) or workload.metadata.deletion_timestamp is not None:
        return False
    return case.adapter.waits_for(case.view.job) == ""


def _create(case: _Case, *, replaces: Workload | None = None) -> JobDecision:
    priority = case.view.priority
    missing = case.adapter.waits_for(case.view.job)
    if missing is None:
        return _NOTHING
    missing = missing or labels.disagreement(case.view.job, case.view.label_keys)
    if missing:
        return JobDecision(events=(JobEvent("Warning", "ErrWorkloadCompose", missing),))
    if isinstance(priority, str):
        return JobDecision(
            events=(JobEvent("Warning", "PriorityNotFound", priority),), again_after=LOOK_FOR_CLASS_AFTER
        )
    return _creation(case, _body(case, priority, replaces=replaces))


def _creation(case: _Case, body: dict[str, Any]) -> JobDecision:
    """Makes the Workload, under another name where somebody else has its own."""
    name, is_taken = body["metadata"]["name"], case.view.is_taken
    if not is_taken(name):
        return JobDecision(actions=(CreateWorkload(body),))
    if goes_by_name(body):
        why = f"the Workload {name} is not the job's, whose Pods name it: the job waits until it is gone"
        return JobDecision(events=(JobEvent("Warning", "WorkloadNameTaken", why),), again_after=LOOK_FOR_NAME_AFTER)
    free = free_name(name, case.view.job.metadata.uid, is_taken)
    told = JobEvent("Warning", "WorkloadNameTaken", f"the Workload {name} is not the job's, which gets {free}")
    return JobDecision(actions=(CreateWorkload(renamed(body, free)),), events=(told,))


def _body(case: _Case, priority: Priority, *, replaces: Workload | None = None) -> dict[str, Any]:
    if case.view.elastic:
        return case.labelled(slices.slice_body(case.view.job, priority=priority, replaces=replaces))
    return case.labelled(case.adapter.workload_body(case.view.job, priority=priority))


def _rewrite(case: _Case, workload: Workload) -> JobDecision:
    """Gives a Workload without quota the spec the job has now; whether it is active stays as it is."""
    priority = case.view.priority
    if isinstance(priority, str):
        spec = workload_spec(workload)
        priority = Priority(spec.priority, spec.priority_class_ref)
    optional: dict[str, Any] = {"maximumExecutionTimeSeconds": None, "priorityClassRef": None}
    spec_body = optional | case.adapter.workload_body(case.view.job, priority=priority)["spec"]
    event = JobEvent("Normal", "UpdatedWorkload", f"Updated not matching Workload for suspended job: {workload.key}")
    return JobDecision(actions=(_spec_update(workload, spec_body),), events=(event,))


def _delete(workloads: tuple[Workload, ...], why: str) -> JobDecision:
    doomed = tuple(w for w in workloads if w.metadata.deletion_timestamp is None)
    return JobDecision(
        actions=tuple(DeleteWorkload(w.key, w.metadata.uid) for w in doomed),
        events=tuple(JobEvent("Normal", "DeletedWorkload", f"{why}: {w.key}") for w in doomed),
    )


def _let_go(case: _Case, workloads: tuple[Workload, ...]) -> JobDecision:
    """Once the job is quiet, the Workloads being deleted may go."""
    if not case.is_quiet():
        settled = case.settle("Workload is deleted") if case.adapter.is_suspended(case.view.job) else _NOTHING
        return replace(settled, again_after=LOOK_FOR_WORKER_AFTER) if case.view.may_run else settled
    leaving = (w for w in workloads if w.metadata.deletion_timestamp is not None and w.metadata.finalizers)
    return JobDecision(actions=tuple(RemoveFinalizer(w.key) for w in leaving))


def _update(case: _Case, workload: Workload) -> JobDecision:
    """Follows what may change without a new Workload: queue, priority, and whether the job can be dispatched."""
    if workload.metadata.deletion_timestamp is not None:
        return _NOTHING
    wanted_queue, queue = case.adapter.queue_name(case.view.job), workload_spec(workload).queue_name
    moved = queue != wanted_queue and case.adapter.is_suspended(case.view.job) and not workload.has(ADMITTED)
    if moved and workload.has(QUOTA_RESERVED) and case.view.local_queue_exists:
        # A queue is immutable while quota is reserved; to keep waiting in the old one would ignore the user's wish.
        return _delete((workload,), "Deleted Workload because the job changed queues")
    changes: dict[str, Any] = {"queueName": wanted_queue} if moved and not workload.has(QUOTA_RESERVED) else {}
    changes |= _priority_changes(case.view.priority, workload)
    if UNDISPATCHABLE_ANNOTATION in workload.metadata.annotations:
        return JobDecision(actions=(_marked_update(workload, changes | {"active": True}, mark=None),))
    return JobDecision(actions=(_spec_update(workload, changes),) if changes else ())


def _priority_changes(priority: Priority | str, workload: Workload) -> dict[str, Any]:
    """The changed fields when the job names another WorkloadPriorityClass; the value of the one that the Workload names is the
    affair of the Workload.

    Other classes cannot change. While quota is reserved, the API server refuses a class to appear or to go.
    """
    ref = workload_spec(workload).priority_class_ref
    if isinstance(priority, str) or priority.class_ref == ref:
        return {}
    new, old = priorities.is_workload_class(priority.class_ref), priorities.is_workload_class(ref)
    may = new or old if not workload.has(QUOTA_RESERVED) else new and old
    if not may or (ref is not None and not old):
        return {}
    return {"priorityClassRef": priority.class_ref, "priority": priority.value}


def _spec_update(workload: Workload, spec: dict[str, Any]) -> UpdateWorkloadSpec:
    return UpdateWorkloadSpec(
        workload.key, {"metadata": {"resourceVersion": workload.metadata.resource_version}, "spec": spec}
    )


def _marked_update(workload: Workload, spec: dict[str, Any], *, mark: str | None) -> UpdateWorkloadSpec:
    """An update that also sets, or takes away, the annotation that says why the Workload is kept inactive."""
    metadata = {
        "resourceVersion": workload.metadata.resource_version,
        "annotations": {UNDISPATCHABLE_ANNOTATION: mark},
    }
    return UpdateWorkloadSpec(workload.key, {"metadata": metadata, "spec": spec})


# --- elastic jobs ----------------------------------------------------------------------------------------------------


def _decide_elastic(case: _Case, now: datetime) -> JobDecision:
    """Follows the size of a job that may change it while it runs, by its Workload or by another slice (contract 3.5).

    There are two at most: the one that runs, and the one that is to take its place. Anything else that changed begins
    anew, as with other jobs.
    """
    job = case.view.job
    found = slices.in_order([w for w in case.view.workloads if is_owned(w, job)])
    if len(found) not in (1, 2) or not all(slices.suits(job, w) for w in found):
        return _decide_own(case)
    last, before = found[-1], found[0] if len(found) > 1 else None
    if before is not None and not before.has(QUOTA_RESERVED):
        return JobDecision(actions=(_out_of_sync(before, now),))
    runs = last if before is None or last.has(QUOTA_RESERVED) else before
    update = _update(case, last)
    if update.actions:
        return update
    scaled = _scaled(case, last, alone=before is None)
    return scaled if scaled.actions else _joined(scaled, _decide_run(case, runs))


def _scaled(case: _Case, last: Workload, *, alone: bool) -> JobDecision:
    """The last slice in the job's size, if it may have that; else, if it runs alone, one more."""
    job = case.view.job
    if case.adapter.matches(job, last):
        return _NOTHING
    if not last.has(QUOTA_RESERVED) or pods_count(job) < slices.size(last):
        event = JobEvent("Normal", "UpdatedWorkload", f"Updated the size of Workload: {last.key}")
        return JobDecision(actions=(UpdateWorkloadSpec(last.key, slices.count_patch(job, last)),), events=(event,))
    return _create(case, replaces=last) if alone and not last.has(EVICTED) else _NOTHING


def _out_of_sync(workload: Workload, now: datetime) -> PatchWorkloadStatus:
    """A slice that lost its quota to others leaves the job to the one that was to take its place."""
    condition = Condition(
        type=FINISHED,
        status="True",
        reason=OUT_OF_SYNC,
        message="A later slice describes the elastic job",
        observed_generation=workload.metadata.generation,
    )
    return _conditions_patch(workload, condition, now)


# --- running ---------------------------------------------------------------------------------------------------------


def _decide_run(case: _Case, workload: Workload) -> JobDecision:
    """Starts, stops and mirrors a job whose Workload is in order (quota-engine 6.4)."""
    if workload.metadata.deletion_timestamp is not None:
        stopped = case.stop("Workload is deleted") if case.queues_again() else case.ended("Workload is deleted")
        return stopped if stopped.actions else _let_go(case, (workload,))
    if workload.has(EVICTED):
        evicted = workload.condition(EVICTED)
        return case.settle(evicted.message if evicted and evicted.message else "Evicted")
    if not workload.has(ADMITTED):
        if case.view.elastic and workload.has(QUOTA_RESERVED) and replaced_key(workload) is not None:
            return _NOTHING  # it goes on as the slice before it had it
        return case.settle("Not admitted by cluster queue")
    may_start = not (case.runs_elsewhere(workload) or case.awaits_winner(workload))
    patch = case.adapter.start_patch(case.view.job) if may_start else None
    if patch is not None:
        return _started(case, workload, patch)
    remote = case.view.remote
    return JobDecision(actions=case.copied_status(remote) if remote is not None and not case.view.remote_lost else ())


def _started(case: _Case, workload: Workload, patch: dict[str, Any]) -> JobDecision:
    """A dispatched job is told by the Kueue of its worker where to run; others here. One that cannot be told waits for its
    Workload to be finished."""
    placing = case.adapter.placing
    if placing is None or not stays(case.adapter, case.view.job, workload, dispatched=case.view.dispatched):
        return JobDecision(actions=(PatchJob(patch),))
    try:
        told = pod_set_info.start_patch(case.view.job, patch, placing, workload, case.view.flavors)
    except pod_set_info.Conflicting:
        return _NOTHING
    if told is None:
        return JobDecision(again_after=LOOK_FOR_FLAVOR_AFTER)
    return JobDecision(actions=(PatchJob(told),))


# --- jobs with a Workload made by the user ---------------------------------------------------------------------------


def _decide_prebuilt(case: _Case) -> JobDecision:
    """The user made the Workload: take it over, never make, change or delete it (quota-engine 6.2)."""
    job, name = case.view.job, prebuilt_name(case.view.job)
    workload = next((w for w in case.view.workloads if w.metadata.name == name), None)
    if workload is None:
        return _unusable(case, f"Prebuilt Workload {name} not found")
    owner = owner_of(workload)
    if owner is not None and not is_owned(workload, job):
        return _unusable(case, f"Prebuilt Workload {name} belongs to {owner.kind} {owner.name}")
    if owner is None and workload.metadata.deletion_timestamp is None:
        return JobDecision(actions=(_adoption(case, workload),))
    if not case.adapter.matches(job, workload):
        return _unusable(case, f"Prebuilt Workload {name} is out of sync with the job")
    return _decide_run(case, workload)


def _unusable(case: _Case, why: str) -> JobDecision:
    return _joined(
        case.settle(why), JobDecision(events=(JobEvent("Warning", "PrebuiltWorkload", f"{why}: the job waits"),))
    )


def _adoption(case: _Case, workload: Workload) -> UpdateWorkloadSpec:
    meta = case.view.job.metadata
    owners = [*workload.metadata.owner_references, owner_reference(case.adapter.kind, meta)]
    changes = {
        "resourceVersion": workload.metadata.resource_version,
        "ownerReferences": owners,
        "labels": job_uid_labels(meta),
    }
    return UpdateWorkloadSpec(workload.key, {"metadata": changes})


# --- jobs that belong to others --------------------------------------------------------------------------------------


def _decide_nested(case: _Case, nested: Nested) -> JobDecision:
    """Holds a job until the one it belongs to is admitted; whoever made it lets it go. It has no Workload of its own: one
    from before it belonged to that is deleted, unless the user made it (quota-engine 6.1)."""
    if nested is Nested.UNSEEN:
        return _NOTHING
    if nested is Nested.TOO_DEEP:
        why = f"Terminated search for the job it belongs to: there are more than {MOST_HOPS} above it, or they go round"
        return JobDecision(events=(JobEvent("Warning", "JobNestingTooDeep", why),))
    named = prebuilt_name(case.view.job)
    own = tuple(w for w in case.view.workloads if is_owned(w, case.view.job) and w.metadata.name != named)
    held = case.held("The job it belongs to is not admitted") if nested is Nested.WAITING else _NOTHING
    deleted = _delete(own, "Deleted the Workload of a job that belongs to another")
    return _joined(held, deleted, _let_go(case, own) if own else _NOTHING)


# --- jobs that cannot be dispatched ----------------------------------------------------------------------------------


def _decide_undispatchable(case: _Case, now: datetime) -> JobDecision:
    """Keeps a Workload for people to read, inactive so that it takes no quota from others.

    One that has quota already is left to the dispatcher, which rejects it (contract 3.1 E4); where there is no dispatcher it
    loses that. Who activates it is told again.
    """
    why = case.undispatchable() or ""
    warning = JobEvent("Warning", "Undispatchable", why)
    kept, others = _choose(case)
    first = _joined(case.settle("Not dispatchable"), _delete(others, "Deleted not matching Workload"))
    if kept is None:
        return _joined(first, _marked_creation(case, why, warning))
    dispatchers = kept.has(QUOTA_RESERVED) and not case.is_stranded()
    if dispatchers or kept.metadata.deletion_timestamp is not None:
        return _joined(_delete(others, "Deleted not matching Workload"), _decide_run(case, kept))
    if kept.metadata.annotations.get(UNDISPATCHABLE_ANNOTATION) != why or workload_spec(kept).active:
        mark = _marked_update(kept, {"active": False}, mark=why)
        return _joined(first, JobDecision(actions=(mark,), events=(warning,)))
    if kept.condition(QUOTA_RESERVED) is None:
        return _joined(first, JobDecision(actions=(_inadmissible(kept, why, now),)))
    return first


def _marked_creation(case: _Case, why: str, warning: JobEvent) -> JobDecision:
    if case.view.workloads or case.adapter.is_active(case.view.job):
        return _NOTHING
    priority = case.view.priority if isinstance(case.view.priority, Priority) else Priority()
    body = case.labelled(case.adapter.workload_body(case.view.job, priority=priority))
    metadata, spec = body["metadata"], body["spec"]
    annotations = metadata.get("annotations", {}) | {UNDISPATCHABLE_ANNOTATION: why}
    marked = body | {"metadata": metadata | {"annotations": annotations}, "spec": spec | {"active": False}}
    return _joined(_creation(case, marked), JobDecision(events=(warning,)))


def _inadmissible(workload: Workload, why: str, now: datetime) -> PatchWorkloadStatus:
    condition = Condition(
        type=QUOTA_RESERVED,
        status="False",
        reason="Inadmissible",
        message=why,
        observed_generation=workload.metadata.generation,
    )
    return _conditions_patch(workload, condition, now)


def _conditions_patch(workload: Workload, condition: Condition, now: datetime) -> PatchWorkloadStatus:
    return PatchWorkloadStatus(
        workload.key,
        {
            "metadata": {"resourceVersion": workload.metadata.resource_version},
            "status": {"conditions": with_condition(workload.status.conditions, condition, now)},
        },
    )


def _joined(*decisions: JobDecision) -> JobDecision:
    waits = [d.again_after for d in decisions if d.again_after is not None]
    return JobDecision(
        actions=tuple(action for d in decisions for action in d.actions),
        events=tuple(event for d in decisions for event in d.events),
        again_after=min(waits, default=None),
    )
