"""What Kueue's job reconciler does for one batch Job of a worker. Pure: what is seen in, what to write out.

Unlike on the manager (`jobs.decide`) the job runs here: starting it gives its pods what flavors and admission checks
demand, and stopping takes that away again (quota-engine 6.2-6.4). A Workload that somebody else made for the job
(contract 3.12) is adopted, and finished when the two do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from multikueue.api.job import Job, job_spec, job_status
from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey, controller_of, decoder
from multikueue.api.queues import ResourceFlavor
from multikueue.api.slices import is_elastic
from multikueue.api.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    OUT_OF_SYNC,
    QUOTA_RESERVED,
    REPLACES_ANNOTATION,
    Finish,
    PodSetAssignment,
    Workload,
    workload_spec,
)
from multikueue.jobs import slices
from multikueue.jobs.actions import (
    Action,
    CreateWorkload,
    DeleteWorkload,
    PatchJob,
    PatchJobStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.batch_job import BATCH_JOB, STOPPING_ANNOTATION, pods_count
from multikueue.jobs.canonical import merge_patch
from multikueue.jobs.priority import Priority
from multikueue.jobs.workloads import job_uid_labels, owner_reference, prebuilt_name, workload_priority_class

__all__ = [
    "JobView",
    "conflict",
    "decide",
    "ending",
    "is_active",
    "job_keys",
    "let_go",
]

Tree = dict[str, Any]

FAILED_TO_START = "FailedToStart"

_POD_SET_LABEL = "kueue.x-k8s.io/podset"
_WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
_GENERATED_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")


class _Update(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of the podSetUpdates of an admission check."""

    name: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    node_selector: dict[str, str] = {}
    tolerations: list[Tree] = []


_tree: Callable[[msgspec.Raw], Tree] = decoder(dict[str, Any])
_updates: Callable[[msgspec.Raw], list[_Update]] = msgspec.json.Decoder(list[_Update]).decode


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """What is known of a job: the Workloads whose controller is a job of its name, and the one it names as prebuilt.

    `priority` is asked where it is needed; it answers as `jobs.decide.resolve_priority` does. `flavors` are all of the
    cluster, by name.
    """

    job: Job
    owned: tuple[Workload, ...] = ()
    named: Workload | None = None
    priority: Callable[[], Priority | str] = Priority
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)


def is_active(job: Job) -> bool:
    """Whether it has pods."""
    return job_status(job).active > 0


def decide(view: JobView) -> tuple[Action, ...]:
    """What to write for the job now, in this order; the order of the checks is Kueue's."""
    job = view.job
    if job.metadata.deletion_timestamp is not None:
        return let_go(view.owned)
    if not BATCH_JOB.queue_name(job):
        return ()
    if prebuilt_name(job):
        return _decide_prebuilt(view)
    return _decide_slices(view) if slices.is_sliced(job) else _decide_own(view)


def let_go(workloads: Iterable[Workload]) -> tuple[Action, ...]:
    """The job of these Workloads is gone, or finished: they may go."""
    return tuple(RemoveFinalizer(w.key) for w in workloads if w.metadata.finalizers)


def ending(workload: Workload, job: Job | None, flavors: Mapping[str, ResourceFlavor]) -> Finish | None:
    """How a Workload ended, by the job that controls it; None while it has not."""
    if job is None or job.metadata.deletion_timestamp is not None or not BATCH_JOB.queue_name(job):
        return None
    prebuilt, finish = prebuilt_name(job), BATCH_JOB.finished(job)
    if prebuilt and prebuilt != workload.metadata.name:
        return None
    starts = workload.has(ADMITTED) and not workload.has(EVICTED) and finish is None and _is_suspended(job)
    if not (prebuilt or finish or starts):
        return None  # nothing is at its end: no need to compare the two
    if not _is_in_sync(job, workload):
        message = "The prebuilt workload is out of sync with its user job"
        return Finish(reason=OUT_OF_SYNC, message=message) if prebuilt else None
    problem = conflict(job, workload, flavors) if starts else ""
    return Finish(reason=FAILED_TO_START, message=problem) if problem else finish


# --- which Workload is the job's -------------------------------------------------------------------------------------


def _decide_prebuilt(view: JobView) -> tuple[Action, ...]:
    job, workload = view.job, view.named
    owner = controller_of(workload.metadata) if workload else None
    if workload is None or (owner is not None and owner.uid != job.metadata.uid):
        return _stop(job, None)
    if owner is None:
        return (_adoption(job, workload),)
    if not _is_in_sync(job, workload):
        return _stop(job, None)
    return _decide_run(view, workload)


def _is_in_sync(job: Job, workload: Workload) -> bool:
    """Whether the two may go together. A slice of an elastic job that replaces another is not compared."""
    is_slice = REPLACES_ANNOTATION in workload.metadata.annotations and is_elastic(job) and bool(prebuilt_name(job))
    return is_slice or BATCH_JOB.matches(job, workload)


