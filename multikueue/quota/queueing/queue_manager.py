"""Kueue's queue manager: pending workloads in the queues of their ClusterQueues (quota-engine 2)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from multikueue.api.kueue.workload import Workload, WorkloadSpec
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.cache import QuotaCache
from multikueue.quota.queueing.admission_fair_sharing import AdmissionFairSharingQueue
from multikueue.quota.queueing.pending_queue import PendingQueue
from multikueue.quota.queueing.pending_workload import PendingWorkload, Reason
from multikueue.quota.queueing.requeueing import Requeueing
from multikueue.quota.requests.amounts import AS_IT_IS, Accounting, Demand
from multikueue.quota.requests.devices import NO_CLASS, DeviceRules
from multikueue.quota.requests.limits import Counting
from multikueue.quota.workload.ordering import queue_rank
from multikueue.quota.workload.outcome import Verdict

AnyPendingQueue = PendingQueue | AdmissionFairSharingQueue

OUTDATED_AT_A_TIME = 500
"""The number of demands computed again before other tasks get a turn of the event loop: some 20 ms."""

MOVED_AT_A_TIME = 500
"""The number of workloads moved to another queue before other tasks get a turn of the event loop: some 5 ms."""


@dataclass(slots=True)
class _Move:
    """Workloads of a LocalQueue that are still in the queue of the ClusterQueue `before`."""

    before: str
    left: dict[ObjectKey, None]


class QueueManager:
    """Owned by the engine; changed by its event handlers and by the scheduler.

    Each pending workload is a member of its LocalQueue, known or not. It is in the queue of a ClusterQueue only while
    there is a route: the LocalQueue exists and is active, and its ClusterQueue exists. When the route changes, many
    workloads move in batches, and both queues have no head until all have moved. The cache learns which trees are
    worth another look; `requeueing` says when inadmissible workloads get one.
    """

    def __init__(self, cache: QuotaCache, accounting: Accounting = AS_IT_IS, devices: DeviceRules = NO_CLASS) -> None:
        self._cache = cache
        self.counting = Counting(accounting, devices)
        self._lines: dict[str, AnyPendingQueue] = {}
        self._routes: dict[ObjectKey, str] = {}
        self._members: dict[ObjectKey, dict[ObjectKey, PendingWorkload]] = {}
        self._waiting: dict[ObjectKey, PendingWorkload] = {}
        self.get = self._waiting.get
        """The pending workload of that key, if there is one."""
        self._namespaces: dict[str, dict[ObjectKey, PendingWorkload]] = {}
        self._named: dict[ObjectKey | str, dict[ObjectKey, PendingWorkload]] = {}
        self._recounted: list[ObjectKey] = []
        self.outdated: dict[ObjectKey, None] = {}
        """Workloads whose demand may differ since something changed that it depends on, in order."""
        self._moves: dict[ObjectKey, _Move] = {}
        self._busy: set[str] = set()
        self.requeueing = Requeueing(cache, self._lines, self._routes, self._waiting, self._busy)

    # --- queues ---

    def set_queue(self, name: str, *, is_strict: bool, now: datetime) -> None:
        """A ClusterQueue exists; `is_strict`: with the queueing strategy StrictFIFO."""
        line, history = self._lines.get(name), self._cache.history
        usage = history.usage if history is not None and self._cache.is_usage_based(name) else None
        if line is not None and isinstance(line, AdmissionFairSharingQueue) == (usage is not None):
            line.is_strict = is_strict
            return
        self._lines[name] = (
            PendingQueue(is_strict=is_strict)
            if usage is None
            else AdmissionFairSharingQueue(usage, is_strict=is_strict)
        )
        for local_queue, queue in self._routes.items():
            if queue == name:
                self._finish(local_queue, now)
                self._begin(local_queue, "", now)

    def remove_queue(self, name: str) -> None:
        self._lines.pop(name, None)
        self._busy.discard(name)

    def set_route(self, local_queue: ObjectKey, queue: str | None, now: datetime) -> None:
        """Set the ClusterQueue that a LocalQueue leads to; None: the LocalQueue is stopped or gone."""
        self._cache.budgets.routes_changed()
        old = self._routes.get(local_queue)
        if old == queue:
            return
        is_hasty = local_queue in self._moves
        self._finish(local_queue, now)
        if queue is None:
            del self._routes[local_queue]
        else:
            self._routes[local_queue] = queue
        self._begin(local_queue, old or "", now)
        if is_hasty:  # changes without a pause must not leave its queues without a head
            self._finish(local_queue, now)
        self._cache.settled.clear()

    def _begin(self, local_queue: ObjectKey, before: str, now: datetime) -> None:
        """Start to move its members to the queue that it leads to now. A few move at once."""
        members = self._members.get(local_queue, {})
        self._moves[local_queue] = _Move(before, dict.fromkeys(members))
        if len(members) <= MOVED_AT_A_TIME:
            self._finish(local_queue, now)

    @property
    def is_moving(self) -> bool:
        return bool(self._moves)

    def move_some(self, now: datetime) -> None:
        """Move a batch of workloads, so that no turn of the event loop grows with their number."""
        for local_queue in tuple(islice(self._moves, 1)):
            self._move(local_queue, MOVED_AT_A_TIME, now)

    def _finish(self, local_queue: ObjectKey, now: datetime) -> None:
        if local_queue in self._moves:
            self._move(local_queue, len(self._moves[local_queue].left), now)

    def _move(self, local_queue: ObjectKey, count: int, now: datetime) -> None:
        move = self._moves[local_queue]
        for key in tuple(islice(move.left, count)):
            self._move_one(self._waiting[key], now)
        if not move.left:
            del self._moves[local_queue]
            self._cache.settled.clear()

    def _move_one(self, waiting: PendingWorkload, now: datetime) -> None:
        if line := self._line_of(waiting):
            line.remove(waiting.key)
        self._moves[waiting.local_queue].left.pop(waiting.key, None)
        self._push(waiting, now)
        if (waiting.was_stopped or waiting.may_queue(now)) and (line := self._line_of(waiting)):
            line.activate(waiting.key)

    def _line_of(self, waiting: PendingWorkload) -> AnyPendingQueue | None:
        """The queue that the workload is in, if any."""
        local_queue = waiting.local_queue
        name = self._moves[local_queue].before if self._is_to_move(waiting) else self._routes.get(local_queue)
        return self._lines.get(name) if name is not None else None

    def _is_to_move(self, waiting: PendingWorkload) -> bool:
        move = self._moves.get(waiting.local_queue)
        return move is not None and waiting.key in move.left

    # --- demands ---

    def waiting_of(self, workload: Workload, spec: WorkloadSpec) -> PendingWorkload:
        """The pending workload of an object. Raises InvalidObject if a quantity cannot be parsed."""
        rank = queue_rank(workload, spec.priority, should_keep_place=self._cache.should_keep_place)
        asked, old = self._demand(workload, spec), self._cache.replaced_by(workload)
        return PendingWorkload(workload, spec, asked, rank, replaces=old)

    def _demand(self, workload: Workload, spec: WorkloadSpec) -> Demand:
        reclaimed = workload.status.reclaimable_pods
        known = None if workload.key in self.outdated else self._waiting.get(workload.key)
        if known and known.spec is spec and known.workload.status.reclaimable_pods == reclaimed:
            return known.demand
        return self.counting.demand(workload, spec)

    def namespace_changed(self, namespace: str) -> None:
        """The demand of pending workloads in that namespace may differ now."""
        self.outdated.update(dict.fromkeys(self._namespaces.get(namespace, ())))

    def named_changed(self, names: Iterable[ObjectKey | str]) -> None:
        """The demand of pending workloads whose pods name these may differ now."""
        for name in names:
            self.outdated.update(dict.fromkeys(self._named.get(name, ())))

    def update_outdated(self, now: datetime) -> None:
        """Compute a batch of demands again, so that no turn of the event loop grows with their number."""
        for key in tuple(islice(self.outdated, OUTDATED_AT_A_TIME)):
            self._ask_again(key, now)

    def take_recounted(self) -> list[ObjectKey]:
        """The keys of those that queue since the last call, or do not any more, as their devices were counted again."""
        taken, self._recounted = self._recounted, []
        return taken

    def _ask_again(self, key: ObjectKey, now: datetime) -> None:
        old = self._waiting[key]
        new = self.waiting_of(old.workload, old.spec)
        del self.outdated[key]
        if new.demand != old.demand:
            self.leave(key)
            self.add_or_update(new, now)
        if new.uncounted != old.uncounted:
            self._recounted.append(key)

    # --- workloads ---

    def add_or_update(self, waiting: PendingWorkload, now: datetime) -> None:
        """Add a pending workload, or update it, as last seen."""
        old = self._waiting.get(waiting.key)
        if old is not None:
            waiting.verdict = self.verdict(old)
            if old.local_queue != waiting.local_queue:
                self.leave(waiting.key)  # the workload behind it there may be the head now
            elif self._is_to_move(old):
                self._move_one(old, now)
        self._join(waiting)
        self.outdated.pop(waiting.key, None)
        if self._push(waiting, now):
            self.unsettle(waiting)

    def leave(self, key: ObjectKey) -> None:
        """The workload is no longer pending."""
        if (waiting := self._waiting.get(key)) is not None:
            self.remove(key)
            self.unsettle(waiting)

    def unsettle(self, waiting: PendingWorkload) -> None:
        """The queue that the workload is in has changed."""
        if (queue := self._cache.catalog.place(waiting.local_queue)) is not None:
            self._cache.unsettle(queue)

    def give_back(self, waiting: PendingWorkload, reason: Reason, now: datetime) -> None:
        """Put a head back after a cycle."""
        self._join(waiting)
        queue = self._routes.get(waiting.local_queue, "")
        if line := self._lines.get(queue):
            line.give_back(waiting, reason, now)
            self._busy.add(queue)
            self.requeueing.remember_backoff(waiting, now)

    def verdict(self, waiting: PendingWorkload) -> Verdict | None:
        """The last verdict of the workload."""
        line = self._line_of(waiting)
        return waiting.verdict if line is None else line.verdict(waiting)

    def remove(self, key: ObjectKey) -> None:
        """Remove a workload that gets quota."""
        waiting = self._waiting.pop(key, None)
        self.outdated.pop(key, None)
        if waiting is None:
            return
        self._part(waiting)
        if line := self._line_of(waiting):
            line.remove(key)
        if move := self._moves.get(waiting.local_queue):
            move.left.pop(key, None)

    def _join(self, waiting: PendingWorkload) -> None:
        old = self._waiting.get(waiting.key)
        if old is not None:
            self._part(old)
        self._waiting[waiting.key] = waiting
        for groups, name in self._groups_of(waiting):
            groups.setdefault(name, {})[waiting.key] = waiting

    def _part(self, waiting: PendingWorkload) -> None:
        for groups, name in self._groups_of(waiting):
            del groups[name][waiting.key]
            if not groups[name]:
                del groups[name]

    def _groups_of(
        self, waiting: PendingWorkload
    ) -> Iterator[tuple[dict[Any, dict[ObjectKey, PendingWorkload]], Hashable]]:
        """The indexes that have the workload, each with the name it is under."""
        yield self._members, waiting.local_queue
        yield self._namespaces, waiting.key.namespace
        for name in waiting.demand.names:
            yield self._named, name

    def _push(self, waiting: PendingWorkload, now: datetime) -> bool:
        queue = self._routes.get(waiting.local_queue, "")
        line = self._lines.get(queue)
        if line is None:
            return False
        self._busy.add(queue)
        if waiting.uncounted:
            line.remove(waiting.key)
            return False
        self.requeueing.remember_backoff(waiting, now)
        return line.push_or_update(waiting, now)

    # --- heads ---

    def pop(self, queue: str, now: datetime) -> PendingWorkload | None:
        """Take the head of a ClusterQueue, with an up-to-date demand."""
        line = self._lines[queue]
        while (head := line.top()) is not None and head.key in self.outdated:
            self._ask_again(head.key, now)
        return line.pop()

    def busy(self) -> list[str]:
        """The names of the ClusterQueues with a head, sorted; without those that workloads still move from or to."""
        if not self._busy:
            return []
        self._busy -= {name for name in self._busy if self._lines[name].top() is None}
        moving = {name for key, move in self._moves.items() for name in (move.before, self._routes.get(key))}
        return sorted(self._busy - moving)

    @property
    def lines(self) -> Mapping[str, AnyPendingQueue]:
        """The queue of each ClusterQueue."""
        return self._lines

    def members(self, local_queue: ObjectKey) -> int:
        """How many workloads wait in a LocalQueue."""
        return len(self._members.get(local_queue, ()))
