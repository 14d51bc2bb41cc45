"""Quota comes: the reservation, the checks, the admission."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from multikueue.api.kueue.workload import ADMITTED, QUOTA_RESERVED, REQUEUED, RequeueState
from multikueue.api.meta import find_condition, is_true
from multikueue.api.values.foreign import moment
from multikueue.quota.workload.ends import keep_end
from multikueue.workload.life import transitions
from multikueue.workload.life.life import Life
from multikueue.workload.life.transitions import synchronise_admitted

__all__ = ["admit", "check_delays", "hold_back", "list_checks", "reserve"]

_LONGEST_DELAY = 2**31 - 1
"""Seconds. The longest delay that a check may ask for: Kueue's field is an int32, and datetime can add that much."""


def reserve(life: Life) -> None:
    admission = life.case.scheduling.reservation
    if admission is None or life.has(QUOTA_RESERVED):
        return
    requeued = find_condition(life.status.conditions, REQUEUED)
    since = requeued.last_transition_time if requeued else life.case.local.metadata.creation_timestamp
    life.status = transitions.reserve(
        life.status, admission, life.case.scheduling.required_checks, generation=life.generation, now=life.now
    )
    if life.case.takes_over is not None:
        life.status = replace(life.status, cluster_name=life.case.takes_over)
    life.status = keep_end(life.status, life.case.scheduling.until, generation=life.generation, now=life.now)
    message = f"Quota reserved in ClusterQueue {admission.cluster_queue}, wait time since queued was"
    life.tell("Normal", QUOTA_RESERVED, f"{message} {life.seconds_since(since)}s")


def check_delays(life: Life) -> None:
    """A check may ask for a delay. The latest end of all counts, and it never moves back."""
    ends = list[datetime]()
    for check in life.status.admission_checks:
        since = moment(check.last_transition_time) if check.requeue_after_seconds else None
        if since is not None and check.requeue_after_seconds:
            delay = max(-_LONGEST_DELAY, min(check.requeue_after_seconds, _LONGEST_DELAY))
            ends.append(since + timedelta(seconds=delay))
    if ends:
        hold_back(life, until=max(ends))


def hold_back(life: Life, *, until: datetime, retries: int = 0) -> None:
    state = life.status.requeue_state or RequeueState()
    until = until.replace(microsecond=0)
    later = until if state.requeue_at is None else max(until, state.requeue_at)
    count = (state.count or 0) + retries if retries else state.count
    life.status = replace(life.status, requeue_state=RequeueState(count=count, requeue_at=later))


def list_checks(life: Life) -> None:
    """Update the list of checks. At first it waits for the verdict: otherwise it would cost a write of its own."""
    judged = find_condition(life.status.conditions, QUOTA_RESERVED) is not None
    if judged or (life.case.scheduling.required_checks and not life.is_waiting_for(life.first_look_until)):
        life.status = transitions.synchronise_checks(life.status, life.case.scheduling.required_checks, now=life.now)


def admit(life: Life) -> None:
    before = life.status
    life.status = synchronise_admitted(before, life.generation, life.now, life.rules.reasons)
    if life.status is before:
        return
    if life.has(ADMITTED) and not is_true(before.conditions, ADMITTED) and life.status.admission:
        reserved = find_condition(before.conditions, QUOTA_RESERVED)
        waited = life.seconds_since(reserved.last_transition_time if reserved else None)
        queue = life.status.admission.cluster_queue
        message = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited}s"
        life.tell("Normal", ADMITTED, message)