def _adoption(job: Job, workload: Workload) -> UpdateWorkloadSpec:
    meta = workload.metadata
    owners = [*meta.owner_references, owner_reference(JOBS, job.metadata)]
    changes = {
        "resourceVersion": meta.resource_version,
        "ownerReferences": owners,
        "labels": job_uid_labels(job.metadata),
    }
    return UpdateWorkloadSpec(workload.key, {"metadata": changes})


def _decide_own(view: JobView) -> tuple[Action, ...]:
    job = view.job
    owned = sorted(view.owned, key=lambda w: w.key)
    kept = next((w for w in owned if BATCH_JOB.matches(job, w)), None)
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
    """A Workload without quota gets the spec that the job has now."""
    priority = view.priority()
    if isinstance(priority, str):
        return ()
    optional: Tree = {"maximumExecutionTimeSeconds": None, "priorityClassRef": None}
    spec = optional | BATCH_JOB.workload_body(view.job, priority=priority)["spec"]
    return (_spec_update(workload, spec),)


def _decide_slices(view: JobView) -> tuple[Action, ...]:
    """An elastic job: its size is followed downwards in its Workload, upwards by another one."""
    job, found = view.job, slices.in_order(slices.present(view.owned))
    last = found[-1] if found else None
    if last is None or BATCH_JOB.finished(job) is not None or not all(slices.suits(job, w) for w in found):
        return _decide_own(replace(view, owned=found))
    if not BATCH_JOB.matches(job, last):
        if not last.has(QUOTA_RESERVED) or pods_count(job) < slices.size(last):
            return (UpdateWorkloadSpec(last.key, slices.count_patch(job, last)),)
        return _slice(view, replaces=last) if len(found) == 1 else ()
    runs = last if last.has(QUOTA_RESERVED) else found[0]
    goes_on = runs.has(QUOTA_RESERVED) and not runs.has(ADMITTED) and not _is_suspended(job)
    return () if goes_on and not runs.has(EVICTED) else _decide_run(view, runs)


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
    """A class named by label may be exchanged, whatever became of the Workload meanwhile."""
    ref, name = workload_spec(workload).priority_class_ref, workload_priority_class(view.job)
    if name == (ref.name if ref else "") or workload.has(FINISHED):
        return ()
    if ref is not None and ref.kind != "WorkloadPriorityClass":
        return ()
    priority = view.priority()
    if isinstance(priority, str):
        return ()
    return (_spec_update(workload, {"priorityClassRef": priority.class_ref, "priority": priority.value}),)


def _spec_update(workload: Workload, spec: Tree) -> UpdateWorkloadSpec:
    meta = {"resourceVersion": workload.metadata.resource_version}
    return UpdateWorkloadSpec(workload.key, {"metadata": meta, "spec": spec})


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
    if not _is_suspended(job) or conflict(job, workload, view.flavors):
        return ()
    return (_start(job, workload, view.flavors),)


def _is_suspended(job: Job) -> bool:
    """Whether it is held, and wholly so."""
    return BATCH_JOB.may_be_copied(job)


def _move(job: Job, workload: Workload) -> tuple[Action, ...]:
    queue = BATCH_JOB.queue_name(job)
    return (_spec_update(workload, {"queueName": queue}),) if workload_spec(workload).queue_name != queue else ()


