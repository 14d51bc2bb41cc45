"""One workload in words for people: its state, what happened to it in order, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import msgspec

from multikueue.api.kueue.workload import (
    ADMITTED,
    EVICTED,
    FINISHED,
    QUOTA_RESERVED,
    SUCCEEDED,
    UNDISPATCHABLE_ANNOTATION,
    PodSetAssignment,
    Workload,
    any_owner_of,
    workload_spec,
)
from multikueue.api.meta import find_condition, render_time
from multikueue.cli.terminal.output import one_line
from multikueue.cli.workload.repairs import repair

__all__ = ["STATES", "HistoryEntry", "attempt", "events", "facts", "now", "owner", "reason", "status"]

Test = Callable[[Workload], bool]

_STATES: tuple[tuple[str, Test], ...] = (
    ("Finished", lambda workload: _has_finished_as(workload, is_success=True)),
    ("Failed", lambda workload: _has_finished_as(workload, is_success=False)),
    ("Terminating", lambda workload: workload.metadata.deletion_timestamp is not None),
    ("Inactive", lambda workload: not workload_spec(workload).active),
    ("Evicting", lambda workload: workload.has(EVICTED) and workload.has(QUOTA_RESERVED)),
    ("Admitted", lambda workload: workload.has(ADMITTED)),
    ("QuotaReserved", lambda workload: workload.has(QUOTA_RESERVED)),
    ("Evicted", lambda workload: workload.has(EVICTED)),
)
"""In order: the first that holds is the state; Pending if none does."""

STATES = ("Pending", *(name for name, _ in _STATES))
"""All states in one word each."""


def status(workload: Workload) -> str:
    """The state in one word."""
    return next((name for name, holds in _STATES if holds(workload)), "Pending")


def owner(workload: Workload) -> str:
    """Its job, as `Job/name`; empty for a workload without a job."""
    found = any_owner_of(workload)
    return f"{found.kind}/{found.name}" if found else ""


def attempt(workload: Workload) -> str:
    """The time of the present reservation, the mark of its copies; empty without a reservation."""
    reserved = workload.condition(QUOTA_RESERVED)
    if reserved is None or reserved.status != "True" or reserved.last_transition_time is None:
        return ""
    return render_time(reserved.last_transition_time)


def reason(workload: Workload) -> str:
    """The reason of its state as its objects have it, in one line."""
    match status(workload):
        case "Finished" | "Failed":
            return _message(workload, FINISHED)
        case "Terminating":
            return f"deletion waits for {', '.join(workload.metadata.finalizers) or 'the server'}"
        case "Inactive":
            undispatchable = workload.metadata.annotations.get(UNDISPATCHABLE_ANNOTATION, "")
            return undispatchable or _message(workload, EVICTED) or "spec.active is false"
        case "Evicting" | "Evicted":
            return _message(workload, EVICTED)
        case "Admitted" | "QuotaReserved":
            return _checks(workload) or _message(workload, ADMITTED)
    return _message(workload, QUOTA_RESERVED)


def now(workload: Workload) -> str:
    """Its present activity or wait, and the remedy, as sentences in one line."""
    told = one_line(_now(workload))
    helps = repair(workload)
    return f"{told if told.endswith('.') else f'{told}.'}{f' {helps}' if helps else ''}"


def _now(workload: Workload) -> str:
    where = workload.status.cluster_name
    match status(workload):
        case "Finished":
            return f"Done{_on(where)}: {reason(workload)}"
        case "Failed":
            return f"Failed{_on(where)}: {reason(workload)}"
        case "Admitted" if where:
            return f"Runs on {where}."
        case "Admitted":
            return "Admitted, without a worker cluster."
        case "QuotaReserved":
            return _waiting_for_a_worker(workload)
        case "Evicting":
            return f"Leaves{_on(where)}: {reason(workload)}"
        case "Evicted":
            return f"Waits to be queued again{_requeue_time(workload)}: {reason(workload)}"
        case "Inactive":
            return f"Held: {reason(workload)}"
        case "Terminating":
            return f"Being deleted; {reason(workload)}."
    queue = workload_spec(workload).queue_name
    return f"Waits for quota in queue {queue}: {reason(workload) or 'nobody has looked at it yet'}"


def facts(workload: Workload) -> Iterator[tuple[str, str]]:
    """Lasting facts: title and value."""
    spec, state = workload_spec(workload), workload.status
    if owner(workload):
        yield "Job", owner(workload)
    through = f" (ClusterQueue {state.admission.cluster_queue})" if state.admission else ""
    yield "Queue", f"{spec.queue_name}{through}"
    named = f" ({spec.priority_class_ref.name})" if spec.priority_class_ref else ""
    yield "Priority", f"{spec.priority}{named}"
    yield "Pods", ", ".join(f"{pod_set.count} {pod_set.name}" for pod_set in spec.pod_sets)
    if state.admission:
        yield "Quota", "; ".join(_quota(each) for each in state.admission.pod_set_assignments)
    yield "Status", status(workload)
    if state.cluster_name:
        yield "Cluster", state.cluster_name
    if state.nominated_cluster_names:
        yield "Nominated", ", ".join(state.nominated_cluster_names)


def _quota(held: PodSetAssignment) -> str:
    """The quota of one pod set, with its flavors."""
    pods = "" if held.count is None else f"{held.count} "
    amounts = (f"{name} {amount}" for name, amount in held.resource_usage.items())
    flavors = ", ".join(dict.fromkeys(held.flavors.values()))
    return f"{pods}{held.name}: {', '.join(amounts) or 'nothing'}" + (f" ({flavors})" if flavors else "")


class HistoryEntry(msgspec.Struct, frozen=True):
    """A past change that an object records, with the time that it records; None without one."""

    at: datetime | None
    what: str

    def __str__(self) -> str:
        return f"{render_time(self.at) if self.at else '-':<20}  {one_line(self.what)}"


def events(workload: Workload) -> list[HistoryEntry]:
    """The history in conditions and checks, oldest first. Each has its last change only."""
    told = [
        HistoryEntry(workload.metadata.creation_timestamp, "created"),
        *_conditions(workload),
        *_check_events(workload),
    ]
    return sorted(told, key=lambda event: event.at.timestamp() if event.at else float("inf"))


def _conditions(workload: Workload) -> Iterator[HistoryEntry]:
    for condition in workload.status.conditions:
        what = condition.type if condition.status == "True" else f"{condition.type} is {condition.status}"
        because = f" ({condition.reason})" if condition.reason else ""
        yield HistoryEntry(condition.last_transition_time, f"{what}{because}{_colon(condition.message)}")


def _check_events(workload: Workload) -> Iterator[HistoryEntry]:
    for check in workload.status.admission_checks:
        what = f"admission check {check.name} is {check.state}{_colon(check.message)}"
        yield HistoryEntry(check.last_transition_time, what)


def _has_finished_as(workload: Workload, *, is_success: bool) -> bool:
    condition = workload.condition(FINISHED)
    return condition is not None and condition.status == "True" and (condition.reason == SUCCEEDED) is is_success


def _message(workload: Workload, type_: str) -> str:
    condition = find_condition(workload.status.conditions, type_)
    return (condition.message or condition.reason) if condition else ""


def _checks(workload: Workload) -> str:
    """The messages of the checks that are not Ready, else of all checks."""
    checks = workload.status.admission_checks
    telling = [check for check in checks if check.state != "Ready"] or checks
    return "; ".join(f"{check.name}: {check.message or check.state}" for check in telling)


def _waiting_for_a_worker(workload: Workload) -> str:
    nominated = workload.status.nominated_cluster_names
    held = [check.name for check in workload.status.admission_checks if check.state != "Ready"]
    if nominated:
        return f"Has quota; its copies wait for admission on {', '.join(nominated)}."
    if held:
        return f"Has quota; waits for admission check {', '.join(held)}: {reason(workload)}"
    return "Has quota; admission is about to follow."


def _requeue_time(workload: Workload) -> str:
    state = workload.status.requeue_state
    return f" not before {render_time(state.requeue_at)}" if state and state.requeue_at else ""


def _on(cluster: str | None) -> str:
    return f" on {cluster}" if cluster else ""


def _colon(message: str) -> str:
    return f": {message}" if message else ""
