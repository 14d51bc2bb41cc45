"""What each worker has room for, from its own queues and workloads, for strategies that read it.

Nothing is kept, and nothing watched, before the first of them asks. Then the connection of each worker fills the caches here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from multikueue import strategy as contract
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor
from multikueue.api.kueue.usage import WorkloadUsage
from multikueue.api.kueue.workload import Admission, Workload, queue_of, workload_spec
from multikueue.api.meta import ObjectKey
from multikueue.quota.cache.reservations import admission_amounts
from multikueue.quota.cache.tree import FlavorResource
from multikueue.quota.capacity.occupancy import Occupancy, TotalRoom, use_of
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.on_demand import OnDemand

__all__ = ["Rooms", "WorkerRoom"]

Flavors = Mapping[str, str]
"""The manager's flavors by those of workers, as `flavor` or `cluster/flavor` (setting `capacity_follow.flavors`)."""

WORKLOADS = "workloads"

NEEDED = frozenset(("clusterqueues", "localqueues"))
"""Of what is watched, by plural: without these nothing is known."""

UNREAD = "its queues were not read yet"


class WorkerRoom:
    """One worker. Its connection fills the caches and says by `report` how its watches are; `copies` are ours there."""

    def __init__(self, name: str, copies: Cache[Workload], manager: Cache[ResourceFlavor], flavors: Flavors) -> None:
        self.name, self._copies, self._manager, self._flavors = name, copies, manager, flavors
        self._names: dict[str, str] = {}
        self.occupancy = Occupancy(self._name_of)
        self.cluster_queues: Cache[ClusterQueue] = Cache(self.occupancy.cluster_queue_changed)
        self.local_queues: Cache[LocalQueue] = Cache(self.occupancy.local_queue_changed)
        self.cohorts: Cache[Cohort] = Cache(self.occupancy.cohort_changed)
        self.flavors: Cache[ResourceFlavor] = Cache(self._flavor_changed)
        self.workloads: Cache[WorkloadUsage] = Cache(self._other_changed)
        self._troubles: dict[tuple[str, str], str] = {}
        self._is_read: set[tuple[str, str]] = set()
        self._parts: frozenset[tuple[str, str]] = frozenset()
        self._shown: dict[ObjectKey, tuple[contract.Room, str, contract.Room]] = {}
        for copy in copies:
            self._copy_changed(None, copy)
        copies.observe(self._copy_changed)

    # How it is watched.

    def begin(self, parts: Iterable[tuple[str, str]]) -> None:
        """These are watched from now on: plurals, and namespaces (empty: all)."""
        self._parts = frozenset(parts)
        self._troubles = {part: why for part, why in self._troubles.items() if part in self._parts}
        self._is_read &= self._parts
        self._judge()

    def end(self) -> None:
        """Nothing is watched until the worker is connected again."""
        self._troubles |= dict.fromkeys(self._is_read, "not connected")

    def report(self, plural: str, namespace: str, why: str, *, is_refused: bool = False) -> None:
        """One watch stands, or does not, for the reason `why`. What was refused is not known at all."""
        part = (plural, namespace)
        if why:
            self._troubles[part] = why
        else:
            self._troubles.pop(part, None)
            self._is_read.add(part)
        if is_refused:
            self._is_read.discard(part)
        self._judge()

    def _judge(self) -> None:
        workloads = {part for part in self._parts if part[0] == WORKLOADS}
        self.occupancy.is_whole = workloads == {(WORKLOADS, "")} and workloads <= self._is_read

    @property
    def doubt(self) -> str:
        """Why what is known may be less than there is, or out of date; empty: it is neither."""
        unread = {plural for plural, _ in self._parts - self._is_read}
        if not self._parts or unread & NEEDED:
            return UNREAD
        stale = {plural for plural, _ in self._troubles} - unread
        if unread or not self.occupancy.is_whole:
            some = sorted(unread | ({WORKLOADS} if not self.occupancy.is_whole else set()))
            return f"not all of its {' and '.join(some)} may be read"
        return f"its {' and '.join(sorted(stale))} are not watched just now" if stale else ""

    # What it has.

    def room(self, local_queue: ObjectKey, now: datetime, asking: ObjectKey) -> contract.Room:
        """Equal rooms are one value, so that who asks can tell by identity that nothing is new."""
        found, doubt = self.occupancy.room(local_queue, now, asking), self.doubt
        known = self._shown.get(local_queue)
        if known is not None and known[0] is found and known[1] == doubt:
            return known[2]
        made = contract.Room(doubt=doubt) if doubt == UNREAD else dataclasses.replace(found, doubt=doubt)
        self._shown[local_queue] = found, doubt, made
        return made

    def total(self) -> Mapping[FlavorResource, TotalRoom]:
        """Of all its queues that jobs may come to; nothing before they were read."""
        return {} if self.doubt == UNREAD else self.occupancy.total()

    def flavors_changed(self, flavors: Flavors) -> None:
        """Those of the manager, or the setting that maps to them."""
        self._flavors = flavors
        self._names.clear()
        self.occupancy.names_changed()

    def _name_of(self, flavor: str) -> str:
        known = self._names.get(flavor)
        if known is None:
            known = self._names[flavor] = self._found(flavor)
        return known

    def _found(self, flavor: str) -> str:
        """As configured, else the same name, else the only one of the manager with the same labels of nodes; else its own."""
        said = self._flavors.get(f"{self.name}/{flavor}", self._flavors.get(flavor))
        if said is not None or self._manager.get(ObjectKey("", flavor)) is not None:
            return said or flavor
        own = self.flavors.get(ObjectKey("", flavor))
        labels = own.spec.node_labels if own is not None else {}
        alike = [each.metadata.name for each in self._manager if each.spec.node_labels == labels] if labels else []
        return alike[0] if len(alike) == 1 else flavor

    def _flavor_changed(self, old: ResourceFlavor | None, new: ResourceFlavor | None) -> None:
        if old is None or new is None or old.spec.node_labels != new.spec.node_labels:
            self.flavors_changed(self._flavors)

    def _copy_changed(self, old: Workload | None, new: Workload | None) -> None:
        seen = new or old
        assert seen is not None
        use = None if new is None else use_of(new.key, workload_spec(new), new.status)
        self.occupancy.see(seen.key, use)

    def _other_changed(self, old: WorkloadUsage | None, new: WorkloadUsage | None) -> None:
        seen = new or old
        assert seen is not None
        self.occupancy.see(seen.key, None if new is None else use_of(new.key, new.spec, new.status))


