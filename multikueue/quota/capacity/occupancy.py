"""What a worker's queues have, who uses it, and what was nominated there and has no quota yet: the room for a workload.

The arithmetic is that of our own quota tree over the worker's ClusterQueues and Cohorts. Load that is only assumed counts in
the tree as usage, so what one decision takes is gone for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain

import msgspec

from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue
from multikueue.api.kueue.usage import UsageSpec, UsageStatus
from multikueue.api.kueue.workload import FINISHED, QUOTA_RESERVED, WorkloadSpec, WorkloadStatus
from multikueue.api.meta import ObjectKey, find_condition, is_true
from multikueue.api.values import quantity
from multikueue.quota.cache.reservations import admission_amounts
from multikueue.quota.cache.tree import Amounts, FlavorResource, Forest, Member, Node, fair_weight, quotas
from multikueue.strategy import FlavorRoom, Room, Share

__all__ = ["ASSUMED_FOR", "Occupancy", "TotalRoom", "Use", "use_of"]

ASSUMED_FOR = timedelta(minutes=2)
"""How long load is assumed on a worker where no copy is seen. A copy takes seconds; one that never comes must end, too."""

_ANY, _HIGHEST = -(2**63), 2**62
"""Below and above all priorities: those that may lose to any other, and those that wait and whose priority is unknown."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """One workload on a worker. It has quota of `cluster_queue`, or waits in `local_queue` if that is empty."""

    local_queue: ObjectKey
    priority: int
    cluster_queue: str = ""
    amounts: Amounts = {}


class TotalRoom(msgspec.Struct, frozen=True, gc=False):
    """Of one resource of one flavor, all queues together: their `nominal` quotas, what they have given out, and what is `free`
    of their own quotas, without what others have borrowed of it."""

    nominal: int = 0
    used: int = 0
    free: int = 0


def use_of(key: ObjectKey, spec: WorkloadSpec | UsageSpec, status: WorkloadStatus | UsageStatus) -> Use | None:
    """None for a workload that neither has quota nor waits for any. Raises InvalidObject for an unreadable quantity."""
    if is_true(status.conditions, FINISHED):
        return None
    queue, admission = ObjectKey(key.namespace, spec.queue_name), status.admission
    if admission is None or not is_true(status.conditions, QUOTA_RESERVED):
        return Use(queue, spec.priority) if spec.active else None
    counts = {each.name: each.count for each in spec.pod_sets}
    amounts = admission_amounts(admission, counts, status.reclaimable_pods)
    return Use(queue, spec.priority, admission.cluster_queue, amounts)


class _Queue(msgspec.Struct, frozen=True):
    """A ClusterQueue as far as it counts here; `told` is the usage in its status, `pending` who waits by that."""

    member: Member
    admits: bool
    may_reclaim: str
    may_preempt: bool
    told: Amounts
    pending: int

    @classmethod
    def of(cls, queue: ClusterQueue) -> _Queue:
        """Raises InvalidObject for an unreadable quantity."""
        spec, status = queue.spec, queue.status
        active = find_condition(status.conditions, ACTIVE)
        stopped = spec.stop_policy != "None" or queue.metadata.deletion_timestamp is not None
        return cls(
            Member(spec.cohort_name, quotas(queue.resource_groups_in_force), fair_weight(spec.fair_sharing)),
            admits=not stopped and (active is None or active.status != "False"),
            may_reclaim=spec.preemption.reclaim_within_cohort,
            may_preempt=spec.preemption.within_cluster_queue != "Never",
            told={
                (flavor.name, each.name): quantity.counted(each.name, each.total or "0")
                for flavor in status.flavors_reservation
                for each in flavor.resources
            },
            pending=status.pending_workloads,
        )


class _Load(msgspec.Struct, frozen=True):
    """What a workload of ours will use: by the manager's flavors, and as it is counted in a ClusterQueue there, if it is."""

    local_queue: ObjectKey
    wanted: Amounts
    cluster_queue: str = ""
    amounts: Amounts = {}