def _start(job: Job, workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> PatchJob:
    template = _tree(job_spec(job).template)
    info = _demanded(workload, flavors)
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    known = spec.get("tolerations") or []
    tolerations = [*known, *(t for t in info.tolerations if t not in known)]
    wanted = {
        "metadata": {**meta, **_merged(meta, labels=info.labels, annotations=info.annotations)},
        "spec": {
            **spec,
            **_merged(spec, nodeSelector=info.node_selector),
            **({"tolerations": tolerations} if tolerations else {}),
        },
    }
    change = merge_patch(template, wanted)
    body: Tree = {"suspend": False} | ({"template": change} if change else {})
    return PatchJob({"metadata": {"uid": job.metadata.uid}, "spec": body})


def _stop(job: Job, workload: Workload | None) -> tuple[Action, ...]:
    """Suspend it, take its start back, and give it its own template again; what is so already is left out."""
    uid = {"uid": job.metadata.uid}
    actions: list[Action] = []
    annotated = job.metadata.annotations.get(STOPPING_ANNOTATION) == "true"
    if not _is_suspended(job):
        mark = {"annotations": {STOPPING_ANNOTATION: "true"}}
        if not (annotated and BATCH_JOB.is_suspended(job)):
            actions.append(PatchJob({"metadata": uid | mark, "spec": {"suspend": True}}))
        annotated = True
    if job_status(job).start_time is not None:
        actions.append(PatchJobStatus({"metadata": uid, "status": {"startTime": None}}))
    restored = _restoration(job, workload) if workload is not None else {}
    if annotated or restored:
        unmark = {"annotations": {STOPPING_ANNOTATION: None}} if annotated else {}
        actions.append(PatchJob({"metadata": uid | unmark} | ({"spec": {"template": restored}} if restored else {})))
    return tuple(actions)


def _restoration(job: Job, workload: Workload) -> Tree:
    """The merge patch that gives the job's template what the Workload says that it was."""
    pod_sets = workload_spec(workload).pod_sets
    if len(pod_sets) != 1:
        return {}
    now, then = _tree(job_spec(job).template), _tree(pod_sets[0].template)
    meta, spec = now.get("metadata") or {}, now.get("spec") or {}
    old_meta, old_spec = then.get("metadata") or {}, then.get("spec") or {}
    labels = meta.get("labels") or {}
    kept = {name: labels[name] for name in _GENERATED_LABELS if name in labels}
    wanted = {
        "metadata": _replaced(
            meta, labels=(old_meta.get("labels") or {}) | kept, annotations=old_meta.get("annotations")
        ),
        "spec": _replaced(spec, **{f: old_spec.get(f) for f in ("nodeSelector", "tolerations", "schedulingGates")}),
    }
    return merge_patch({"metadata": meta, "spec": spec}, wanted)


def _merged(tree: Tree, **more: Mapping[str, str]) -> Tree:
    """The named members with more in each; those that stay empty are left out."""
    return {name: {**(tree.get(name) or {}), **new} for name, new in more.items() if new}


def _replaced(tree: Tree, **new: Any) -> Tree:
    """The tree with other members in place of these; empty ones are left out."""
    return {k: v for k, v in tree.items() if k not in new} | {k: v for k, v in new.items() if v}


# --- what flavors and checks demand of the pods -----------------------------------------------------------------------


@dataclass(slots=True)
class _Demands:
    """What the pods of an admitted workload must have. `problem` says which two demands exclude each other."""

    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Tree] = field(default_factory=list)
    problem: str = ""

    def take(self, update: _Update, check: str) -> None:
        pairs = (
            ("annotations", self.annotations, update.annotations),
            ("labels", self.labels, update.labels),
            ("nodeSelector", self.node_selector, update.node_selector),
        )
        for name, known, new in pairs:
            if clash := _clash(known, new):
                self.problem = self.problem or f'in admission check "{check}": {_excluded(name, clash)}'
            known.update(new)
        self.tolerations += [t for t in update.tolerations if t not in self.tolerations]


def conflict(job: Job, workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> str:
    """Why the pods of the job cannot be given what they need; empty if they can."""
    info = _demanded(workload, flavors)
    if info.problem:
        return info.problem
    template = _tree(job_spec(job).template)
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    pairs = (
        ("annotations", meta.get("annotations") or {}, info.annotations),
        ("labels", meta.get("labels") or {}, info.labels),
        ("nodeSelector", spec.get("nodeSelector") or {}, info.node_selector),
    )
    return next((_excluded(name, clash) for name, has, needs in pairs if (clash := _clash(has, needs))), "")


def _demanded(workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> _Demands:
    """For the one pod set of a batch Job."""
    admission = workload.status.admission
    assignment = admission.pod_set_assignments[0] if admission and admission.pod_set_assignments else PodSetAssignment()
    info = _Demands(annotations={_WORKLOAD_ANNOTATION: workload.metadata.name})
    for name in dict.fromkeys(flavor for _, flavor in sorted(assignment.flavors.items())):
        flavor = flavors.get(name)
        if flavor is not None:
            info.node_selector.update(flavor.spec.node_labels)
            info.tolerations += [msgspec.to_builtins(t) for t in flavor.spec.tolerations]
    info.labels[_POD_SET_LABEL] = assignment.name or "main"
    for check in workload.status.admission_checks:
        for update in _updates(check.pod_set_updates) if isinstance(check.pod_set_updates, msgspec.Raw) else ():
            if update.name == assignment.name:
                info.take(update, check.name)
    return info


def _clash(known: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, str, str] | None:
    return next(((k, known[k], new[k]) for k in sorted(new) if known.get(k, new[k]) != new[k]), None)


def _excluded(name: str, clash: tuple[str, str, str]) -> str:
    key, one, other = clash
    where = f"conflict for {name}: conflict for key={key}, value1={one}, value2={other}"
    return f"invalid admission check PodSetUpdate: {where}"


def job_keys(workload: Workload) -> Iterable[ObjectKey]:
    """The key of the batch Job that controls a Workload, if one does."""
    owner = controller_of(workload.metadata)
    if owner is None or (owner.api_version, owner.kind) != (JOBS.api_version, JOBS.kind):
        return ()
    return (ObjectKey(workload.metadata.namespace, owner.name),)
