"""Preemption gates of a Workload (KEP 8303): its spec names them, its status says which are open."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kueue.workload import PreemptionGateState, Workload, WorkloadStatus
from multikueue.api.meta import decoder
from multikueue.api.values.foreign import answer_or, moment

__all__ = ["BLOCKED", "ONE_AT_A_TIME", "opened_at", "states", "turn_left"]

BLOCKED = "BlockedOnPreemptionGates"
"""The condition of a Workload that could have quota by preempting, if its gates were open."""

ONE_AT_A_TIME = timedelta(minutes=5)
"""How long one worker may preempt for a workload before the next one may too, as in Kueue."""


def turn_left(opened: Iterable[datetime], now: datetime) -> timedelta:
    """How long those whose gates were opened then have their turn yet; not positive once it is the next one's."""
    return max((min(at, now) + ONE_AT_A_TIME - now for at in opened), default=timedelta())


def states(status: WorkloadStatus) -> tuple[PreemptionGateState, ...]:
    """The gates in a status; none if they cannot be decoded."""
    raw = status.preemption_gates
    if raw is msgspec.UNSET:
        return ()
    return answer_or(lambda: decoder(tuple[PreemptionGateState, ...])(raw), otherwise=())


def opened_at(workload: Workload, gate: str) -> datetime | None:
    """Since when a gate is open; None while it is closed."""
    found = (moment(e.last_transition_time) for e in states(workload.status) if e.name == gate and e.position == "Open")
    return next(filter(None, found), None)
