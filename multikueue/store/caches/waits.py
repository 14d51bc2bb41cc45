"""How long jobs waited for quota on each worker, from the copies there, for strategies that read it.

Nothing is written for it. Who starts again learns from the copies that workers still have, for a copy says when it was made and
when it got quota: those that run, and those that `retention.copies` keeps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from multikueue import strategy as contract
from multikueue.api.kueue.workload import EVICTED, QUOTA_RESERVED, Workload, granted, queue_of
from multikueue.quota.capacity.waits import Like, WaitTimes, size_of
from multikueue.store.caches.cache import Cache

__all__ = ["WorkerWaits", "like"]


class HasCopies(Protocol):
    """A worker with our copies of workloads on it."""

    @property
    def workloads(self) -> Cache[Workload]: ...


class WorkerWaits:
    """Owner: the store. `workers` have our copies by worker; `local` are the workloads of the manager cluster, by whose
    requests sizes are known."""

    def __init__(self, workers: Mapping[str, HasCopies], local: Cache[Workload], now: Callable[[], datetime]) -> None:
        self._workers, self._local, self._now = workers, local, now
        self._times: dict[str, WaitTimes] = {}
        self._shown: dict[str, tuple[contract.Worker, contract.Waits, contract.Worker]] = {}

    def shown(self, fleet: contract.Fleet, local: Workload) -> contract.Fleet:
        """The fleet with how long jobs like a workload waited on its workers."""
        now, asked = self._now(), like(local)
        workers = tuple([self._with_waits(each, asked, now) for each in fleet.workers])
        return dataclasses.replace(fleet, workers=workers)

    def forget_worker(self, name: str) -> None:
        self._times.pop(name, None)
        self._shown.pop(name, None)

    def _with_waits(self, worker: contract.Worker, asked: Like, now: datetime) -> contract.Worker:
        times = self._times.get(worker.name) or self._learn(worker.name)
        if times is None:
            return worker
        waits, known = times.waits(asked, now), self._shown.get(worker.name)
        if known is not None and known[0] is worker and known[1] is waits:
            return known[2]
        made = dataclasses.replace(worker, waits=waits)
        self._shown[worker.name] = worker, waits, made
        return made

    def _learn(self, name: str) -> WaitTimes | None:
        """From now on, and from the copies that are there."""
        worker = self._workers.get(name)
        if worker is None:
            return None
        times = self._times[name] = WaitTimes()

        def changed(old: Workload | None, new: Workload | None) -> None:
            if self._times.get(name) is times:
                self._see(times, old, new)

        for copy in worker.workloads:
            changed(None, copy)
        worker.workloads.observe(changed)
        return times

    def _see(self, times: WaitTimes, old: Workload | None, new: Workload | None) -> None:
        now = self._now()
        if new is None:
            assert old is not None
            times.goes(old.key, now)
            return
        local = self._local.get(new.key)
        if local is None:
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            times.goes(old.key, now)
        reserved, evicted = new.condition(QUOTA_RESERVED), new.condition(EVICTED)
        if evicted is not None and evicted.status == "True":
            if old is None or not old.has(EVICTED):
                times.loses(new.key, now)
        elif reserved is not None and reserved.status == "True":
            made, got = new.metadata.creation_timestamp, reserved.last_transition_time
            if made is not None and got is not None:  # both of the worker's clock
                times.gets(new.key, like(local), got - made, now)
        else:
            times.begins(new.key, like(local), now)


def like(local: Workload) -> Like:
    """What a workload with quota has in common with others that wait as long."""
    return Like(queue_of(local), size_of(granted(local)))
