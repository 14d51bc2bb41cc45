"""The facts of one workload, and what its object records of its past. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from multikueue.api.kueue.workload import QUOTA_RESERVED, PodSetAssignment, Workload, workload_spec
from multikueue.api.meta import render_time
from multikueue.cli.terminal.output import one_line

__all__ = ["HistoryEntry", "attempt", "facts", "history"]


def attempt(workload: Workload) -> str:
    """The time of the present reservation, the mark of its copies; empty without a reservation."""
    reserved = workload.condition(QUOTA_RESERVED)
    if reserved is None or reserved.status != "True" or reserved.last_transition_time is None:
        return ""
    return render_time(reserved.last_transition_time)


def facts(workload: Workload) -> Iterator[tuple[str, str]]:
    """Title and value."""
    from multikueue.answers.seen import typed_name

    spec, state = workload_spec(workload), workload.status
    yield "Job", typed_name(workload)
    through = f" (ClusterQueue {state.admission.cluster_queue})" if state.admission else ""
    yield "Queue", f"{spec.queue_name}{through}"
    named = f" ({spec.priority_class_ref.name})" if spec.priority_class_ref else ""
    yield "Priority", f"{spec.priority}{named}"
    yield "Pods", ", ".join(f"{pod_set.count} {pod_set.name}" for pod_set in spec.pod_sets)
    if state.admission:
        yield "Quota", "; ".join(_quota(each) for each in state.admission.pod_set_assignments)
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


def history(workload: Workload) -> list[HistoryEntry]:
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
        message = f": {condition.message}" if condition.message else ""
        yield HistoryEntry(condition.last_transition_time, f"{what}{because}{message}")


def _check_events(workload: Workload) -> Iterator[HistoryEntry]:
    for check in workload.status.admission_checks:
        message = f": {check.message}" if check.message else ""
        what = f"admission check {check.name} is {check.state}{message}"
        yield HistoryEntry(check.last_transition_time, what)