class Occupancy:
    """One worker. `name_of` gives the manager's name of a flavor there.

    While `is_whole` all workloads there are seen; otherwise the usage in the status of ClusterQueues counts where it is more,
    none is known to be preemptible, and all who wait count as first.
    """

    def __init__(self, name_of: Callable[[str], str]) -> None:
        self._name_of = name_of
        self._is_whole = False
        self._forest = Forest()
        self._queues: dict[str, _Queue] = {}
        self._routes: dict[ObjectKey, str] = {}
        self._uses: dict[ObjectKey, Use] = {}
        self._held: dict[str, dict[int, dict[FlavorResource, int]]] = {}
        self._waiting: dict[ObjectKey, dict[int, int]] = {}
        self._loads: dict[ObjectKey, _Load] = {}
        self._unseen: dict[ObjectKey, datetime] = {}
        self._rooms: dict[str, Room] = {}
        self._is_stale = True

    # What the worker has.

    @property
    def is_whole(self) -> bool:
        return self._is_whole

    @is_whole.setter
    def is_whole(self, value: bool) -> None:
        if value is not self._is_whole:
            self._is_whole = value
            self._rebuild()

    def names_changed(self) -> None:
        """`name_of` may answer otherwise from now on."""
        self._rebuild()

    def cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        """Raises as `use_of`; then nothing has changed."""
        seen = new or old
        assert seen is not None
        name, made = seen.metadata.name, None if new is None else _Queue.of(new)
        before = self._queues.get(name)
        if made == before:
            return
        if made is None:
            del self._queues[name]
        else:
            self._queues[name] = made
        self._forest.declare_queue(name, None if made is None else made.member)
        if self._forest.stale or not self._is_whole:
            self._rebuild()
        else:
            self._rooms.clear()

    def cohort_changed(self, old: Cohort | None, new: Cohort | None) -> None:
        """Raises as `use_of`; then nothing has changed."""
        seen = new or old
        assert seen is not None
        member = None
        if new is not None:
            spec = new.spec
            member = Member(spec.parent_name, quotas(spec.resource_groups), fair_weight(spec.fair_sharing))
        if self._forest.declare_cohort(seen.metadata.name, member):
            self._rebuild()

    def local_queue_changed(self, old: LocalQueue | None, new: LocalQueue | None) -> None:
        seen = new or old
        assert seen is not None
        route = "" if new is None or new.spec.stop_policy != "None" else new.spec.cluster_queue
        if self._routes.get(seen.key, "") != route:
            self._routes[seen.key] = route
            self._rebuild()

    # Who uses it.

    def see(self, key: ObjectKey, use: Use | None) -> None:
        """A workload there, as it is now; None: it is gone, or needs no quota. Load assumed for it is what is seen, or goes."""
        old = self._uses.get(key)
        if use is not None and not use.cluster_queue:
            self._unseen.pop(key, None)
        elif use is not None or old is not None:
            self.drop(key)
        if use == old:
            return
        if old is not None:
            self._count(old, -1)
            del self._uses[key]
        if use is not None:
            self._count(use, 1)
            self._uses[key] = use

    def _count(self, use: Use, sign: int) -> None:
        self._rooms.clear()
        if not use.cluster_queue:
            waiting = self._waiting.setdefault(use.local_queue, {})
            waiting[use.priority] = waiting.get(use.priority, 0) + sign
            if not waiting[use.priority]:
                del waiting[use.priority]
            return
        held = self._held.setdefault(use.cluster_queue, {}).setdefault(use.priority, {})
        for fr, amount in use.amounts.items():
            held[fr] = held.get(fr, 0) + sign * amount
        if not any(held.values()):
            del self._held[use.cluster_queue][use.priority]
        self._use(use.cluster_queue, use.amounts, sign)

    def _use(self, queue: str, amounts: Amounts, sign: int) -> None:
        self._rooms.clear()
        node = None if self._is_stale else self._forest.queue(queue)
        if not self._is_whole:
            self._is_stale = True  # the ClusterQueues may report more than this
        elif node is not None:
            (node.add if sign > 0 else node.remove)(amounts)

    # What will.

    def assume(self, key: ObjectKey, local_queue: ObjectKey, wanted: Amounts, now: datetime) -> None:
        """A workload of ours is nominated here, and counts as if it had quota: until it has it, until its copy is gone, or
        until `ASSUMED_FOR` is over and no copy was seen. `wanted` is in the manager's flavors."""
        known, seen = self._loads.get(key), self._uses.get(key)
        if (seen is not None and seen.cluster_queue) or (known is not None and known.wanted == wanted):
            return
        self.drop(key)
        self._refresh()
        load = self._placed(_Load(local_queue, wanted))
        self._loads[key] = load
        if seen is None:
            self._unseen[key] = now + ASSUMED_FOR
        self._use(load.cluster_queue, load.amounts, 1)

    def drop(self, key: ObjectKey) -> None:
        """It is nominated here no more."""
        self._unseen.pop(key, None)
        load = self._loads.pop(key, None)
        if load is not None:
            self._use(load.cluster_queue, load.amounts, -1)

    def assumed(self) -> frozenset[ObjectKey]:
        return frozenset(self._loads)

    def _placed(self, load: _Load) -> _Load:
        """In the flavors of the queue it goes to: in the one that is the manager's, else in that with most left."""
        name = self._routes.get(load.local_queue, "")
        node, amounts = self._forest.queue(name), dict[FlavorResource, int]()
        if node is None:
            return _Load(load.local_queue, load.wanted)
        for (flavor, resource), amount in load.wanted.items():
            there = [fr for fr in node.quotas if fr[1] == resource]
            same = [fr for fr in there if self._name_of(fr[0]) == flavor]
            best = max(same or there, key=lambda fr: node.cell(fr).available(), default=None)
            if best is not None:
                amounts[best] = amounts.get(best, 0) + amount
        return _Load(load.local_queue, load.wanted, name, amounts)

    # The room.

    def room(self, local_queue: ObjectKey, now: datetime, asking: ObjectKey) -> Room:
        """For a workload of that LocalQueue, `asking`: what it takes here itself is free for it. Without quotas where the queue
        leads nowhere, as far as is known."""
        while self._unseen and (first := next(iter(self._unseen.items())))[1] <= now:
            self.drop(first[0])
        name = self._routes.get(local_queue, "")
        load, use = self._loads.pop(asking, None), self._uses.get(asking)
        if load is None and use is None:
            return self._known_room(name)
        if load is not None:
            self._use(load.cluster_queue, load.amounts, -1)
        if use is not None:
            self._count(use, -1)
        found = self._known_room(name)
        if use is not None:
            self._count(use, 1)
        if load is not None:
            self._loads[asking] = load = self._placed(load)
            self._use(load.cluster_queue, load.amounts, 1)
        return found

    def total(self) -> dict[FlavorResource, TotalRoom]:
        """Of all queues that some LocalQueue leads to, by flavor, under its name in `room`, and resource."""
        found: dict[FlavorResource, TotalRoom] = {}
        left_of_trees: dict[tuple[bool, str, FlavorResource], int] = {}
        for name in sorted({*self._routes.values()}):
            rooms, node = self._known_room(name).quotas, self._forest.queue(name)
            if node is None:
                continue
            *_, root = node, *node.ancestors()
            for fr, room in zip(node.quotas, rooms, strict=True):
                before = found.get((room.flavor, room.resource), TotalRoom())
                own = max(0, min(room.nominal - room.lent - (room.used - room.borrowed), room.free))
                # Each queue of a tree could take back what others borrow, but not all of them the same.
                tree = (root.is_queue, root.name, fr)
                left = left_of_trees.get(tree, root.available(fr))
                own = min(own, left)
                left_of_trees[tree] = left - own
                found[room.flavor, room.resource] = TotalRoom(
                    before.nominal + room.nominal, before.used + room.used, before.free + own
                )
        return found

    def _known_room(self, name: str) -> Room:
        known = self._rooms.get(name)
        if known is None:
            self._refresh()
            queue, node = self._queues.get(name), self._forest.queue(name)
            known = Room() if queue is None or node is None else self._room(name, queue, node)
            self._rooms[name] = known
        return known

    def _room(self, name: str, queue: _Queue, node: Node) -> Room:
        return Room(
            quotas=tuple(self._flavor_room(name, queue, node, fr) for fr in node.quotas),
            waiting=self._who_waits(name, queue),
        )

    def _who_waits(self, name: str, queue: _Queue) -> tuple[Share, ...]:
        if not self._is_whole:
            return ((_HIGHEST, queue.pending),) if queue.pending else ()
        total: dict[int, int] = {}
        for local_queue, waiting in self._waiting.items():
            if self._routes.get(local_queue) == name:
                for priority, number in waiting.items():
                    total[priority] = total.get(priority, 0) + number
        return tuple(sorted(total.items()))

    def _flavor_room(self, name: str, queue: _Queue, node: Node, fr: FlavorResource) -> FlavorRoom:
        cell, nominal = node.cell(fr), node.quotas[fr].nominal
        free = cell.available() if queue.admits else min(0, cell.available())
        own = max(0, nominal - cell.usage)
        return FlavorRoom(
            flavor=self._name_of(fr[0]),
            resource=fr[1],
            nominal=nominal,
            used=cell.usage,
            borrowed=max(0, cell.usage - nominal),
            lent=max(0, own - max(0, cell.available())),
            most=cell.potential() if queue.admits else 0,
            free=free,
            reclaimable=tuple(self._reclaimable(queue, node, fr, own - max(0, free))),
            preemptible=tuple(_shares(self._held.get(name, {}), fr)) if queue.may_preempt and self._is_whole else (),
        )

    def _reclaimable(self, queue: _Queue, node: Node, fr: FlavorResource, most: int) -> Iterator[Share]:
        """Of what the other queues of its tree borrow, up to `most`: from any of them, or from the lower ones first."""
        if most <= 0 or not queue.admits or not self._is_whole or queue.may_reclaim == "Never":
            return
        lower: dict[int, int] = {}
        *_, root = node, *node.ancestors()
        for other in _queues_below(root):
            cell = other.cells.get(fr)
            borrowed = 0 if other is node or cell is None else max(0, cell.usage - cell.subtree)
            for priority, amount in _shares(self._held.get(other.name, {}), fr) if borrowed else ():
                part = min(amount, borrowed)
                borrowed -= part
                place = _ANY if queue.may_reclaim == "Any" else priority
                lower[place] = lower.get(place, 0) + part
        for priority, amount in sorted(lower.items()):
            part = min(amount, most)
            most -= part
            if part:
                yield priority, part

    # The tree.

    def _rebuild(self) -> None:
        self._is_stale = True
        self._rooms.clear()

    def _refresh(self) -> None:
        """Builds the tree again, with all that uses it, if what it has or who is counted may be another."""
        if not self._is_stale:
            return
        usages: dict[str, dict[FlavorResource, int]] = {}
        for name, queue in self._queues.items():
            used = usages[name] = {}
            for fr, amount in chain.from_iterable(each.items() for each in self._held.get(name, {}).values()):
                used[fr] = used.get(fr, 0) + amount
            for fr, amount in () if self._is_whole else queue.told.items():
                used[fr] = max(used.get(fr, 0), amount)
        self._forest.build(usages)
        for key, load in self._loads.items():
            self._loads[key] = placed = self._placed(load)
            if (node := self._forest.queue(placed.cluster_queue)) is not None:
                node.add(placed.amounts)
        self._is_stale = False


def _shares(held: Mapping[int, Amounts], fr: FlavorResource) -> Iterator[Share]:
    return ((priority, amount) for priority in sorted(held) if (amount := held[priority].get(fr, 0)))


def _queues_below(node: Node) -> Iterator[Node]:
    if node.is_queue:
        yield node
    for child in node.children:
        yield from _queues_below(child)
