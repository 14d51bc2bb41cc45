"""One workload on the manager, in all three roles: read what is known of it, decide, write, keep.

What is decided is in `workload.decide`, which calls the workload's strategy where a worker is to be named. A decision becomes
true in this order:

1. The status is written, over the version that was decided on.
2. The outcome becomes the plan of that version, so no outbox acts on what the status does not have yet.
3. The priority and the finalizer are written: if that is refused, it holds up nothing else.
4. What the server does not keep of the spec is reported, and tried again with a back-off.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from multikueue.answers.answer import answer
from multikueue.answers.news import is_lasting, is_news, may_be_news
from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.shared_status import KUEUE_ADMISSION, applied, our_part, shared_part
from multikueue.api.kueue.unadmitted import OF_CYCLES, PENDING
from multikueue.api.kueue.workload import (
    CLASS_VALUE_ANNOTATION,
    FINISHED,
    QUOTA_RESERVED,
    Workload,
    WorkloadStatus,
    workload_spec,
)
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.conditions import difference, report_lost_fields, status_patch
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workloads.jobs import refusal, release, subject_of
from multikueue.dispatch.copies.effects import Action, DeleteJob, DeleteWorkload, effects
from multikueue.dispatch.remote import Remote
from multikueue.errors import ApiError, Forbidden, Invalid, NotFound
from multikueue.kube.cluster_client import FIELD_MANAGER
from multikueue.runtime import AGAIN, DONE, Result
from multikueue.store.refusals import StatusKey
from multikueue.store.seen import seen_of
from multikueue.telemetry import get_logger
from multikueue.workload.case import Case
from multikueue.workload.decide import decide, is_due_again, plan
from multikueue.workload.decision_rules import NO_RETENTION
from multikueue.workload.handlers.outcome import Outcome
from multikueue.workload.phases import Phase

ROUTINE = frozenset({"QuotaReserved", "Admitted", PENDING, *OF_CYCLES})
"""Events that repeat a condition: not sent, because each would cost every workload a write."""


class Workloads(msgspec.Struct, frozen=True):
    """Reconciles workloads, one at a time per key, so each write follows from the one before."""

    context: ReconcileContext

    async def reconcile(self, key: ObjectKey) -> Result:
        case = self.context.case(key)
        outcome = decide(case, self.context.ask_strategy)
        if outcome.status is not None and case.check:
            self.context.store.writes(key, outcome.status)
        try:
            written = await write(self.context, case.workload, outcome)
            result = self._keep(case, outcome, written)
            stored = await write_rest(self.context, written, outcome)
        except ApiError as error:
            self._refused(case, error)
            raise
        finally:
            self.context.store.wrote(key)
        if stored is not None and stored is not written:
            self._plan(outcome.case.after(stored), outcome)
        report_lost_spec(self.context, stored, outcome)
        self._note_success(key, written)
        return result

    def _note_success(self, key: ObjectKey, written: Workload | None) -> None:
        """What was refused may not be wanted any more. What was reported stays until it is written: a status that is refused
        gives the quota back that it was about, so the next look has nothing to write."""
        refusals, about = self.context.store.refusals, StatusKey(WORKLOADS.name, key)
        known = refusals.get(about)
        if known is not None and (written is None or not known.is_told):
            refusals.over(about)

    def _refused(self, case: Case, error: ApiError) -> None:
        """Reports what the API server says, once: a schema, a policy or a webhook may refuse what we write until it is
        changed."""
        what = "what is decided about it cannot be written"
        words = refusal(self.context, StatusKey(WORKLOADS.name, case.key), what, error)
        if words and case.workload is not None:
            self.context.recorder.emit(WORKLOADS, case.workload, type_="Warning", reason="StatusRefused", message=words)

    def _keep(self, before: Case, outcome: Outcome, written: Workload | None) -> Result:
        """Makes the written outcome the plan, and says when to look again."""
        context, key = self.context, before.key
        if context.on_decision is not None:
            context.on_decision(outcome)
        if outcome.phase is Phase.UNREADABLE:
            self._set_aside(before)
            return DONE
        if outcome.phase is not Phase.NOMINATING:
            context.strategies.forget(key)
        if written is None:
            context.store.forget(key)
        elif outcome.events:
            self._record_events(written, outcome)
        case = outcome.case.after(written) if written is not None else before
        self._plan(case, outcome)
        self._note_end(case)
        has_written = written is not before.workload
        if written is not None and has_written:
            context.metrics.guarded("answers", self._tell_job)(before, written)
        self._read_queues(case, outcome)
        if has_written and case.rules.has_life and is_due_again(context.views.scheduled_anew(case), outcome):
            return AGAIN
        return Result(again_after=outcome.again_after)

    def _set_aside(self, case: Case) -> None:
        """A workload that cannot be read keeps its quota; without quota it leaves the queue to others."""
        store, local = self.context.store, case.workload
        if case.rules.has_life and local is not None and not local.has(QUOTA_RESERVED):
            store.engine.observe(local, None, self.context.now())
            store.look_at("admission")

    def _record_events(self, written: Workload, outcome: Outcome) -> None:
        for event in outcome.events:
            if event.reason not in ROUTINE and (not event.is_routine or self.context.settings.dispatch.tell_wins):
                self.context.recorder.emit(
                    WORKLOADS, written, type_=event.type, reason=event.reason, message=event.message
                )

    def _tell_job(self, before: Case, written: Workload) -> None:
        """The first sentence of its answer as an event of the job, where it has changed for good."""
        store, old = self.context.store, before.workload
        if old is None or not before.rules.has_life or not may_be_news(old, written):
            return
        job = store.local_job(written)
        if job is None:
            return
        case, now = before.after(written), self.context.now()
        told = answer(seen_of(store, written, case), now)
        if is_news(answer(seen_of(store, old, before), now), told):
            kind, subject = subject_of(self.context, job)
            self.context.recorder.emit(
                kind,
                subject,
                type_="Warning" if is_lasting(told) else "Normal",
                reason=told.state,
                message=told.summary,
            )

    def _plan(self, case: Case, outcome: Outcome) -> None:
        """Queues the key in each outbox that has something to do by the new plan, unless that was done while it was written."""
        store, made = self.context.store, plan(case, outcome) if outcome.desired or case.choice else None
        store.plans.put(case.key, made)
        wanted = set()
        for remote in case.remotes:
            outbox = self.context.queues.outboxes.get(remote.cluster)
            actions = effects(made, remote, made.at) if outbox is not None and made is not None else ()
            if outbox is not None and actions and not self._are_done(actions, case.key):
                outbox.add(case.key)
                wanted.add(remote.cluster)
        for cluster in store.refusals.clusters(case.key):
            if cluster not in wanted and not _may_be_tried_again(case.remote(cluster), outcome):
                store.refusals.over(case.key, cluster=cluster)

    def _are_done(self, actions: Iterable[Action], key: ObjectKey) -> bool:
        """Whether all of it is to be removed, and is gone by now: the outboxes went on while the status was written."""
        workers = self.context.store.workers
        for action in actions:
            worker = workers.get(action.cluster)
            if not isinstance(action, (DeleteWorkload, DeleteJob)) or worker is None or worker.may_have(key):
                return False
        return True

    def _note_end(self, case: Case) -> None:
        """Counts the copy of a finished workload among those of its worker and namespace, where another one may have to go."""
        store = self.context.store
        finished = case.workload.condition(FINISHED) if case.workload is not None else None
        if finished is None:
            return
        ended, winner = finished.last_transition_time, case.winner
        if ended is None or winner is None or winner.workload is None:
            store.ended.remove(case.key)
            return
        store.ended.put(case.key, winner.cluster, ended)
        out = store.ended.out_by(case.key, case.rules.most_copies)
        if out is not None and (out != case.key or case.copy_retention != NO_RETENTION):
            store.look_at("workloads", out)

    def _read_queues(self, case: Case, outcome: Outcome) -> None:
        """The quotas of workers are read while a workload waits that fits none of them."""
        for name in outcome.reads:
            self.context.queues.ceilings.add(name)
        if case.has_ceiling_news and case.workload is not None and case.workload.has(QUOTA_RESERVED):
            self.context.store.ceilings.news.discard(case.key)


def _may_be_tried_again(remote: Remote | None, outcome: Outcome) -> bool:
    """Whether what the worker did not do may be asked of it again, though nothing is asked now."""
    if outcome.phase is Phase.NOMINATING:
        return True
    return remote is not None and (remote.unfit is not None or remote.asked is not None or not remote.is_reachable)


log = get_logger()

_CLEARED = {
    "admission": "admission",
    "clusterName": "cluster_name",
    "nominatedClusterNames": "nominated_cluster_names",
    "requeueState": "requeue_state",
}
"""The fields that the end of an attempt, or a win, clears, and their attributes. Each has one value for all owners."""


_AGAIN_AFTER = timedelta(seconds=1)
"""How soon a reservation that was refused is tried again: then after as long as it has been refused. Each try takes the quota
that others wait for, for a moment."""


async def write(context: ReconcileContext, local: Workload | None, outcome: Outcome) -> Workload | None:
    """The workload with the decided status, and inactive if it is to be. Raises as `merge` does. A status that can never be
    written frees the quota that it was to reserve.

    `merge` is the cheap way, for a Workload whose status has no other writer; `apply` is the way beside Kueue, whose core
    clears a field by leaving out what it applied before (`api.kueue.shared_status`). Both write only over the version that
    was decided on; without a difference they write nothing.
    """
    if local is None or outcome.status is None:
        return local
    if not outcome.case.rules.has_life:
        return await apply(context, local, outcome.status)
    try:
        written = local if outcome.status is local.status else await merge(context, local, outcome.status)
    except (Forbidden, Invalid, NotFound):
        now, refusal = context.now(), context.store.refusals.get(StatusKey(WORKLOADS.name, local.key))
        lasts = now - refusal.since if refusal is not None else timedelta()
        wait = min(max(lasts, _AGAIN_AFTER), context.settings.timings.retry_cap)
        context.store.engine.scheduler.forget(local.key, now, until=now + wait)
        raise
    return await _patch_spec(context, written, {"active": False}) if outcome.should_deactivate else written


async def write_rest(context: ReconcileContext, local: Workload | None, outcome: Outcome) -> Workload | None:
    """Writes what holds up nothing of the decision: that the workload may go, and the priority. Returns the workload as it is
    then."""
    if local is not None and outcome.should_release:
        await release(context, local.key)
    if local is not None and outcome.priority is not None:
        note, spec = {CLASS_VALUE_ANNOTATION: str(outcome.priority)}, {"priority": outcome.priority}
        return await _patch_spec(context, local, spec, annotations=note)
    return local


def report_lost_spec(context: ReconcileContext, stored: Workload | None, outcome: Outcome) -> None:
    """Reports which fields of the spec were written and not stored. Raises NotKept if there are any, for a back-off."""
    wants_priority = outcome.priority is not None
    if stored is None or not (wants_priority or outcome.should_deactivate):
        return
    spec = workload_spec(stored)
    lost = [
        *(["active"] if outcome.should_deactivate and spec.active else []),
        *(["priority"] if wants_priority and spec.priority != outcome.priority else []),
    ]
    report_lost_fields(context, WORKLOADS, stored, lost, within="spec")


async def _patch_spec(
    context: ReconcileContext, local: Workload, spec: dict[str, Any], **metadata: dict[str, str]
) -> Workload:
    """The workload with that in its spec. The write does not requeue it: what is not kept would be written without a pause."""
    body = {"metadata": {"resourceVersion": local.metadata.resource_version, **metadata}, "spec": spec}
    with context.store.writing(local.key) as take_in:
        answer = await context.manager.merge_patch(WORKLOADS, local.key, body)
        take_in(answer)
    return answer


async def merge(context: ReconcileContext, local: Workload, status: WorkloadStatus) -> Workload:
    """The workload with that status, by a merge patch of the difference. The write does not requeue the workload.

    Raises as `ClusterClient` does; after a Conflict, decide again.
    """
    patch = difference(local.status, status)
    if not patch:
        return local
    body = status_patch(local, patch)
    with context.store.writing(local.key) as take_in:
        answer = await context.manager.merge_patch(WORKLOADS, local.key, body, subresource="status")
        take_in(answer)
    report_lost_fields(context, WORKLOADS, local, difference(answer.status, status))
    return _logged(answer, patch)


async def apply(context: ReconcileContext, local: Workload, status: WorkloadStatus) -> Workload:
    """The workload with that status, applied in the name of Kueue's core. Raises as `merge` does.

    Our own conditions are written first, in a separate call: they hold the reason of the other changes. A condition
    that is removed goes last: another nominator would miss its note about clusters that are still nominated.
    """
    is_written = False
    parts = (FIELD_MANAGER, our_part), (KUEUE_ADMISSION, shared_part)
    ours = our_part(status).conditions
    only_goes = set(ours) < set(our_part(local.status).conditions)
    for manager, part in reversed(parts) if only_goes else parts:
        patch = difference(part(local.status), part(status))
        if patch:
            local = _logged(await _applied(context, local, part(status), manager, patch), patch)
            is_written = True
    if is_written:
        lost = (difference(part(local.status), part(status)) for _, part in parts)
        report_lost_fields(context, WORKLOADS, local, {name for fields in lost for name in fields})
    return local


async def _applied(
    context: ReconcileContext, local: Workload, part: WorkloadStatus, manager: str, patch: dict[str, Any]
) -> Workload:
    """Applies the part. To leave a field out clears it only where no other field manager owns it: an earlier Kueue, or a
    person. Such a field is cleared by an explicit null, also where the rest is refused because of it."""
    cleared = tuple(field for field in _CLEARED if field in patch and patch[field] is None)

    async def send(local: Workload) -> Workload:
        stored = await _stored(context, local) if manager == KUEUE_ADMISSION else None
        body = applied(local, part, stored)
        answer = await context.manager.apply(
            WORKLOADS, local.key, body, manager=manager, force=True, subresource="status"
        )
        context.store.workloads.upsert(answer)
        return answer

    async def clear(local: Workload) -> Workload:
        body = status_patch(local, dict.fromkeys(cleared))
        answer = await context.manager.merge_patch(WORKLOADS, local.key, body, subresource="status")
        context.store.workloads.upsert(answer)
        return answer

    try:
        answer = await send(local)
    except Invalid:
        if not cleared:
            raise
        return await send(await clear(local))
    return await clear(answer) if any(getattr(answer.status, _CLEARED[field]) for field in cleared) else answer


async def _stored(context: ReconcileContext, local: Workload) -> dict[str, Any]:
    """The whole object, which no cache keeps; a newer version makes the apply a Conflict. By a list, since beside Kueue the
    manager may list Workloads and need not get them."""
    path, params = WORKLOADS.collection(local.key.namespace), {"fieldSelector": f"metadata.name={local.key.name}"}
    found = msgspec.json.decode(await context.manager.request("GET", path, params=params))["items"]
    stored: dict[str, Any] = found[0] if found else {"metadata": {}}
    return stored


def _logged(answer: Workload, patch: dict[str, object]) -> Workload:
    log.debug("workload.written", workload=str(answer.key), fields=sorted(patch))
    return answer