class Rooms:
    """Owner: the store. `copies` gives the cache of our copies on a worker; `flavors` are those of the manager cluster."""

    def __init__(
        self, copies: Callable[[str], Cache[Workload]], flavors: Cache[ResourceFlavor], now: Callable[[], datetime]
    ) -> None:
        self._copies, self._manager, self._now = copies, flavors, now
        self._flavors: Flavors = {}
        self._workers: dict[str, WorkerRoom] = {}
        self._assumed: dict[ObjectKey, tuple[str, ...]] = {}
        self._shown: dict[str, tuple[contract.Worker, contract.Room, contract.Worker]] = {}
        self._observers: list[Callable[[WorkerRoom], None]] = []
        self.wanted = OnDemand()

    # Who needs it.

    def need(self, flavors: Flavors) -> None:
        """A strategy reads it, with this mapping of flavors. From now on the workers are watched."""
        if flavors is not self._flavors:
            self._flavors = flavors
            self._flavors_changed()
        if self.wanted.want():
            self._manager.observe(lambda _old, _new: self._flavors_changed())

    def _flavors_changed(self) -> None:
        for worker in self._workers.values():
            worker.flavors_changed(self._flavors)

    # Workers.

    def worker(self, name: str) -> WorkerRoom:
        """Made when its connection begins to watch it; it stays, as its copies do, while the worker is away."""
        found = self._workers.get(name)
        if found is None:
            found = self._workers[name] = WorkerRoom(name, self._copies(name), self._manager, self._flavors)
            for met in self._observers:
                met(found)
        return found

    def known(self) -> Iterable[WorkerRoom]:
        """Those of workers that are, or were, watched."""
        return self._workers.values()

    def observe(self, met: Callable[[WorkerRoom], None]) -> None:
        """Calls `met` with the room of each worker when it is made."""
        self._observers.append(met)

    def forget_worker(self, name: str) -> None:
        self.wanted.forget_worker(name)
        for known in (self._workers, self._shown):
            known.pop(name, None)

    def shown(self, fleet: contract.Fleet, local: Workload, flavors: Flavors) -> contract.Fleet:
        """The fleet with the rooms of its workers for a workload. They are needed from now on, with that mapping of flavors."""
        self.need(flavors)
        now = self._now()
        workers = tuple([self._with_room(each, local, now) for each in fleet.workers])
        return dataclasses.replace(fleet, workers=workers)

    def _with_room(self, worker: contract.Worker, local: Workload, now: datetime) -> contract.Worker:
        own = self._workers.get(worker.name)
        if own is None:
            return worker
        room = own.room(queue_of(local), now, local.key)
        known = self._shown.get(worker.name)
        if known is not None and known[0] is worker and known[1] is room:
            return known[2]
        made = dataclasses.replace(worker, room=room)
        self._shown[worker.name] = worker, room, made
        return made

    # Load that is not seen yet.

    def assume(self, local: Workload, clusters: Iterable[str]) -> None:
        """A workload with quota is nominated on these workers and on no others. What it will use counts as used from this
        moment on: the next question may come before the next event."""
        key, after = local.key, tuple([name for name in clusters if name in self._workers])
        self._drop(key, set(self._assumed.get(key, ())).difference(after))
        if not after:
            return
        counts, now = {each.name: each.count for each in workload_spec(local).pod_sets}, self._now()
        wanted = admission_amounts(local.status.admission or Admission(), counts)
        self._assumed[key] = after
        for name in after:
            self._workers[name].occupancy.assume(key, queue_of(local), wanted, now)

    def release(self, key: ObjectKey) -> None:
        """A workload is nominated nowhere any more."""
        self._drop(key, self._assumed.get(key, ()))

    def _drop(self, key: ObjectKey, clusters: Iterable[str]) -> None:
        for name in clusters:
            if name in self._workers:
                self._workers[name].occupancy.drop(key)
        self._assumed.pop(key, None)
