"""The rules of a workload's life, in their order (quota-engine 4.2-4.4, 5.3, 12; contract 3.11)."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from multikueue.api.kubernetes.event import Event
from multikueue.api.kueue.workload import (
    DEACTIVATION_TARGET,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    WorkloadStatus,
    workload_spec,
)
from multikueue.workload.case import Case
from multikueue.workload.life.ending import end_deactivation, finish, make_way, reclaim
from multikueue.workload.life.eviction import look_for_trouble, release, requeue
from multikueue.workload.life.explanation import explain, explain_deactivation
from multikueue.workload.life.life import Life
from multikueue.workload.life.pods import look_at_pods, look_for_members
from multikueue.workload.life.reservation import admit, check_delays, list_checks, reserve

__all__ = ["Step", "step"]


class Step(msgspec.Struct, frozen=True):
    """The status to write if it differs; then, with `should_deactivate`, `spec.active` becomes false.

    `again_after`: when time alone makes another step due; None: never.
    """

    status: WorkloadStatus
    should_deactivate: bool = False
    again_after: timedelta | None = None
    events: tuple[Event, ...] = ()


def step(case: Case) -> Step:
    """The next status of a workload: everything that is due at once. It is safe to repeat: with nothing new it returns the
    same status object. Raises msgspec.ValidationError if the spec cannot be decoded."""
    before = case.local.status
    life = Life(case, workload_spec(case.local), before)
    if not life.has(FINISHED):
        _go_on(life)
    again_after = min(life.due) - life.now if life.due else None
    return Step(before if life.status == before else life.status, life.deactivate, again_after, tuple(life.events))


def _go_on(life: Life) -> None:
    end = life.end
    if end is not None:
        finish(life, end)
    elif life.case.successor is not None:
        make_way(life, life.case.successor)
    elif not life.spec.active:
        end_deactivation(life)
        release(life)
        explain_deactivation(life)
        list_checks(life)
    elif life.has(DEACTIVATION_TARGET) and not life.has(EVICTED):
        life.deactivate = True
    else:
        _live(life)
    reclaim(life)
    if life.rules.wait_for_pods_ready is not None:
        look_at_pods(life)
    if life.case.job.replaceable is not None:
        look_for_members(life)


def _live(life: Life) -> None:
    reserve(life)
    check_delays(life)
    list_checks(life)
    admit(life)
    if life.rules.wait_for_pods_ready is not None:
        look_at_pods(life)
    if life.has(QUOTA_RESERVED):
        if not life.has(EVICTED):
            look_for_trouble(life)
        release(life)
    if life.deactivate:
        return
    requeue(life)
    if not life.has(QUOTA_RESERVED):
        explain(life)
        list_checks(life)
        admit(life)
