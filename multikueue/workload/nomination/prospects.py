"""The prospects of a workload without a worker: the state of each worker of the fleet, as far as the manager sees."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from multikueue.api.kueue.workload import QUOTA_RESERVED
from multikueue.api.meta import Value
from multikueue.api.values.foreign import excerpt
from multikueue.dispatch.remote import Remote
from multikueue.strategy import Worker
from multikueue.workload.case import Case

__all__ = ["Prospect", "State", "prospects"]


class State(Enum):
    """Best first."""

    WAITS = "waits there"
    NOT_ASKED = "was not asked yet"
    UNREACHABLE = "cannot be reached"
    CORDONED = "is cordoned"
    LACKS_KIND = "lacks the kind"
    CLOSED = "does not offer the namespace"
    NEVER = "can never hold it"
    UNFIT = "cannot take it"
    FORBIDDEN = "does not let you look"


class Prospect(Value, frozen=True):
    """One worker. `place` is the copy's position among the pending workloads of its queue there; 0: unknown."""

    cluster: str
    state: str
    place: int = 0
    message: str = ""


def prospects(case: Case) -> tuple[Prospect, ...]:
    """The prospects by worker of the MultiKueueConfig, in its order."""
    return tuple(_prospects(case))


def _prospects(case: Case) -> Iterator[Prospect]:
    for worker in case.fleet.workers:
        state, message = _state(case, worker, case.remote(worker.name))
        yield Prospect(cluster=worker.name, state=state.value, message=excerpt(message))


def _state(case: Case, worker: Worker, remote: Remote | None) -> tuple[State, str]:
    if remote is not None and not remote.is_reachable:
        return State.UNREACHABLE, worker.why
    if remote is not None and case.is_ruled_out_by(remote):
        return State.NEVER, remote.never
    if remote is not None and case.is_current(remote.workload):
        told = remote.condition(QUOTA_RESERVED)
        return State.WAITS, told.message if told is not None else ""
    if worker.name in case.fleet.missing:
        return State.LACKS_KIND, case.fleet.missing[worker.name]
    if worker.why == "cordoned":
        return State.CORDONED, ""
    if not worker.usable:
        return State.UNREACHABLE, worker.why
    if remote is not None and remote.unfit is not None:
        return State.UNFIT, remote.unfit.text
    return State.NOT_ASKED, ""
