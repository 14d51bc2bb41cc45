"""Preemption budgets: how many more workloads of each ClusterQueue may be preempted now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from multikueue.api.kueue.queues import ClusterQueue
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.quota.workload.budget import Budget, budget_of, preemptions

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
        """The workload is gone: no object tells any more that it was preempted."""
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
