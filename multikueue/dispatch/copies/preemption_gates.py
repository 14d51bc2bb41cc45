"""Preemption on one worker at a time (KEP 8303): each copy has a preemption gate, and preempts nothing while it is closed.

The condition of a copy says that it could only start by preemption. The gate of the first such copy is opened; if that
copy is not admitted within a while, the gate of the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.kueue.workload import PreemptionGateState, Workload, WorkloadStatus
from multikueue.api.meta import decoder, render_time
from multikueue.api.values.foreign import answer_or, moment
from multikueue.dispatch.remote import Remote

__all__ = [
    "BLOCKED",
    "GATE",
    "ONE_AT_A_TIME",
    "gated",
    "is_open",
    "opened_at",
    "opening_patch",
    "states",
    "to_open",
    "turn_left",
]

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


GATE = "kueue.x-k8s.io/multikueue"

Tree = dict[str, Any]


def gated(spec: msgspec.Raw) -> Tree:
    """The spec of a copy behind our gate. Gates of the workload itself are the manager's, and stay here."""
    fields: Tree = msgspec.json.decode(spec)
    return fields | {"preemptionGates": [{"name": GATE}]}


def to_open(copies: Sequence[Remote], opening: str, now: datetime) -> tuple[str, timedelta | None]:
    """The worker whose gate is to be opened now, if any; and when to look again. `copies` are those of the attempt on
    reachable workers. A chosen gate, `opening`, stays the chosen one until it is seen open: meanwhile another copy may turn
    out to be blocked for longer."""
    closed = {r.cluster: since for r in copies if (since := _blocked_since(r)) and _opened_at(r) is None}
    if not closed:
        return "", None
    if opening in closed:
        return opening, ONE_AT_A_TIME
    opened = [at for r in copies if (at := _opened_at(r)) is not None]
    left = turn_left(opened, now)
    if left > timedelta():
        return "", left
    return min(closed, key=lambda cluster: closed[cluster]), ONE_AT_A_TIME


def is_open(remote: Remote) -> bool:
    return _opened_at(remote) is not None


def opening_patch(copy: Workload, now: datetime) -> Tree:
    """A merge patch of the copy's status that opens the gate."""
    state = {"name": GATE, "position": "Open", "lastTransitionTime": render_time(now)}
    others = [each for each in states(copy.status) if each.name != GATE]
    return {
        "metadata": {"resourceVersion": copy.metadata.resource_version},
        "status": {"preemptionGates": [*others, state]},
    }


def _blocked_since(remote: Remote) -> datetime | None:
    """Since when its copy waits at the gate; None if it does not."""
    said = remote.condition(BLOCKED)
    return said.last_transition_time if said is not None and said.status == "True" else None


def _opened_at(remote: Remote) -> datetime | None:
    return opened_at(remote.workload, GATE) if remote.workload is not None else None
