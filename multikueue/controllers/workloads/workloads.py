"""One workload on the manager, one file for its three roles: one decision, one status write; then the outboxes that must act.

Three controllers, one per way to share the work with Kueue: `Workloads` does all of it, `Dispatches` leaves jobs and
quota to Kueue, `Nominations` only names the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from multikueue.api import kinds
from multikueue.api.jobs.job import AnyJob
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.unadmitted import OF_CYCLES, PENDING
from multikueue.api.kueue.workload import (
    CLASS_VALUE_ANNOTATION,
    FINISHED,
    FITS_NO_WORKER,
    QUOTA_RESERVED,
    RequeueState,
    Workload,
    WorkloadStatus,
    owner_of,
    workload_spec,
)
from multikueue.api.meta import ObjectKey
from multikueue.api.values.foreign import moment
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.reconcile.copy_retention import copy_retention_problem
from multikueue.controllers.workloads import status_writes
from multikueue.controllers.workloads.jobs import release
from multikueue.dispatch.copies.effects import effects
from multikueue.dispatch.remote import Remote
from multikueue.errors import Forbidden, Invalid, NotFound
from multikueue.quota.workload.protection import INVALID_ANNOTATION, non_preemptible_problem
from multikueue.runtime import AGAIN, DONE, Result
from multikueue.workload import fit
from multikueue.workload.case import Case
from multikueue.workload.decide import decide, nominate, plan
from multikueue.workload.handlers.evicting import HELD_UP_AFTER
from multikueue.workload.handlers.outcome import Outcome, sooner
from multikueue.workload.life import rules, transitions
from multikueue.workload.life.backoff import backoff
from multikueue.workload.life.transitions import ADMISSION_CHECK, synchronise_admitted
from multikueue.workload.phases import Phase, phase_of

ROUTINE = frozenset({"QuotaReserved", "Admitted", PENDING, *OF_CYCLES})
"""Events that repeat a condition: not sent, because each would cost every workload a write."""


class Workloads(msgspec.Struct, frozen=True):
    """Reconciles workloads that are ours alone, one at a time per key, so each write follows from the one before."""

    context: ReconcileContext

    async def reconcile(self, key: ObjectKey) -> Result:
        local = self.context.store.workloads.get(key)
        if key in self.context.store.workloads.unreadable:
            return self._set_aside(local)
        if local is None:
            return _gone(self.context, key)
        case, job = self.context.case(key, local), self.context.store.local_job(local)
        step = rules.step(case)
        self._read_ceilings(case)
        if step.status is not local.status:
            case = case.after(replace(local, status=step.status))
        case, outcome = _decide_and_record(self.context, case)
        status = outcome.status or step.status
        if not local.has("Finished"):
            reasons = self.context.store.engine.reasons
            status = synchronise_admitted(status, local.metadata.generation, case.now, reasons)
        written = await self._write(local, status, should_deactivate=step.should_deactivate)
        _record_events(self.context, local, (*step.events, *self._misread(local, job), *outcome.events))
        case = case.after(written)
        _keep(self.context, case, outcome)
        waits = await self._release(local)
        await self._follow_class(local)
        if written is not local and self._has_moved_on(case, outcome):
            return AGAIN
        return Result(again_after=sooner(step.again_after, outcome.again_after, waits))

    def _has_moved_on(self, case: Case, outcome: Outcome) -> bool:
        """Whether the written status needs another step, or another decision."""
        case = self.context.views.scheduled_anew(case)
        step = rules.step(case)
        if step.status is not case.local.status or step.should_deactivate:
            return True
        return phase_of(case) is not outcome.phase

    def _read_ceilings(self, case: Case) -> None:
        """The quotas of workers are read while a workload waits that fits none of them."""
        local, ceilings = case.local, self.context.store.ceilings
        if not local.has(FITS_NO_WORKER):
            return
        if local.has(QUOTA_RESERVED):
            ceilings.news.discard(local.key)
            return
        for name in case.fleet.usable:
            self.context.queues.ceilings.add(name)

    def _set_aside(self, local: Workload | None) -> Result:
        """A workload that cannot be read keeps its quota; without quota it leaves the queue to others."""
        store = self.context.store
        if local is not None and not local.has(QUOTA_RESERVED):
            store.engine.observe(local, None, self.context.now())
            store.look_at("admission")
        return DONE

    def _misread(self, local: Workload, job: AnyJob | None) -> Iterator[Event]:
        """Warnings about annotations that have no effect."""
        problem = non_preemptible_problem(local) if self.context.settings.quota.non_preemptible else ""
        if problem:
            yield Event("Warning", INVALID_ANNOTATION, problem)
        if problem := copy_retention_problem(local, job, self.context.settings.retention):
            yield Event("Warning", INVALID_ANNOTATION, problem)

    async def _write(self, local: Workload, status: WorkloadStatus, *, should_deactivate: bool) -> Workload:
        store = self.context.store
        try:
            local = await status_writes.merge(self.context, local, status)
        except (Forbidden, Invalid, NotFound):
            store.engine.scheduler.forget(local.key, self.context.now())
            raise
        if should_deactivate:
            body = {"metadata": {"resourceVersion": local.metadata.resource_version}, "spec": {"active": False}}
            local = await self.context.manager.merge_patch(WORKLOADS, local.key, body)
            store.workloads.upsert(local)
        return local

    async def _release(self, local: Workload) -> timedelta | None:
        """Removes the finalizer of a deleted workload, and so gives its quota back, once no reachable worker has, or may
        have, its job. A copy alone runs nothing, and is waited for a minute: the worker's Kueue may be down. Where its job
        must be stopped first, the job's reconcile removes the finalizer. Returns when to look again."""
        deleted = local.metadata.deletion_timestamp
        if deleted is None or self.context.store.job_to_stop(local) is not None:
            return None
        remotes = [r for r in self.context.case(local.key, local).remotes if r.is_reachable]
        if any(r.job is not None or r.asked is not None for r in remotes):
            return None
        now = self.context.now()
        left = min(deleted, now) + HELD_UP_AFTER - now
        if left > timedelta() and any(r.workload is not None for r in remotes):
            return left
        await release(self.context, local.key)
        return None

    async def _follow_class(self, local: Workload) -> None:
        """Updates the priority to the value of the named class once that changes; the job's reconcile sets the name. A
        priority that somebody gave the Workload by hand stays until then."""
        store = self.context.store
        local = store.workloads.get(local.key) or local  # the version just written
        if local.has(FINISHED) or local.metadata.deletion_timestamp is not None:
            return
        spec = workload_spec(local)
        ref = spec.priority_class_ref
        if ref is None or ref.kind != kinds.WORKLOAD_PRIORITY_CLASSES.kind:
            return
        found = store.priority_classes.get(ObjectKey("", ref.name))
        known = local.metadata.annotations.get(CLASS_VALUE_ANNOTATION)
        if found is None or str(found.value) == known:
            return
        # Without a note, of a Workload with a job, the priority may be from before there were notes. A write just for the
        # note is for those that others make, which are few.
        if found.value != spec.priority or (known is None and owner_of(local) is None):
            note = {CLASS_VALUE_ANNOTATION: str(found.value)}
            metadata = {"resourceVersion": local.metadata.resource_version, "annotations": note}
            body = {"metadata": metadata, "spec": {"priority": found.value}}
            store.workloads.upsert(await self.context.manager.merge_patch(WORKLOADS, local.key, body))


