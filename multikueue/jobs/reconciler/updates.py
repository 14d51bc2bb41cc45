"""Deletions and updates of Workloads, as decisions, and the merging of decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from multikueue.api.kind import Kind
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import Condition, ObjectMeta, with_condition
from multikueue.jobs.framework.actions import (
    DeleteWorkload,
    JobDecision,
    PatchWorkloadStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.workloads import job_uid_labels, owner_reference
from multikueue.jobs.reconciler.case import NOTHING, JobCase

LOOK_FOR_WORKER_AFTER = timedelta(seconds=5)
"""A worker that comes back, or is lost by time, wakes its workloads, but no job (`store.event_handlers.triggers`)."""


def delete(
    workloads: tuple[Workload, ...], why: str, difference: Callable[[Workload], str] | None = None
) -> JobDecision:
    """Deletes them, with an event each, which names in which field the Workload differs from the job if that is the reason."""
    doomed = tuple(w for w in workloads if w.metadata.deletion_timestamp is None)
    told = (with_difference(f"{why}: {w.key}", difference(w) if difference else "") for w in doomed)
    return JobDecision(
        actions=tuple(DeleteWorkload(w.key, w.metadata.uid) for w in doomed),
        events=tuple(Event("Normal", "DeletedWorkload", words) for words in told),
    )


def with_difference(words: str, difference: str) -> str:
    return f"{words}: {difference}" if difference else words


def let_go(case: JobCase, workloads: tuple[Workload, ...]) -> JobDecision:
    """Removes the finalizers of Workloads that are being deleted, once nothing of the job runs."""
    if not case.is_quiet():
        settled = case.settle("Workload is deleted") if case.adapter.is_suspended(case.view.job) else NOTHING
        return replace(settled, again_after=LOOK_FOR_WORKER_AFTER) if case.view.may_run else settled
    leaving = (w for w in workloads if w.metadata.deletion_timestamp is not None and w.metadata.finalizers)
    return JobDecision(actions=tuple(RemoveFinalizer(w.key) for w in leaving))


def spec_update(workload: Workload, spec: dict[str, Any]) -> UpdateWorkloadSpec:
    return UpdateWorkloadSpec(
        workload.key, {"metadata": {"resourceVersion": workload.metadata.resource_version}, "spec": spec}
    )


def adoption(workload: Workload, kind: Kind[Any], job: ObjectMeta) -> UpdateWorkloadSpec:
    """The job of that kind becomes the controller of a Workload that another program made for it (contract 3.12)."""
    changes = {
        "resourceVersion": workload.metadata.resource_version,
        "ownerReferences": [*workload.metadata.owner_references, owner_reference(kind, job)],
        "labels": job_uid_labels(job),
    }
    return UpdateWorkloadSpec(workload.key, {"metadata": changes})


def annotated_update(
    workload: Workload, spec: dict[str, Any], annotations: Mapping[str, str | None]
) -> UpdateWorkloadSpec:
    """An update that also sets annotations, or removes those that are None."""
    metadata: dict[str, Any] = {"resourceVersion": workload.metadata.resource_version}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return UpdateWorkloadSpec(workload.key, {"metadata": metadata, "spec": spec})


def conditions_patch(workload: Workload, condition: Condition, now: datetime) -> PatchWorkloadStatus:
    return PatchWorkloadStatus(
        workload.key,
        {
            "metadata": {"resourceVersion": workload.metadata.resource_version},
            "status": {"conditions": with_condition(workload.status.conditions, condition, now)},
        },
    )


def joined(*decisions: JobDecision) -> JobDecision:
    waits = [d.again_after for d in decisions if d.again_after is not None]
    return JobDecision(
        actions=tuple(action for d in decisions for action in d.actions),
        events=tuple(event for d in decisions for event in d.events),
        again_after=min(waits, default=None),
    )
