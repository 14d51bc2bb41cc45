"""Limits of preemption beyond Kueue's rules, by annotations: a ClusterQueue's budget, and a workload's protection.

A budget is so many preemptions within a time. The count comes from objects alone, so that every process counts the same.
Kueue's condition Preempted loses its time when the workload gets quota again, so a condition of ours keeps it, in queues
with a budget.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import msgspec

from multikueue.api.kueue.queues import MAX_PREEMPTED_ANNOTATION, ClusterQueue
from multikueue.api.kueue.workload import (
    NON_PREEMPTIBLE_ANNOTATION,
    PREEMPTED,
    PREEMPTED_AT,
    Workload,
    WorkloadStatus,
    put_condition,
)
from multikueue.api.meta import find_condition, render_time
from multikueue.durations import parse_duration

_NUMBER = re.compile(r"0|[1-9][0-9]{0,5}")
_LONGEST = timedelta(days=3650)  # the end of a longer one may be in no calendar
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class Budget(msgspec.Struct, frozen=True):
    """At most `most` preemptions in any `window`."""

    most: int
    window: timedelta

    def left(self, times: Iterator[datetime], now: datetime) -> int:
        """How many more preemptions are allowed now, after those at `times`."""
        return max(0, self.most - sum(when + self.window > now for when in times))


def budget_of(queue: ClusterQueue) -> Budget | None:
    """The budget in the annotation of a ClusterQueue; None if it is absent or invalid."""
    most, _, window = queue.metadata.annotations.get(MAX_PREEMPTED_ANNOTATION, "").partition("/")
    span = parse_duration(window)
    return Budget(int(most), min(span, _LONGEST)) if span and _NUMBER.fullmatch(most) else None


def budget_problem(queue: ClusterQueue) -> str:
    """The error in the annotation, which then counts as absent; empty if there is none."""
    text = queue.metadata.annotations.get(MAX_PREEMPTED_ANNOTATION)
    if text is None or budget_of(queue) is not None:
        return ""
    name = queue.metadata.name
    return (
        f"ClusterQueue {name}: annotation {MAX_PREEMPTED_ANNOTATION}: "
        f'expected a number of workloads and a duration such as "3/1h" or "0/30m", got "{text}"'
    )


def preemptions(status: WorkloadStatus) -> tuple[datetime, ...]:
    """The times at which a workload was preempted, as far as its status shows them, the earliest first."""
    kept = find_condition(status.conditions, PREEMPTED_AT)
    last = find_condition(status.conditions, PREEMPTED)
    if kept is None and last is None:
        return ()
    times = set(_times(kept.message)) if kept else set()
    if last and last.status == "True" and last.last_transition_time:
        times.add(last.last_transition_time)
    return tuple(sorted(times))


def _times(text: str) -> Iterator[datetime]:
    for found in _TIME.findall(text):
        try:
            yield datetime.fromisoformat(found)
        except ValueError:
            continue  # looks like a time and is none: we did not write it


def keep_time(status: WorkloadStatus, queue: ClusterQueue | None, *, generation: int, now: datetime) -> WorkloadStatus:
    """The status of a workload that is preempted now, with all times that count for the budget of its queue; the same
    object if there is no budget."""
    budget = budget_of(queue) if queue else None
    if budget is None:
        return status
    times = [render_time(when) for when in (*preemptions(status), now) if when + budget.window > now]
    message = ", ".join(dict.fromkeys(times))
    return put_condition(
        status, PREEMPTED_AT, "True", reason=PREEMPTED, message=message, generation=generation, now=now
    )


INVALID_ANNOTATION = "InvalidAnnotation"
"""The reason of the event about an invalid annotation."""


def is_non_preemptible(workload: Workload) -> bool:
    """Whether the workload asks not to be preempted.

    The annotation counts only where a setting allows it.
    """
    return workload.metadata.annotations.get(NON_PREEMPTIBLE_ANNOTATION) == "true"


def non_preemptible_problem(workload: Workload) -> str:
    """The error in its annotation, which then counts as absent; empty if there is none."""
    value = workload.metadata.annotations.get(NON_PREEMPTIBLE_ANNOTATION, "false")
    if value in ("true", "false"):
        return ""
    name = workload.key
    return f'Workload {name}: annotation {NON_PREEMPTIBLE_ANNOTATION}: expected "true" or "false", got "{value}"'