class Dispatches(msgspec.Struct, frozen=True):
    """Reconciles workloads that Kueue makes, queues, admits and evicts: dispatch only, written as Kueue writes."""

    context: ReconcileContext

    async def reconcile(self, key: ObjectKey) -> Result:
        local = self.context.store.workloads.get(key)
        if local is None:
            return _gone(self.context, key)
        case, outcome = _decide_and_record(self.context, self.context.case(key, local))
        status = outcome.status or local.status
        if outcome.phase is Phase.FITS_NOWHERE:
            status = self._held_back(case, status)
        written = await status_writes.apply(self.context, local, status)
        _record_events(self.context, local, outcome.events)
        _keep(self.context, case.after(written), outcome)
        return Result(again_after=outcome.again_after)

    def _held_back(self, case: Case, status: WorkloadStatus) -> WorkloadStatus:
        """Evicts a workload whose check says Retry, and keeps it out of Kueue's queue until its back-off is over.

        Kueue would evict it, too, but queue it again at once; and where the check asks for a delay, Kueue keeps the quota
        for as long (`lifecycle.evict_if_retried`).
        """
        asking = next((c for c in status.admission_checks if c.name == case.check and c.state == "Retry"), None)
        if asking is None:
            return status
        quota, local = self.context.settings.quota, case.local
        delay = backoff(quota.requeue_first, quota.requeue_cap, tried=asking.retry_count or 0, uid=local.metadata.uid)
        present, until = status.requeue_state or RequeueState(), (case.now + delay).replace(microsecond=0)
        asked = moment(present.requeue_at)  # by another check perhaps, whose delay is not ours to shorten
        state = replace(present, requeue_at=max(until, asked) if asked is not None else until)
        evicted = transitions.evict(
            status,
            reason=ADMISSION_CHECK,
            message=asking.message,
            generation=local.metadata.generation,
            now=case.now,
        )
        return replace(evicted, requeue_state=state)


