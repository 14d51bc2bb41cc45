"""The decision on one workload: its life by rules, then its dispatch by the handler of its phase (contract 3).

    case -> life.rules (quota, checks, pods, eviction) -> phase -> the strategy, where a worker is to be named -> handler

A decision is the new local status, the desired state on each worker, and what else is to be written or read.
`workload.life` has the rules, `workload.handlers` a function for each phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from msgspec.structs import replace

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    CLASS_VALUE_ANNOTATION,
    FINISHED,
    FITS_NO_WORKER,
    NOMINATED,
    QUOTA_RESERVED,
    RequeueState,
    owner_of,
    workload_spec,
)
from multikueue.api.meta import Condition, find_condition, without_condition
from multikueue.api.values.foreign import moment
from multikueue.dispatch.copies.plan import Found, Plan, Running
from multikueue.dispatch.remote import Remote
from multikueue.quota.cache.budgets import INVALID_ANNOTATION
from multikueue.workload.case import Case
from multikueue.workload.fit import unconfirmed
from multikueue.workload.handlers.doubts import with_doubts
from multikueue.workload.handlers.evicting import HELD_UP_AFTER, deleted, evicted
from multikueue.workload.handlers.finishing import completing, finished
from multikueue.workload.handlers.nominating import nominating, slice_pinned
from multikueue.workload.handlers.outcome import Outcome, sooner, unchanged
from multikueue.workload.handlers.removal import remove_all, undispatchable, unreserved, waiting
from multikueue.workload.handlers.retrying import (
    declined_by_all,
    evicted_remotely,
    fits_nowhere,
    out_of_sync,
    slice_pin_lost,
    winner_gone,
    winner_lost,
)
from multikueue.workload.handlers.winning import admitted, unrecorded, winner_unreachable
from multikueue.workload.life import rules
from multikueue.workload.life.transitions import ADMISSION_CHECK, evict, synchronise_admitted
from multikueue.workload.phases import Phase, phase_of

AskStrategy = Callable[[Case], Case]
"""Gives a case whose workload waits for a worker its strategy's nomination, if there is one by now."""


def unasked(case: Case) -> Case:
    """No strategy is there to ask."""
    return case


def decide(case: Case, ask_strategy: AskStrategy = unasked) -> Outcome:
    """Decide on a workload, with a warning for each annotation that has no effect. Idempotent: another decision on the result
    changes nothing."""
    if case.workload is None or case.is_unreadable:
        return _dispatched(case, ask_strategy)
    if case.rules.is_dispatcher_only:
        outcome = nominate(case, ask_strategy)
    elif case.rules.has_life:
        outcome = _live(case, ask_strategy)
    else:
        outcome = _held_back(_dispatched(case, ask_strategy))
    if not outcome.case.misread:
        return outcome
    warnings = [Event("Warning", INVALID_ANNOTATION, text) for text in outcome.case.misread]
    return replace(outcome, events=(*outcome.events, *warnings))


def is_due_again(case: Case, outcome: Outcome) -> bool:
    """Whether the outcome's write, which `case` shows, has made another decision due."""
    if not case.rules.has_life or case.is_unreadable:
        return False
    step = rules.step(case)
    if step.status is not case.local.status or step.should_deactivate:
        return True
    return phase_of(case) is not outcome.phase or _may_go(case)[0]


def _live(case: Case, ask_strategy: AskStrategy) -> Outcome:
    """Both the rules of its life and its dispatch, in one status."""
    local = case.local
    step = rules.step(case)
    lived = case if step.status is local.status else case.after(replace(local, status=step.status))
    outcome = _dispatched(lived, ask_strategy)
    status = outcome.status or step.status
    if FINISHED not in case.true:
        status = synchronise_admitted(status, local.metadata.generation, case.now, case.rules.reasons)
    is_settled = local.metadata.deletion_timestamp is not None and status == local.status
    may_go, waits = _may_go(case) if is_settled else (False, None)
    held_back = FITS_NO_WORKER in case.true and QUOTA_RESERVED not in case.true
    return replace(
        outcome,
        status=status,
        should_deactivate=step.should_deactivate,
        reads=(*outcome.reads, *(case.fleet.usable if held_back else ())),
        priority=_priority(case, case.class_value) if case.class_value is not None else None,
        should_release=may_go,
        again_after=sooner(step.again_after, outcome.again_after, waits),
        events=(*step.events, *outcome.events),
    )


