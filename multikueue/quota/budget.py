"""How many of a ClusterQueue's workloads may be preempted within a time: an annotation of the queue, beyond Kueue's rules.

What counts is in the objects alone, so that another process counts the same: Kueue's condition Preempted forgets its time
when the workload gets quota again, so a condition of ours keeps it in queues with a budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from multikueue.api.meta import ObjectKey, find_condition, render_time
from multikueue.api.queues import MAX_PREEMPTED_ANNOTATION, ClusterQueue
from multikueue.api.workload import PREEMPTED, PREEMPTED_AT, Workload, WorkloadStatus
from multikueue.quota.candidates import UNLIMITED
from multikueue.quota.transitions import put_condition

_NUMBER = re.compile(r"(0|[1-9][0-9]{0,5})/((?:[0-9]{1,6}[dhms])+)")
_PART = re.compile(r"([0-9]+)([dhms])")
_UNITS = {"d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1), "s": timedelta(seconds=1)}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_START = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Budget:
    """At most that many preemptions in any `window`."""

    most: int
    window: timedelta

    def left(self, times: Iterator[datetime], now: datetime) -> int:
        """How many more there may be now, after those at `times`."""
        return max(0, self.most - sum(when + self.window > now for when in times))


def budget_of(queue: ClusterQueue) -> Budget | None:
    """The budget that the annotation of a ClusterQueue gives; None without one, or with one that makes no sense."""
    match = _NUMBER.fullmatch(queue.metadata.annotations.get(MAX_PREEMPTED_ANNOTATION, ""))
    if match is None:
        return None
    window = sum((int(count) * _UNITS[unit] for count, unit in _PART.findall(match[2])), timedelta())
    return Budget(int(match[1]), window) if window else None


def budget_problem(queue: ClusterQueue) -> str:
    """What is wrong with the annotation, which then counts as absent; empty: nothing."""
    text = queue.metadata.annotations.get(MAX_PREEMPTED_ANNOTATION)
    if text is None or budget_of(queue) is not None:
        return ""
    name = queue.metadata.name
    return (
        f"ClusterQueue {name}: annotation {MAX_PREEMPTED_ANNOTATION}: "
        f'expected a number of workloads and a duration such as "3/1h" or "0/30m", got "{text}"'
    )


def preemptions(status: WorkloadStatus) -> tuple[datetime, ...]:
    """When a workload was preempted, as far as its status tells, the earliest first."""
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
            continue  # looks like a time and is none: somebody else wrote that


def keep_time(status: WorkloadStatus, queue: ClusterQueue | None, *, generation: int, now: datetime) -> WorkloadStatus:
    """The status of a workload that is preempted now, with what the budget of its queue has to know for as long as it
    counts; the very status if there is no budget."""
    budget = budget_of(queue) if queue else None
    if budget is None:
        return status
    times = [render_time(when) for when in (*preemptions(status), now) if when + budget.window > now]
    message = ", ".join(dict.fromkeys(times))
    return put_condition(
        status, PREEMPTED_AT, "True", reason=PREEMPTED, message=message, generation=generation, now=now
    )


class Budgets:
    """The budgets of all ClusterQueues, and all preemptions known. Owned by the cache.

    `place` answers the ClusterQueue that a LocalQueue leads to; a preemption counts there.
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
        """Answers whether its budget is another than before."""
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
        """LocalQueues may lead elsewhere."""
        self._stale = True

    def see(self, workload: Workload, local_queue: ObjectKey) -> None:
        """A workload as it is now, finished or not."""
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
        """The workload is no more: nobody can tell by the objects that it was preempted."""
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
        """The ClusterQueues where a preemption ceased to count since this was asked last."""
        due = self.next_end()
        if due is None or due > now:
            return set()
        names = self._eased | {name for name, end in self._ends() if end <= now}
        self._told, self._stale, self._eased = now, True, set()
        return names

    def next_end(self) -> datetime | None:
        """When the next preemption ceases to count; long ago if one did by accident."""
        if self._eased:
            return self._told
        if self._stale:
            self._next, self._stale = min((end for _, end in self._ends()), default=None), False
        return self._next

    def _ends(self) -> Iterator[tuple[str, datetime]]:
        """All ends that nobody was told of yet."""
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