class Nominations(msgspec.Struct, frozen=True):
    """Reconciles workloads that Kueue's own MultiKueue dispatches: writes only their nomination (contract 4.3)."""

    context: ReconcileContext

    async def reconcile(self, key: ObjectKey) -> Result:
        local = self.context.store.workloads.get(key)
        if local is None:
            _forget(self.context, key)
            return DONE
        case = replace(self.context.case(key, local), problem="")  # Kueue judges whether the job can be dispatched
        case = self.context.strategies.with_nomination(case)
        outcome = _with_hint(self.context, case, nominate(case))
        await status_writes.apply(self.context, local, outcome.status or local.status)
        _record_events(self.context, local, outcome.events)
        return Result(again_after=outcome.again_after)


def _gone(context: ReconcileContext, key: ObjectKey) -> Result:
    """The workload is gone: nothing of it may stay on a worker."""
    case = context.case(key, None)
    outcome = _decide(context, case)
    if outcome.phase is Phase.GONE:
        _forget(context, key)
    _keep(context, case, outcome)
    return Result(again_after=outcome.again_after)


def _forget(context: ReconcileContext, key: ObjectKey) -> None:
    context.store.forget(key)
    context.strategies.forget(key)


def _decide_and_record(context: ReconcileContext, case: Case) -> tuple[Case, Outcome]:
    """Calls the strategy, and decides: the only place that does."""
    case = context.strategies.with_nomination(case)
    if case.nomination is not None:
        case = context.views.widened(case, case.nomination.clusters)
    return case, _with_hint(context, case, _decide(context, case))


def _decide(context: ReconcileContext, case: Case) -> Outcome:
    outcome = decide(case)
    if context.on_decision is not None:
        context.on_decision(case, outcome)
    if outcome.phase is Phase.NOMINATING:
        for name in fit.unconfirmed(case):
            context.queues.ceilings.add(name)
    return outcome


def _with_hint(context: ReconcileContext, case: Case, outcome: Outcome) -> Outcome:
    """The outcome with a warning, if the workload or its job names a Placement that it may not choose."""
    text = context.strategies.ignored_placement(case)
    if not text:
        return outcome
    return replace(outcome, events=(*outcome.events, Event("Warning", INVALID_ANNOTATION, text)))


def _record_events(context: ReconcileContext, local: Workload, events: Iterable[Event]) -> None:
    for event in events:
        quiet = event.is_routine and not context.settings.dispatch.tell_wins
        if event.reason not in ROUTINE and not quiet:
            context.recorder.emit(WORKLOADS, local, type_=event.type, reason=event.reason, message=event.message)


def _keep(context: ReconcileContext, case: Case, outcome: Outcome) -> None:
    """Makes the written outcome the plan, and queues the key in each outbox that has something to do."""
    made = plan(case, outcome)
    context.store.plans.put(case.key, made)
    wanted = set()
    for remote in case.remotes:
        outbox = context.queues.outboxes.get(remote.cluster)
        if outbox is not None and effects(made, remote, made.at):
            outbox.add(case.key)
            wanted.add(remote.cluster)
    refusals = context.store.refusals
    for cluster in refusals.clusters(case.key):
        if cluster not in wanted and not _may_be_tried_again(case.remote(cluster), outcome):
            refusals.over(case.key, cluster=cluster)


def _may_be_tried_again(remote: Remote | None, outcome: Outcome) -> bool:
    """Whether what the worker did not do may be asked of it again, though nothing is asked now."""
    if outcome.phase is Phase.NOMINATING:
        return True
    return remote is not None and (remote.unfit is not None or remote.asked is not None or not remote.is_reachable)