def _may_go(case: Case) -> tuple[bool, timedelta | None]:
    """Whether a deleted workload gives its quota back, so that its finalizer goes; else when to look again.

    It does once no reachable worker has, or may have, its job. A copy alone runs nothing, and is waited for a minute: the
    worker's Kueue may be down. Where its job is to be stopped first, the job's reconcile removes the finalizer.
    """
    deleted = case.local.metadata.deletion_timestamp
    if deleted is None or case.waits_for_its_job:
        return False, None
    remotes = [remote for remote in case.remotes if remote.is_reachable]
    if any(remote.job is not None or remote.asked is not None for remote in remotes):
        return False, None
    left = min(deleted, case.now) + HELD_UP_AFTER - case.now
    if left > timedelta() and any(remote.workload is not None for remote in remotes):
        return False, left
    return True, None


def _priority(case: Case, value: int) -> int | None:
    """The value of its class once that changes; the job's reconcile sets the name. A priority that a user gave the Workload
    by hand stays until then."""
    local = case.local
    known = local.metadata.annotations.get(CLASS_VALUE_ANNOTATION)
    if str(value) == known or FINISHED in case.true or local.metadata.deletion_timestamp is not None:
        return None
    # Without a note, of a Workload with a job, the priority may be from before there were notes. A write just for the
    # note is for those that others make, which are few.
    is_new = value != workload_spec(local).priority or (known is None and owner_of(local) is None)
    return value if is_new else None


def _held_back(outcome: Outcome) -> Outcome:
    """Beside Kueue, a workload that no worker could hold is evicted here, and kept out of Kueue's queue until its back-off
    is over.

    Kueue would evict it, too, but queue it again at once; and where the check asks for a delay, Kueue keeps the quota
    for as long.
    """
    case, status = outcome.case, outcome.status
    if outcome.phase is not Phase.FITS_NOWHERE or status is None or case.rules.requeue is None:
        return outcome
    asking = next((c for c in status.admission_checks if c.name == case.check and c.state == "Retry"), None)
    if asking is None:
        return outcome
    delay = case.rules.requeue.after(asking.retry_count or 0, case.local.metadata.uid)
    present, until = status.requeue_state or RequeueState(), (case.now + delay).replace(microsecond=0)
    asked = moment(present.requeue_at)  # maybe by another check, whose delay is not ours to shorten
    state = replace(present, requeue_at=max(until, asked) if asked is not None else until)
    generation = case.local.metadata.generation
    held = evict(status, reason=ADMISSION_CHECK, message=asking.message, generation=generation, now=case.now)
    return replace(outcome, status=replace(held, requeue_state=state))


def _dispatched(case: Case, ask_strategy: AskStrategy) -> Outcome:
    """What its phase's handler decides. The phase does not depend on the strategy's answer."""
    phase = phase_of(case)
    if phase is Phase.NOMINATING:
        case = ask_strategy(case)
    outcome = HANDLERS[phase](case)
    asked = [remote for remote in case.remotes if remote.asked is not None]
    if asked and phase is not Phase.UNREADABLE:
        outcome = _with_reads(outcome, case, asked)
    reads = tuple(unconfirmed(case)) if phase is Phase.NOMINATING else ()
    return replace(with_doubts(outcome, case), case=case, phase=phase, reads=reads)


