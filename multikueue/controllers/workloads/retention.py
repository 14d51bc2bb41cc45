"""Deletes finished objects after their retention, if the settings have one (quota-engine 5.3).

These are finished Workloads, and jobs whose Workload the manager itself deactivated (Kueue's
`objectRetentionPolicies`).
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import msgspec

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import DEACTIVATED, EVICTED, FINISHED, Workload, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workloads.jobs import delete_job, subject_of
from multikueue.errors import NotFound
from multikueue.runtime import DONE, Result

__all__ = ["RetentionSweep"]


class RetentionSweep(msgspec.Struct, frozen=True):
    """Reconciles each Workload after its main reconcile; due times are exact to the second, as conditions are."""

    context: ReconcileContext

    async def reconcile(self, key: ObjectKey) -> Result:
        kept = self.context.settings.retention
        workload = self.context.store.workloads.get(key)
        if workload is None or workload.metadata.deletion_timestamp is not None:
            return DONE
        if workload.has(FINISHED):
            return await self._expire(workload, FINISHED, kept.after_finished)
        if _is_deactivated_by_us(workload):
            return await self._expire(workload, EVICTED, kept.after_deactivated)
        return DONE

    async def _expire(self, workload: Workload, end: str, after: timedelta | None) -> Result:
        """Deletes the Workload or job that ended with the condition `end`, or waits until it is due."""
        since = workload.since(end)
        if after is None or since is None:
            return DONE
        left = since + after - self.context.now()
        if left > timedelta():
            return Result(again_after=left)
        await (self._remove_workload(workload) if end == FINISHED else self._remove_job(workload))
        return DONE

    async def _remove_workload(self, workload: Workload) -> None:
        with suppress(NotFound):
            await self.context.manager.delete(WORKLOADS, workload.key, uid=workload.metadata.uid)
        message = "Deleted finished workload due to elapsed retention"
        self.context.recorder.emit(WORKLOADS, workload, type_="Normal", reason="Deleted", message=message)

    async def _remove_job(self, workload: Workload) -> None:
        job = self.context.store.local_job(workload)
        if job is None or job.metadata.deletion_timestamp is not None:
            return
        await delete_job(self.context, job)
        kind, subject = subject_of(self.context, job)
        message = "Deleted job: deactivation retention period expired"
        self.context.recorder.emit(kind, subject, type_="Normal", reason="Deleted", message=message)


def _is_deactivated_by_us(workload: Workload) -> bool:
    """Whether the reason names a cause, as `DeactivatedDueToMaximumExecutionTimeExceeded`.

    A workload that its user deactivated is always kept.
    """
    evicted = workload.condition(EVICTED)
    named = evicted is not None and evicted.status == "True" and evicted.reason.startswith(f"{DEACTIVATED}DueTo")
    return named and not workload_spec(workload).active
