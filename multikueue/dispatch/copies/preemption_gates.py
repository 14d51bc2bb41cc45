"""Preemption on one worker at a time (KEP 8303): each copy has a preemption gate, and preempts nothing while it is closed.

The condition of a copy says that it could only start by preemption. The gate of the first such copy is opened; if that
copy is not admitted within a while, the gate of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from multikueue.api.kueue.preemption_gates import BLOCKED, ONE_AT_A_TIME, opened_at, states, turn_left
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import render_time
from multikueue.dispatch.remote import Remote

__all__ = ["GATE", "gated", "is_open", "opening_patch", "to_open"]

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
