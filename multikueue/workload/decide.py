"""The decision on one workload (contract 3): the handler of its phase, found in a table.

A decision is the new local status, and the desired state on each worker. `workload.handlers` has a function for each
phase.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from multikueue.api.kueue.workload import NOMINATED
from multikueue.api.meta import Condition, find_condition, without_condition
from multikueue.dispatch.copies.plan import Found, Plan, Running
from multikueue.workload.case import Case
from multikueue.workload.handlers.doubts import with_doubts
from multikueue.workload.handlers.evicting import deleted, evicted
from multikueue.workload.handlers.finishing import completing, finished
from multikueue.workload.handlers.nominating import nominating, slice_pinned
from multikueue.workload.handlers.outcome import Outcome, sooner, unchanged
from multikueue.workload.handlers.removal import remove_all
from multikueue.workload.handlers.retrying import (
    declined_by_all,
    evicted_remotely,
    fits_nowhere,
    out_of_sync,
    slice_pin_lost,
    winner_gone,
    winner_lost,
)
from multikueue.workload.handlers.waiting import undispatchable, unreserved, waiting
from multikueue.workload.handlers.winning import admitted, readmitted, unrecorded, winner_unreachable
from multikueue.workload.phases import Phase, phase_of


def decide(case: Case) -> Outcome:
    """Decide on a workload. Idempotent: another decision on the result changes nothing."""
    phase = phase_of(case)
    outcome = HANDLERS[phase](case)
    if phase is not Phase.UNREADABLE and any(remote.asked is not None for remote in case.remotes):
        outcome = _with_reads(outcome, case)
    return replace(with_doubts(outcome, case), phase=phase)


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
        lost=frozenset(r.cluster for r in case.remotes if r.is_lost(case.now, case.rules.lost_after)),
        is_gated=case.rules.is_preemption_sequential and not case.slice.stays,
    )


def nominate(case: Case) -> Outcome:
    """The nomination alone, for Kueue's own MultiKueue, which does the rest (contract 4.3).

    Only `nominatedClusterNames` and our own condition with the reason change. An answer `give_back` has no effect:
    Kueue owns the quota there.
    """
    phase = phase_of(case)
    if phase is not Phase.NOMINATING or case.local.status.cluster_name or _should_give_back(case):
        return replace(unchanged(case), phase=phase)
    outcome = nominating(replace(case, give_back_after=None))
    wanted = outcome.status or case.local.status
    status = replace(
        case.local.status,
        nominated_cluster_names=wanted.nominated_cluster_names,
        conditions=_with_nominated(case.local.status.conditions, wanted.conditions),
    )
    return replace(outcome, phase=phase, status=status, desired=())


def _should_give_back(case: Case) -> bool:
    return case.nomination is not None and case.nomination.give_back


def _with_nominated(conditions: tuple[Condition, ...], wanted: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """`conditions` with our condition NOMINATED taken from `wanted`."""
    new = find_condition(wanted, NOMINATED)
    if new == find_condition(conditions, NOMINATED):
        return conditions
    kept = without_condition(conditions, NOMINATED)
    return kept if new is None else (*kept, new)


def _with_reads(outcome: Outcome, case: Case) -> Outcome:
    """Add a read for each job whose request got no answer, once a read can tell its result; none if `outcome`
    requests the job again, which tells it too."""
    asked_anew = {each.cluster for each in outcome.desired if isinstance(each, Running)}
    doubtful = [r for r in case.remotes if r.asked and r.is_reachable and r.job is None and r.cluster not in asked_anew]
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
    Phase.READMITTED: readmitted,
    Phase.EVICTED_REMOTELY: evicted_remotely,
    Phase.WINNER_GONE: winner_gone,
    Phase.ADMITTED: admitted,
}
