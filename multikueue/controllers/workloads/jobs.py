"""One job on the manager: makes and updates its Workload, starts and stops it, copies its status from the worker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import singledispatchmethod
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.jobs.pod import PodGroup
from multikueue.api.kind import Kind
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.event import REFUSED
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import excerpt
from multikueue.api.values.unreadable import why_unreadable
from multikueue.controllers.quota.finalizers import remove_finalizer
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.kept import report_lost_fields
from multikueue.dispatch.remote import Remote, attempt_of, is_of_attempt, is_taken_over
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
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
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.workloads import is_owned, may_be_its, prebuilt_name
from multikueue.jobs.kinds.batch_job.slices import is_sliced
from multikueue.jobs.kinds.pods.members import members_of, parts
from multikueue.jobs.reconciler.case import is_over
from multikueue.jobs.reconciler.decide import Decide, JobView, decide, resolve_priority
from multikueue.runtime import Result
from multikueue.store.caches.cache import ByName
from multikueue.telemetry import get_logger
from multikueue.workload.handlers.evicting import is_holding

log = get_logger()

_WRITES: Mapping[type, str] = {
    CreateWorkload: "the Workload of the job cannot be made",
    UpdateWorkloadSpec: "the Workload of the job cannot be updated",
    PatchWorkloadStatus: "the status of the job's Workload cannot be written",
    DeleteWorkload: "the Workload of the job cannot be deleted",
    RemoveFinalizer: "the Workload of the job cannot be released",
    PatchJobStatus: "the status of the job cannot be written",
    DeleteJob: "the job cannot be deleted",
}


class Jobs(msgspec.Struct, frozen=True):
    """Reconciles jobs of all kinds, never two at a time per key. `decide` returns the actions for a job."""

    context: ReconcileContext
    decide: Decide = decide

    async def reconcile(self, key: JobKey) -> Result:
        job = self.context.store.jobs.get(key)
        if job is None:
            self.context.store.refusals.over(key)
            return Result()
        if not self.context.store.is_managed(key.namespace) and job.metadata.deletion_timestamp is None:
            return Result()
        adapter = self.context.store.adapters.named(key.kind)
        kind, subject = subject_of(self.context, job)
        try:
            decision = self.decide(self._view(job, adapter), self.context.now(), adapter)
        except RecursionError as error:  # shallow enough to decode, too deep to compare
            self.context.recorder.unreadable("", kind, subject, why_unreadable(error))
            return Result()
        for event in decision.events:
            self.context.recorder.emit(kind, subject, type_=event.type, reason=event.reason, message=event.message)
        for action in decision.actions:
            log.debug("job.action", action=type(action).__name__)
            try:
                await self._perform(action, job)
            except ApiError as error:
                self._refused(action, key, job, error)
                raise
        self.context.store.refusals.over(key)
        return Result(again_after=decision.again_after)

    def _refused(self, action: object, key: JobKey, job: AnyJob, error: ApiError) -> None:
        """Tells the user what the API server says, once: a schema, a quota, a policy or a webhook may refuse what we write,
        as long as nobody changes it."""
        context, what = self.context, _WRITES.get(type(action), "the job cannot be written")
        why = excerpt(f"{error.status} {error.reason}: {error.message}")
        is_sure = not isinstance(error, (Conflict, NotFound, Unauthorized, Throttled, ServerError))
        if context.store.refusals.fails(key, what, why, context.now(), is_sure=is_sure):
            kind, subject = subject_of(context, job)
            context.recorder.emit(kind, subject, type_="Warning", reason=REFUSED, message=f"{what}: {why}")

    def _view(self, job: AnyJob, adapter: Adapter) -> JobView:
        store = self.context.store
        job = store.runtimes.completed(job)
        if is_over(job, adapter):  # only its finalizers are left to remove
            return JobView(job=job)
        workloads = {w.key: w for w in (*store.owned(job), *self._named(job))}
        remote = self._remote(tuple(workloads.values()))
        queue = adapter.queue_name(job)
        dispatched = store.should_dispatch(job.metadata.namespace, queue)
        return JobView(
            job=job,
            workloads=tuple(workloads.values()),
            remote=remote.job if remote else None,
            is_remote_lost=remote is not None and remote.is_lost(self.context.now(), self.context.lost_after),
            may_run=any(self._may_run(w) for w in workloads.values() if w.metadata.deletion_timestamp is not None),
            priority=resolve_priority(
                job,
                ByName(store.priority_classes),
                ByName(store.pod_priority_classes),
                adapter,
                should_count_system_classes=self.context.settings.quota.system_priority_classes == "Count",
            ),
            is_queue_multikueue=bool(dispatched),
            is_dispatched=any(store.multikueue_check(w) or self._is_asked_for(w) for w in workloads.values()),
            is_undispatched=remote is None and self._is_left_to_nobody(job, queue, workloads),
            flavors=ByName(store.flavors),
            is_elastic=store.slices is not None and dispatched is not False and is_sliced(job, workloads.values()),
            nested=store.nesting.of(job),
            label_keys=self.context.settings.integrations.label_keys_to_copy,
            is_taken=lambda name: store.workloads.get(ObjectKey(job.metadata.namespace, name)) is not None,
            has_local_queue=store.local_queues.get(ObjectKey(job.metadata.namespace, queue)) is not None,
            unreadable=self._unreadable(job, adapter),
            tell_suspended_after=self.context.settings.dispatch.tell_suspended_after,
        )

    def _is_left_to_nobody(self, job: AnyJob, queue: str, workloads: Mapping[ObjectKey, Workload]) -> bool:
        """Whether no queue has a check of ours, and no worker may have the job from the time when one did."""
        without = self.context.store.is_never_dispatched(ObjectKey(job.metadata.namespace, queue), workloads.values())
        return without and not any(map(self._is_asked_for, workloads.values()))

    def _is_asked_for(self, workload: Workload) -> bool:
        """Whether a nominated worker has the job, or may have it, before its win is written."""
        return bool(workload.status.nominated_cluster_names) and self._may_run(workload)

    def _unreadable(self, job: AnyJob, adapter: Adapter) -> str:
        """Why a Workload that may be the job's cannot be read; empty if there is none."""
        for key, why in self.context.store.workloads.unreadable.items():
            if key.namespace == job.metadata.namespace and may_be_its(key.name, adapter.kind, job):
                return f"the Workload {key.name}, which may be the job's, cannot be read: {why}"
        return ""

    def _may_run(self, workload: Workload) -> bool:
        return is_holding(self.context.case(workload.key))

    def _named(self, job: AnyJob) -> tuple[Workload, ...]:
        name = prebuilt_name(job)
        found = self.context.store.workloads.get(ObjectKey(job.metadata.namespace, name)) if name else None
        return (found,) if found else ()

    def _remote(self, workloads: tuple[Workload, ...]) -> Remote | None:
        """The worker with the job of the present attempt: the recorded winner, or the first that has it."""
        store = self.context.store
        for workload in workloads:
            attempt = attempt_of(workload)
            seen = (self.context.views.seen(workload.key, name) for name in store.with_job(workload.key))
            holding = [
                remote
                for remote in seen
                if is_of_attempt(remote.job, workload, attempt) or is_taken_over(remote.job, workload, attempt, remote)
            ]
            recorded = [remote for remote in holding if remote.cluster == workload.status.cluster_name]
            if holding:
                return (recorded or holding)[0]
        return None

    @singledispatchmethod
    async def _perform(self, action: object, job: AnyJob) -> None:
        raise NotImplementedError(action)

    @_perform.register
    async def _create(self, action: CreateWorkload, job: AnyJob) -> None:
        store = self.context.store
        try:
            store.workloads.upsert(await self.context.manager.create(WORKLOADS, job.metadata.namespace, action.body))
        except AlreadyExists:
            found = await self.context.manager.get(
                WORKLOADS, ObjectKey(job.metadata.namespace, action.body["metadata"]["name"])
            )
            store.workloads.upsert(found)
            if found.metadata.deletion_timestamp is not None or not is_owned(found, job):
                raise Conflict(409, "Conflict", "a workload of that name is another's, or being deleted") from None

    @_perform.register
    async def _update(self, action: UpdateWorkloadSpec, _job: AnyJob) -> None:
        answer = await self.context.manager.merge_patch(WORKLOADS, action.key, action.patch)
        self.context.store.workloads.upsert(answer)

    @_perform.register
    async def _update_status(self, action: PatchWorkloadStatus, _job: AnyJob) -> None:
        answer = await self.context.manager.merge_patch(WORKLOADS, action.key, action.patch, subresource="status")
        self.context.store.workloads.upsert(answer)

    @_perform.register
    async def _delete(self, action: DeleteWorkload, _job: AnyJob) -> None:
        await delete_workload(self.context, action.key, action.uid)

    @_perform.register
    async def _release(self, action: RemoveFinalizer, _job: AnyJob) -> None:
        """Removes the finalizer, unless the reconcile of the workload does."""
        workload = self.context.store.workloads.get(action.key)
        if workload is not None and self.context.store.job_to_stop(workload) is not None:
            await release(self.context, action.key)

    @_perform.register
    async def _patch(self, action: PatchJob, job: AnyJob) -> None:
        for part, patch in parts(job, action.patch):
            await self._write(part, patch, is_all=action.is_all)

    @_perform.register
    async def _patch_status(self, action: PatchJobStatus, job: AnyJob) -> None:
        for part, patch in parts(job, action.patch):
            await self._write(part, patch, is_all=action.is_all, subresource="status")

    async def _write(self, part: AnyJob, patch: dict[str, Any], *, is_all: bool, subresource: str = "") -> None:
        store, kind = self.context.store, self.context.store.adapters.of(part).kind
        with store.writing(store.adapters.key_of(part)) if is_all else nullcontext(store.jobs.upsert) as take_in:
            answer = await self.context.manager.merge_patch(kind, part.key, patch, subresource=subresource)
            take_in(answer)
        if subresource:
            new, stored = patch.get("status"), bytes(answer.status)
            lost = [name for name, value in new.items() if value and f'"{name}"'.encode() not in stored] if new else []
            report_lost_fields(self.context, kind, part, lost, is_harmless=True)

    @_perform.register
    async def _delete_job(self, _action: DeleteJob, job: AnyJob) -> None:
        await delete_job(self.context, job)


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


async def delete_workload(context: ReconcileContext, key: ObjectKey, uid: str) -> None:
    """Deletes a Workload, unless another one has its name by now, and applies the answer."""
    workloads = context.store.workloads
    seen = workloads.get(key)
    try:
        left = await context.manager.delete(WORKLOADS, key, uid=uid)
    except NotFound:
        left = None
    if left is not None:
        workloads.upsert(left)
    elif seen is not None and seen.metadata.uid == uid:
        workloads.remove(seen)


async def release(context: ReconcileContext, key: ObjectKey) -> None:
    """Removes our finalizer from a workload that is being deleted."""
    workload = context.store.workloads.get(key)
    if workload is not None:
        await remove_finalizer(context.manager, WORKLOADS, context.store.workloads, workload)
