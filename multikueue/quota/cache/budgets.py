"""Limits of preemption beyond Kueue's rules, by annotations: the budgets of ClusterQueues, and a workload's protection.

A budget is so many preemptions within a time. The count comes from objects alone, so that every process counts the same.
Kueue's condition Preempted loses its time when the workload gets quota again, so a condition of ours keeps it, in queues
with a budget.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

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
from multikueue.api.meta import ObjectKey, find_condition, render_time
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


Allowance = Callable[[str], int]
"""How many more workloads of a ClusterQueue may be preempted now."""

UNLIMITED = sys.maxsize

_START = datetime.min.replace(tzinfo=UTC)


def unlimited(_queue: str) -> int:
    return UNLIMITED


class Budgets:
    """The budgets of all ClusterQueues, and all known preemptions. Owned by the cache.

    `place` returns the ClusterQueue that a LocalQueue leads to; a preemption counts there.
    """

    def __init__(self, place: Callable[[ObjectKey], str | None]) -> None:
        self._place = place
        self._budgets: dict[str, Budget] = {}
        self._preempted: dict[ObjectKey, tuple[ObjectKey, tuple[datetime, ...]]] = {}
        self._told = _START
        self._next: datetime | None = None
        self._stale = False
        self._eased: set[str] = set()

    def set_queue(self, queue: ClusterQueue) -> bool:
        """Returns whether its budget has changed."""
        return self._set(queue.metadata.name, budget_of(queue))

    def remove_queue(self, name: str) -> None:
        self._set(name, None)

    def _set(self, name: str, budget: Budget | None) -> bool:
        old = self._budgets.pop(name, None)
        if budget is not None:
            self._budgets[name] = budget
        self._stale = self._stale or old != budget
        return old != budget

    def routes_changed(self) -> None:
        """LocalQueues may lead to other ClusterQueues now."""
        self._stale = True

    def see(self, workload: Workload, local_queue: ObjectKey) -> None:
        """A workload as last seen, finished or not."""
        times = preemptions(workload.status)
        if not times:
            self.forget(workload.key)
        elif self._preempted.get(workload.key) != (local_queue, times):
            self._preempted[workload.key] = local_queue, times
            self._stale = True

    def assume(self, key: ObjectKey, local_queue: ObjectKey, now: datetime) -> None:
        """A workload is to be preempted; its status does not show it yet."""
        _, times = self._preempted.get(key, (local_queue, ()))
        self._preempted[key] = local_queue, (*times, now)
        self._stale = True

    def forget(self, key: ObjectKey) -> None:
        """The workload is gone: no object says any more that it was preempted."""
        local_queue, _ = self._preempted.pop(key, (None, ()))
        if local_queue is not None:
            self._stale = True
            self._eased |= {self._place(local_queue) or ""} & self._budgets.keys()

    def of(self, queue: str) -> Budget | None:
        return self._budgets.get(queue)

    def left(self, queue: str, now: datetime) -> int:
        """How many more workloads of a ClusterQueue may be preempted now."""
        budget = self._budgets.get(queue)
        return UNLIMITED if budget is None else budget.left(self._in(queue), now)

    def freed(self, now: datetime) -> set[str]:
        """The ClusterQueues where a preemption has ceased to count since the last call."""
        due = self.next_end()
        if due is None or due > now:
            return set()
        names = self._eased | {name for name, end in self._ends() if end <= now}
        self._told, self._stale, self._eased = now, True, set()
        return names

    def next_end(self) -> datetime | None:
        """When the next preemption ceases to count; in the past if one did because its workload is gone."""
        if self._eased:
            return self._told
        if self._stale:
            self._next, self._stale = min((end for _, end in self._ends()), default=None), False
        return self._next

    def _ends(self) -> Iterator[tuple[str, datetime]]:
        """The ends that `freed` has not reported yet."""
        for local_queue, times in self._preempted.values() if self._budgets else ():
            name = self._place(local_queue) or ""
            if (budget := self._budgets.get(name)) is not None:
                yield from ((name, when + budget.window) for when in times if when + budget.window > self._told)

    def _in(self, queue: str) -> Iterator[datetime]:
        return (
            when
            for local_queue, times in self._preempted.values()
            if self._place(local_queue) == queue
            for when in times
        )