def plan(case: Case, outcome: Outcome) -> Plan:
    """The plan of an outcome whose status is written; `case` is that after the write."""
    local = case.workload
    recorded = local is None or bool(local.status.cluster_name and not case.slice.stays)
    return Plan(
        local=local,
        attempt=case.attempt,
        at=case.now,
        desired=outcome.desired,
        choice="" if recorded else case.choice,
        is_ready=case.has_won,
        slice=case.slice,
        origin=case.rules.origin,
        lost=frozenset(
            [r.cluster for r in case.remotes if not r.is_reachable and r.is_lost(case.now, case.rules.lost_after)]
        ),
        is_gated=case.rules.is_preemption_sequential and not case.slice.stays,
    )


def nominate(case: Case, ask_strategy: AskStrategy = unasked) -> Outcome:
    """The nomination alone, for Kueue's own MultiKueue, which does the rest (contract 4.3).

    Only `nominatedClusterNames` and our own condition with the reason change. An answer `give_back` has no effect:
    Kueue owns the quota there.
    """
    phase = phase_of(case)
    if phase is Phase.NOMINATING:
        case = ask_strategy(case)
    gives_back = case.nomination is not None and case.nomination.give_back
    if phase is not Phase.NOMINATING or case.local.status.cluster_name or gives_back:
        return replace(unchanged(case), phase=phase)
    outcome = nominating(replace(case, give_back_after=None))
    wanted = outcome.status or case.local.status
    status = replace(
        case.local.status,
        nominated_cluster_names=wanted.nominated_cluster_names,
        conditions=_with_nominated(case.local.status.conditions, wanted.conditions),
    )
    return replace(outcome, case=case, phase=phase, status=status, desired=())


def _with_nominated(conditions: tuple[Condition, ...], wanted: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """`conditions` with our condition NOMINATED taken from `wanted`."""
    new = find_condition(wanted, NOMINATED)
    if new == find_condition(conditions, NOMINATED):
        return conditions
    kept = without_condition(conditions, NOMINATED)
    return kept if new is None else (*kept, new)


def _with_reads(outcome: Outcome, case: Case, asked: Iterable[Remote]) -> Outcome:
    """Add a read for each job whose request got no answer, once a read can show its result; none if `outcome`
    requests the job again, which shows it too."""
    asked_anew = {each.cluster for each in outcome.desired if isinstance(each, Running)}
    doubtful = [r for r in asked if r.is_reachable and r.job is None and r.cluster not in asked_anew]
    later = {r.cluster: r.asked.until - case.now for r in doubtful if r.asked is not None and r.asked.until > case.now}
    reads = tuple(
        Found(cluster=r.cluster, why="it was requested, and no answer came") for r in doubtful if r.cluster not in later
    )
    after = sooner(outcome.again_after, *later.values())
    return replace(outcome, desired=(*outcome.desired, *reads), again_after=after)


HANDLERS: dict[Phase, Callable[[Case], Outcome]] = {
    Phase.UNREADABLE: unchanged,
    Phase.GONE: deleted,
    Phase.FINISHED: finished,
    Phase.UNRESERVED: unreserved,
    Phase.UNCHECKED: waiting,
    Phase.REJECTED: remove_all,
    Phase.EVICTED: evicted,
    Phase.RETRY_PENDING: unchanged,
    Phase.UNRECORDED: unrecorded,
    Phase.UNDISPATCHABLE: undispatchable,
    Phase.WAITING: waiting,
    Phase.SLICE_TOO_EARLY: unchanged,
    Phase.SLICE_PINNED: slice_pinned,
    Phase.SLICE_PIN_LOST: slice_pin_lost,
    Phase.DECLINED_BY_ALL: declined_by_all,
    Phase.FITS_NOWHERE: fits_nowhere,
    Phase.NOMINATING: nominating,
    Phase.WINNER_LOST: winner_lost,
    Phase.WINNER_UNREACHABLE: winner_unreachable,
    Phase.COMPLETING: completing,
    Phase.OUT_OF_SYNC: out_of_sync,
    Phase.EVICTED_REMOTELY: evicted_remotely,
    Phase.WINNER_GONE: winner_gone,
    Phase.ADMITTED: admitted,
}
