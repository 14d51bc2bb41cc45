"""All waiting workloads: the way from LocalQueue to ClusterQueue, and when parked ones are due for another look."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from typing import Any

from multikueue.api.meta import ObjectKey
from multikueue.quota.pending import PendingQueue
from multikueue.quota.turns import Turns, Usage
from multikueue.quota.waiting import Reason, Verdict, Waiting

Line = PendingQueue | Turns

FLUSH_DELAY = timedelta(seconds=1)
"""Freed or changed quota wakes parked workloads this much later, once per tree: changes come in bursts."""

OVERLOOKED = timedelta(minutes=5)
"""The same for quota that Kueue does not see become free: what nothing else wakes meanwhile does not wait for ever."""


class Backlog:
    """Who waits where. Owned and changed by the engine only.

    Every waiting workload is a member of its LocalQueue, known or not; it stands in a ClusterQueue's line only while
    there is a route: the LocalQueue exists, runs, and its ClusterQueue exists.
    """

    def __init__(self) -> None:
        self._lines: dict[str, Line] = {}
        self._routes: dict[ObjectKey, str] = {}
        self._members: dict[ObjectKey, dict[ObjectKey, Waiting]] = {}
        self._waiting: dict[ObjectKey, Waiting] = {}
        self._namespaces: dict[str, dict[ObjectKey, Waiting]] = {}
        self._runtime_classes: dict[str, dict[ObjectKey, Waiting]] = {}
        self._busy: set[str] = set()
        self._flushes: dict[str, datetime] = {}
        self._backoffs: list[tuple[datetime, ObjectKey]] = []

    # --- queues ---

    def set_queue(self, name: str, *, strict: bool, now: datetime, usage: Usage | None = None) -> None:
        """A ClusterQueue exists, with this strategy; with `usage` its LocalQueues take turns."""
        line = self._lines.get(name)
        if line is not None and isinstance(line, Turns) == (usage is not None):
            line.strict = strict
            return
        self._lines[name] = PendingQueue(strict=strict) if usage is None else Turns(usage, strict=strict)
        for local_queue, queue in self._routes.items():
            if queue == name:
                self._line_up(local_queue, now)

    def remove_queue(self, name: str) -> None:
        self._lines.pop(name, None)
        self._busy.discard(name)

    def set_route(self, local_queue: ObjectKey, queue: str | None, now: datetime) -> bool:
        """Where a LocalQueue leads: to a ClusterQueue, or nowhere (stopped or gone). Answers whether that is new."""
        old = self._routes.get(local_queue)
        if old == queue:
            return False
        if line := self._lines.get(old or ""):
            for key in self._members.get(local_queue, ()):
                line.remove(key)
        if queue is None:
            del self._routes[local_queue]
        else:
            self._routes[local_queue] = queue
            self._line_up(local_queue, now)
        return True

    def route(self, local_queue: ObjectKey) -> str | None:
        """The ClusterQueue that a LocalQueue leads to; None if it is stopped or gone."""
        return self._routes.get(local_queue)

    def _line_up(self, local_queue: ObjectKey, now: datetime) -> None:
        for waiting in self._members.get(local_queue, {}).values():
            self._push(waiting, now)
            if waiting.was_stopped and (line := self._lines.get(self._routes[local_queue])):
                line.unpark(waiting.key)

    # --- workloads ---

    def get(self, key: ObjectKey) -> Waiting | None:
        return self._waiting.get(key)

    def put(self, waiting: Waiting, now: datetime) -> bool:
        """A workload waits. Answers whether there is something new to look at."""
        old = self._waiting.get(waiting.key)
        if old is not None:
            waiting.verdict = self.verdict(old)
            if old.local_queue != waiting.local_queue:
                self.remove(waiting.key)
        self._join(waiting)
        return self._push(waiting, now)

    def give_back(self, waiting: Waiting, reason: Reason, now: datetime) -> None:
        """A head comes back from a cycle."""
        self._join(waiting)
        queue = self._routes.get(waiting.local_queue, "")
        if line := self._lines.get(queue):
            line.give_back(waiting, reason, now)
            self._busy.add(queue)
            self._remember_backoff(waiting, now)

    def verdict(self, waiting: Waiting) -> Verdict | None:
        """What it was told last."""
        line = self._lines.get(self._routes.get(waiting.local_queue, ""))
        return waiting.verdict if line is None else line.verdict(waiting)

    def remove(self, key: ObjectKey) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return
        self._part(waiting)
        if line := self._lines.get(self._routes.get(waiting.local_queue, "")):
            line.remove(key)

    def _join(self, waiting: Waiting) -> None:
        old = self._waiting.get(waiting.key)
        if old is not None:
            self._part(old)
        self._waiting[waiting.key] = waiting
        for groups, name in self._groups_of(waiting):
            groups.setdefault(name, {})[waiting.key] = waiting

    def _part(self, waiting: Waiting) -> None:
        for groups, name in self._groups_of(waiting):
            del groups[name][waiting.key]
            if not groups[name]:
                del groups[name]

    def _groups_of(self, waiting: Waiting) -> Iterator[tuple[dict[Any, dict[ObjectKey, Waiting]], Hashable]]:
        """Where it can be found, and under what name."""
        yield self._members, waiting.local_queue
        yield self._namespaces, waiting.key.namespace
        for name in waiting.demand.runtime_classes:
            yield self._runtime_classes, name

    def _push(self, waiting: Waiting, now: datetime) -> bool:
        queue = self._routes.get(waiting.local_queue, "")
        line = self._lines.get(queue)
        if line is None:
            return False
        self._busy.add(queue)
        self._remember_backoff(waiting, now)
        return line.push_or_update(waiting, now)

    def _remember_backoff(self, waiting: Waiting, now: datetime) -> None:
        if waiting.requeue_at is not None and waiting.requeue_at > now:
            heappush(self._backoffs, (waiting.requeue_at, waiting.key))

    # --- looking again ---

    def request_flush(self, root: str, now: datetime, *, after: timedelta = FLUSH_DELAY) -> None:
        """Something changed in that tree: look at its parked workloads again, soon and once."""
        self._flushes[root] = min(now + after, self._flushes.get(root, now + after))

    def hasten_flush(self, root: str, now: datetime) -> None:
        """One that is requested is due as soon as any."""
        if root in self._flushes:
            self.request_flush(root, now)

    def take_due_flushes(self, now: datetime) -> set[str]:
        """The trees whose flush is due, which are thereby taken care of."""
        due = {root for root, at in self._flushes.items() if at <= now}
        for root in due:
            del self._flushes[root]
        return due

    def flush(self, names: Iterable[str], now: datetime, selected: Callable[[str, str], bool]) -> None:
        """Look again at what is parked in these ClusterQueues, but for namespaces that they do not select."""
        for name in names:
            self._lines[name].flush(now, partial(selected, name))
            self._busy.add(name)

    def end_backoffs(self, now: datetime) -> set[str]:
        """Unpark the workloads whose back-off has just ended; answers their ClusterQueues."""
        woken = set()
        while self._backoffs and self._backoffs[0][0] <= now:
            _, key = heappop(self._backoffs)
            waiting = self._waiting.get(key)
            queue = self._routes.get(waiting.local_queue, "") if waiting else ""
            if waiting and waiting.may_queue(now) and (line := self._lines.get(queue)):
                line.unpark(key)
                woken.add(queue)
        self._busy |= woken
        return woken

    def next_due(self) -> datetime | None:
        """When the next flush or back-off is due."""
        times = [*self._flushes.values(), *(at for at, _ in self._backoffs[:1])]
        return min(times, default=None)

    # --- heads ---

    def busy(self) -> list[str]:
        """The ClusterQueues that have a head, by name."""
        self._busy = {name for name in self._busy if self._lines[name].top() is not None}
        return sorted(self._busy)

    @property
    def lines(self) -> Mapping[str, Line]:
        """The line of each ClusterQueue."""
        return self._lines

    def in_namespace(self, name: str) -> tuple[Waiting, ...]:
        """Who waits in a namespace."""
        return tuple(self._namespaces.get(name, {}).values())

    def of_runtime_class(self, name: str) -> tuple[Waiting, ...]:
        """Who waits with pods that name a RuntimeClass."""
        return tuple(self._runtime_classes.get(name, {}).values())

    def members(self, local_queue: ObjectKey) -> int:
        """How many workloads wait in a LocalQueue."""
        return len(self._members.get(local_queue, ()))
