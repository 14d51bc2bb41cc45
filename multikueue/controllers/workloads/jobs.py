"""One job on the manager: makes and updates its Workload, starts and stops it, copies its status from the worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import nullcontext, suppress
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import PodGroup
from multikueue.api.kind import Kind
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.event import REFUSED, Event
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import excerpt, why_unreadable
from multikueue.controllers.quota.queue_status import remove_finalizer
from multikueue.controllers.reconcile.conditions import lost_switches, report_lost_fields
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.errors import AlreadyExists, ApiError, Conflict, NotFound, ServerError, Throttled, Unauthorized
from multikueue.jobs.framework.actions import (
    CreateWorkload,
    DeleteJob,
    DeleteWorkload,
    PatchJob,
    PatchJobStatus,
    PatchWorkloadStatus,
    RemoveFinalizer,
    UpdateWorkloadSpec,
)
from multikueue.jobs.framework.workloads import is_owned
from multikueue.jobs.kinds.pods.members import members_of, parts
from multikueue.jobs.reconciler.decide import Decide, decide
from multikueue.runtime import DONE, Result
from multikueue.telemetry import get_logger

__all__ = ["WRITES", "Jobs", "delete_job", "refusal", "release", "subject_of"]

log = get_logger()


class Jobs(msgspec.Struct, frozen=True):
    """Reconciles jobs of all kinds, never two at a time per key. `decide` returns the actions for a job."""

    context: ReconcileContext
    decide: Decide = decide

    async def reconcile(self, key: JobKey) -> Result:
        context = self.context
        job = context.store.jobs.get(key)
        if job is None or self._is_left_alone(job):
            context.store.refusals.over(key)
            return DONE
        adapter = context.store.adapters.named(key.kind)
        try:
            decision = self.decide(context.job_views.of(job, adapter), context.now(), adapter)
        except RecursionError as error:  # shallow enough to decode, too deep to compare
            context.recorder.unreadable("", *subject_of(context, job), why_unreadable(error))
            return DONE
        for event in decision.events:
            self._tell(job, event)
        for action in decision.actions:
            log.debug("job.action", action=type(action).__name__)
            try:
                await _PERFORM[type(action)](action, context, job)
            except ApiError as error:
                self._refused(action, key, job, error)
                raise
        context.store.refusals.over(key)
        return Result(again_after=decision.again_after)

    def _is_left_alone(self, job: AnyJob) -> bool:
        is_managed = self.context.store.is_managed(job.metadata.namespace)
        return not is_managed and job.metadata.deletion_timestamp is None

    def _refused(self, action: object, key: JobKey, job: AnyJob, error: ApiError) -> None:
        """Tells the user what the API server says, once: a schema, a quota, a policy or a webhook may refuse what we write,
        until it is changed."""
        what = WRITES.get(type(action), "the job cannot be written")
        words = refusal(self.context, key, what, error)
        if words:
            self._tell(job, Event("Warning", REFUSED, words))

    def _tell(self, job: AnyJob, event: Event) -> None:
        kind, subject = subject_of(self.context, job)
        self.context.recorder.emit(kind, subject, type_=event.type, reason=event.reason, message=event.message)


def refusal(context: ReconcileContext, key: Hashable, what: str, error: ApiError) -> str:
    """What to report of a write of that key that the manager cluster refuses, in the server's words. Empty if it was reported,
    or if another try may succeed and it does not last yet."""
    why = excerpt(f"{error.status} {error.reason}: {error.message}")
    is_sure = not isinstance(error, (Conflict, NotFound, Unauthorized, Throttled, ServerError))
    is_news = context.store.refusals.fails(key, what, why, context.now(), is_sure=is_sure)
    return f"{what}: {why}" if is_news else ""


WRITES: Mapping[type, str] = {
    CreateWorkload: "the Workload of the job cannot be made",
    UpdateWorkloadSpec: "the Workload of the job cannot be updated",
    PatchWorkloadStatus: "the status of the job's Workload cannot be written",
    DeleteWorkload: "the Workload of the job cannot be deleted",
    RemoveFinalizer: "the Workload of the job cannot be released",
    PatchJobStatus: "the status of the job cannot be written",
    DeleteJob: "the job cannot be deleted",
}
"""The message to a user about an action that is refused."""


async def _create(action: CreateWorkload, context: ReconcileContext, job: AnyJob) -> None:
    namespace, workloads = job.metadata.namespace, context.store.workloads
    try:
        workloads.upsert(await context.manager.create(WORKLOADS, namespace, action.body))
    except AlreadyExists:
        found = await context.manager.get(WORKLOADS, ObjectKey(namespace, action.body["metadata"]["name"]))
        workloads.upsert(found)
        if found.metadata.deletion_timestamp is not None or not is_owned(found, job):
            raise Conflict(409, "Conflict", "a workload of that name is another's, or being deleted") from None


async def _update(action: UpdateWorkloadSpec, context: ReconcileContext, _job: AnyJob) -> None:
    context.store.workloads.upsert(await context.manager.merge_patch(WORKLOADS, action.key, action.patch))


async def _update_status(action: PatchWorkloadStatus, context: ReconcileContext, _job: AnyJob) -> None:
    answer = await context.manager.merge_patch(WORKLOADS, action.key, action.patch, subresource="status")
    context.store.workloads.upsert(answer)


async def _delete_workload(action: DeleteWorkload, context: ReconcileContext, _job: AnyJob) -> None:
    """Unless another one has its name by now."""
    workloads = context.store.workloads
    seen = workloads.get(action.key)
    try:
        left = await context.manager.delete(WORKLOADS, action.key, uid=action.uid)
    except NotFound:
        left = None
    if left is not None:
        workloads.upsert(left)
    elif seen is not None and seen.metadata.uid == action.uid:
        workloads.remove(seen)


async def _release(action: RemoveFinalizer, context: ReconcileContext, _job: AnyJob) -> None:
    """Unless the reconcile of the workload does."""
    workload = context.store.workloads.get(action.key)
    if workload is not None and context.store.job_to_stop(workload) is not None:
        await release(context, action.key)


async def _patch(action: PatchJob, context: ReconcileContext, job: AnyJob) -> None:
    for part, patch in parts(job, action.patch):
        answer = await _write(context, part, patch, is_all=action.is_all)
        if new := patch.get("spec"):
            lost = tuple(lost_switches(new, msgspec.json.decode(answer.spec)))
            report_lost_fields(context, context.store.adapters.of(part).kind, part, lost, within="spec")


async def _patch_status(action: PatchJobStatus, context: ReconcileContext, job: AnyJob) -> None:
    for part, patch in parts(job, action.patch):
        answer = await _write(context, part, patch, is_all=action.is_all, subresource="status")
        new, stored = patch.get("status"), bytes(answer.status)
        lost = [name for name, value in new.items() if value and f'"{name}"'.encode() not in stored] if new else []
        report_lost_fields(context, context.store.adapters.of(part).kind, part, lost, is_harmless=True)


async def _write(
    context: ReconcileContext, part: AnyJob, patch: dict[str, Any], *, is_all: bool, subresource: str = ""
) -> AnyJob:
    store, kind = context.store, context.store.adapters.of(part).kind
    with store.writing(store.adapters.key_of(part)) if is_all else nullcontext(store.jobs.upsert) as take_in:
        answer: AnyJob = await context.manager.merge_patch(kind, part.key, patch, subresource=subresource)
        take_in(answer)
    return answer


async def _delete_job(_action: DeleteJob, context: ReconcileContext, job: AnyJob) -> None:
    await delete_job(context, job)


_PERFORM: Mapping[type, Callable[[Any, ReconcileContext, AnyJob], Awaitable[None]]] = {
    CreateWorkload: _create,
    UpdateWorkloadSpec: _update,
    PatchWorkloadStatus: _update_status,
    DeleteWorkload: _delete_workload,
    RemoveFinalizer: _release,
    PatchJob: _patch,
    PatchJobStatus: _patch_status,
    DeleteJob: _delete_job,
}
"""What carries out an action on the job, or on a Workload of it. Raises as `ClusterClient` does."""


def subject_of(context: ReconcileContext, job: AnyJob) -> tuple[Kind[Any], AnyJob]:
    """The object of events about a job: itself, or the first Pod of a group."""
    subject = job.members[0] if isinstance(job, PodGroup) else job
    return context.store.adapters.of(subject).kind, subject


async def delete_job(context: ReconcileContext, job: AnyJob) -> None:
    """Deletes the job by its UID, or each of its Pods if it is a group."""
    for part in members_of(job):
        kind = context.store.adapters.of(part).kind
        with suppress(NotFound):
            left = await context.manager.delete(kind, part.key, uid=part.metadata.uid)
            context.store.jobs.upsert(left) if left is not None else context.store.jobs.remove(part)


async def release(context: ReconcileContext, key: ObjectKey) -> None:
    """Removes our finalizer from a workload that is being deleted."""
    workload = context.store.workloads.get(key)
    if workload is not None:
        await remove_finalizer(context.manager, WORKLOADS, context.store.workloads, workload)
