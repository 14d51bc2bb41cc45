"""One workload on the manager, in all three roles: read what is known of it, decide, write, keep.

What is decided is in `workload.decide`, which calls the workload's strategy where a worker is to be named. A decision becomes
true in this order:

1. The status is written, over the version that was decided on.
2. The outcome becomes the plan of that version, so no outbox acts on what the status does not tell yet.
3. The priority and the finalizer are written: if that is refused, it holds up nothing else.
"""

from __future__ import annotations

import msgspec

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.unadmitted import OF_CYCLES, PENDING
from multikueue.api.kueue.workload import QUOTA_RESERVED, Workload
from multikueue.api.meta import ObjectKey
from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workloads import status_writes
from multikueue.dispatch.copies.effects import effects
from multikueue.dispatch.remote import Remote
from multikueue.runtime import AGAIN, DONE, Result
from multikueue.workload.case import Case
from multikueue.workload.decide import decide, is_due_again, plan
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
        written = await status_writes.write(self.context, case.workload, outcome)
        result = self._keep(case, outcome, written)
        await status_writes.write_rest(self.context, written, outcome)
        return result

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
        else:
            self._record_events(written, outcome)
        case = outcome.case.after(written) if written is not None else before
        self._plan(case, outcome)
        self._read_queues(case, outcome)
        if written is not before.workload and is_due_again(self._scheduled_anew(case), outcome):
            return AGAIN
        return Result(again_after=outcome.again_after)

    def _scheduled_anew(self, case: Case) -> Case:
        return self.context.views.scheduled_anew(case) if case.rules.has_life else case

    def _set_aside(self, case: Case) -> None:
        """A workload that cannot be read keeps its quota; without quota it leaves the queue to others."""
        store, local = self.context.store, case.workload
        if case.rules.has_life and local is not None and not local.has(QUOTA_RESERVED):
            store.engine.observe(local, None, self.context.now())
            store.look_at("admission")

    def _record_events(self, written: Workload, outcome: Outcome) -> None:
        tells_wins = self.context.settings.dispatch.tell_wins
        for event in outcome.events:
            if event.reason not in ROUTINE and (tells_wins or not event.is_routine):
                self.context.recorder.emit(
                    WORKLOADS, written, type_=event.type, reason=event.reason, message=event.message
                )

    def _plan(self, case: Case, outcome: Outcome) -> None:
        """Queues the key in each outbox that has something to do by the new plan."""
        store, made = self.context.store, plan(case, outcome)
        store.plans.put(case.key, made)
        wanted = set()
        for remote in case.remotes:
            outbox = self.context.queues.outboxes.get(remote.cluster)
            if outbox is not None and effects(made, remote, made.at):
                outbox.add(case.key)
                wanted.add(remote.cluster)
        for cluster in store.refusals.clusters(case.key):
            if cluster not in wanted and not _may_be_tried_again(case.remote(cluster), outcome):
                store.refusals.over(case.key, cluster=cluster)

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
