"""The prospects of a workload: what each worker of the fleet is to it, as far as the manager sees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum

from msgspec.structs import replace

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.workload import (
    ADMITTED,
    FITS_NO_WORKER,
    QUOTA_RESERVED,
    Workload,
    any_owner_of,
    queue_of,
)
from multikueue.api.meta import Condition, Time, Value, find_condition
from multikueue.api.multikueue.clusters import MultiKueueCluster
from multikueue.api.values.foreign import excerpt
from multikueue.dispatch.remote import Remote
from multikueue.strategy import Worker
from multikueue.workload.case import Case
from multikueue.workload.fit import named_in

__all__ = ["Prospect", "State", "away", "lacking", "prospects", "waiting", "with_cell"]


class State(Enum):
    """Best first."""

    HAS_IT = "has it"
    WAITS = "waits there"
    NOT_ASKED = "was not asked yet"
    UNREACHABLE = "cannot be reached"
    CORDONED = "is cordoned"
    LACKS_QUEUE = "lacks the LocalQueue"
    CLOSED_QUEUE = "admits nothing from the queue"
    LACKS_KIND = "lacks the kind"
    CLOSED = "does not offer the namespace"
    NEVER = "can never hold it"
    UNFIT = "cannot take it"
    FORBIDDEN = "does not let you look"


class Prospect(Value, frozen=True):
    """One worker. `place` is the copy's position among the pending workloads of its queue there; 0: unknown. `since`: when
    it went away, if it cannot be reached and that is known. Of one that is left out, `queue` and `kind` are those of the
    workload that keep it from there, and `repair` is what helps: a command, or a few words."""

    cluster: str
    state: str
    place: int = 0
    message: str = ""
    since: Time | None = None
    queue: str = ""
    kind: str = ""
    repair: str = ""


_REPAIRS: Mapping[str, str] = {
    State.UNREACHABLE.value: "multikueue clusters check {cluster}",
    State.CORDONED.value: "multikueue clusters uncordon {cluster}",
    State.LACKS_QUEUE.value: "multikueue queues sync {cluster} -n {namespace}",
    State.CLOSED_QUEUE.value: "multikueue queues list -n {namespace} --workers",
    State.LACKS_KIND.value: "install {kind} there, or grant rights on it: multikueue clusters check {cluster}",
    State.CLOSED.value: "multikueue clusters register {cluster} --run-in {namespace}",
}


def with_cell(found: Prospect, workload: Workload) -> Prospect:
    """The same, of a worker that is left out with the cell that says so: the workload's queue and kind, and the repair."""
    repair = _REPAIRS.get(found.state)
    if repair is None:
        return found
    owner, key = any_owner_of(workload), queue_of(workload)
    kind = owner.kind if owner is not None else "Workload"
    text = repair.format(cluster=found.cluster, namespace=key.namespace, kind=kind)
    return replace(found, queue=str(key), kind=kind, repair=text)


def away(cluster: MultiKueueCluster) -> Prospect | None:
    """A worker that the manager has no connection to; None for one that it has."""
    active = find_condition(cluster.status.conditions, ACTIVE)
    if active is None or active.status == "True":
        return None
    since, why = active.last_transition_time, active.message or active.reason
    return Prospect(cluster=cluster.metadata.name, state=State.UNREACHABLE.value, message=why, since=since)


def waiting(told: Condition | None) -> tuple[State, str]:
    """The state of a worker whose Kueue has set this condition QuotaReserved on the copy, and its words."""
    message = told.message if told is not None else ""
    return (State.LACKS_QUEUE if _is_missing(message) else State.WAITS), message


def lacking(why: str) -> State:
    """The state of a worker whose queue admits nothing, for the reason that `foresight.closed` gives."""
    return State.LACKS_QUEUE if _is_missing(why) else State.CLOSED_QUEUE


def _is_missing(message: str) -> bool:
    return message.startswith("LocalQueue ") and message.rstrip(".").endswith("doesn't exist")


def prospects(case: Case) -> tuple[Prospect, ...]:
    """The prospects by worker of the MultiKueueConfig, in its order; last the worker that has it, if it is no more of them."""
    return tuple(with_cell(each, case.local) for each in _prospects(case))


def _prospects(case: Case) -> Iterator[Prospect]:
    winner = case.local.status.cluster_name if ADMITTED in case.true else None
    workers = case.fleet.workers
    if winner and winner not in case.fleet.order:
        workers = (*workers, Worker(name=winner, usable=False, why="its queue no longer leads there"))
    for worker in workers:
        remote = case.remote(worker.name)
        state, message = _state(case, worker, remote)
        since = remote.link.since if remote is not None and state is State.UNREACHABLE else None
        yield Prospect(cluster=worker.name, state=state.value, message=excerpt(message), since=since)


def _state(case: Case, worker: Worker, remote: Remote | None) -> tuple[State, str]:
    if remote is not None and not remote.is_reachable:
        return State.UNREACHABLE, worker.why
    if ADMITTED in case.true and case.local.status.cluster_name == worker.name:
        return State.HAS_IT, ""
    if remote is not None and remote.cluster in case.lacks:
        return State.NEVER, remote.never
    if remote is not None and case.is_current(remote.workload):
        return waiting(remote.condition(QUOTA_RESERVED))
    if worker.name in case.fleet.missing:
        return State.LACKS_KIND, case.fleet.missing[worker.name]
    if worker.why.startswith("cordoned"):
        return State.CORDONED, ""
    if not worker.usable:
        return State.UNREACHABLE, worker.why
    if worker.name in case.closed and not case.has_something(remote):
        return lacking(case.closed[worker.name]), case.closed[worker.name]
    if remote is not None and remote.unfit is not None:
        return State.UNFIT, remote.unfit.text
    known = case.local.condition(FITS_NO_WORKER)  # its copies are gone by now, and what they told is kept there
    why = named_in(known.message).get(worker.name, "") if known is not None else ""
    return (State.NEVER, why) if why else (State.NOT_ASKED, "")
