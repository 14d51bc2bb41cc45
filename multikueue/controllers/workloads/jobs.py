"""One job on the manager: makes and updates its Workload, starts and stops it, copies its status from the worker."""

from __future__ import annotations

import msgspec

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kubernetes.event import REFUSED, Event
from multikueue.api.values.foreign import excerpt, why_unreadable
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workloads.job_writes import WRITES, perform, subject_of
from multikueue.errors import ApiError, Conflict, NotFound, ServerError, Throttled, Unauthorized
from multikueue.jobs.reconciler.decide import Decide, decide
from multikueue.runtime import DONE, Result
from multikueue.telemetry import get_logger

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
                await perform(action, context, job)
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
        as long as nobody changes it."""
        what = WRITES.get(type(action), "the job cannot be written")
        why = excerpt(f"{error.status} {error.reason}: {error.message}")
        is_sure = not isinstance(error, (Conflict, NotFound, Unauthorized, Throttled, ServerError))
        if self.context.store.refusals.fails(key, what, why, self.context.now(), is_sure=is_sure):
            self._tell(job, Event("Warning", REFUSED, f"{what}: {why}"))

    def _tell(self, job: AnyJob, event: Event) -> None:
        kind, subject = subject_of(self.context, job)
        self.context.recorder.emit(kind, subject, type_=event.type, reason=event.reason, message=event.message)
