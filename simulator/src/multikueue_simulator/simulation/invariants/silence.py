"""Nothing waits in silence: what only a manager can bring forward, and does not, is said on the object within a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kueue.workload import ADMITTED, EVICTED, FINISHED, QUEUE_LABEL, QUOTA_RESERVED
from multikueue.api.meta import ObjectKey
from multikueue.store.refusals import LASTING
from multikueue.workload.handlers.evicting import HELD_UP_AFTER
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.simulation.plan.plan import Plan
from multikueue_simulator.time import EPOCH
from multikueue_simulator.world.objects import CHECK
from multikueue_simulator.world.world import MANAGER, NAMESPACE, World

__all__ = ["Silence"]

TRY = 25.0
"""Seconds until a call that fails is made once more, and its event is there."""


class Wait(NamedTuple):
    """What the object waits for, and how many seconds it may without a word; the workers of which it depends."""

    what: str
    seconds: float
    workers: tuple[str, ...] = ()


@dataclass(slots=True)
class Silence:
    """Owner of the times since when objects wait. A wait is judged while the manager cluster answers and the workers that it
    is about do, but for one thing."""

    world: World
    plan: Plan
    injector: FaultInjector
    broken: Callable[[str, float, str], None]
    _since: dict[tuple[str, str], float] = field(default_factory=dict)
    _said: dict[tuple[str, str], float] = field(default_factory=dict)
    """When the check last had a message: a manager that goes on takes it back, and what follows takes its time again."""

    def look(self, now: float, led_since: float) -> None:
        """Check all jobs and workloads. `led_since`: since when the same managers act."""
        waits = {(body["metadata"]["uid"], wait.what): (body, wait) for body, wait in self._waits()}
        self._since = {known: since for known, since in self._since.items() if known in waits}
        self._said = {known: said for known, said in self._said.items() if known in waits}
        for known, (body, wait) in waits.items():
            if _has_message(body):
                self._said[known] = now
            since = max(self._since.setdefault(known, now), led_since, self._said.get(known, 0.0))
            if now - since > wait.seconds and self._answer(wait, since, now) and not self._is_said(body, since):
                name = f"{body['kind']} {body['metadata']['name']}"
                self.broken("said", now, f"{name} waits for {now - since:.0f} s in silence: {wait.what}")

    def _answer(self, wait: Wait, since: float, now: float) -> bool:
        hosts = (MANAGER, *wait.workers)
        return not any(self.injector.faults.between(host, since - TRY, now, partial=False) for host in hosts)

    def _is_said(self, body: Object, since: float) -> bool:
        """Whether the check has a message, or there is a warning about it, its owner or what it owns."""
        if _has_message(body):
            return True
        uid = body["metadata"]["uid"]
        mine = {uid, seen.owner_uid(body)} | {
            w["metadata"]["uid"] for w in self._workloads() if seen.owner_uid(w) == uid
        }
        return any(
            event["involvedObject"]["uid"] in mine
            and event["type"] == "Warning"
            and _last(event) >= since - LASTING.seconds
            for event in self.world.manager.all(kinds.EVENTS, NAMESPACE)
        )

    def _waits(self) -> Iterator[tuple[Object, Wait]]:
        workloads = self._workloads()
        owned = {seen.owner_uid(workload) for workload in workloads}
        for job in self.world.manager.all(kinds.JOBS, NAMESPACE):
            is_new = job["metadata"]["uid"] not in owned and QUEUE_LABEL in seen.labels(job)
            if is_new and not seen.result(job) and not seen.is_leaving(job):
                yield job, Wait("it has no workload", LASTING.seconds + TRY)
        for workload in workloads:
            wait = None if seen.is_true(workload, FINISHED) else self._wait(workload)
            if wait is not None:
                yield workload, wait

    def _wait(self, workload: Object) -> Wait | None:
        if not seen.is_true(workload, QUOTA_RESERVED):
            return None
        copies = {name: copy for name in self.world.workers if (copy := self._copy(name, workload)) is not None}
        if seen.is_leaving(workload) or seen.is_true(workload, EVICTED) or not seen.is_active(workload):
            return Wait("its job has to stop", HELD_UP_AFTER.seconds + TRY)
        state = next(
            (check["state"] for check in workload["status"].get("admissionChecks") or () if check["name"] == CHECK), ""
        )
        # A win counts for as long as the workload is admitted, though its check was taken out of the queue since.
        if state == "Ready" or (workload["status"].get("clusterName") and seen.is_true(workload, ADMITTED)):
            return self._result(workload)
        if self.plan.layout.home and not state and seen.is_true(workload, ADMITTED):
            return self._result_here(workload)
        won = tuple(
            name for name, copy in copies.items() if seen.is_true(copy, ADMITTED) and not seen.is_true(copy, EVICTED)
        )
        if won:
            return Wait(f"{', '.join(won)} admitted it", LASTING.seconds + TRY, won)
        if not copies:
            return Wait("no worker has a copy", LASTING.seconds + TRY, tuple(self.world.workers))
        return None

    def _result(self, workload: Object) -> Wait | None:
        """The job of a Ready workload has ended on its worker, and the local one has not."""
        winner = self.injector.host_of(workload["status"].get("clusterName") or "")
        key = ObjectKey(NAMESPACE, seen.owner(workload))
        if winner not in self.world.workers:
            return None
        job = self.world.workers[winner].site.stored(kinds.JOBS, key)
        if job is None or not seen.is_ours(job) or not seen.result(job):
            return None
        return Wait("its job has ended", LASTING.seconds + TRY, (winner,))

    def _result_here(self, workload: Object) -> Wait | None:
        """What runs on the manager cluster has ended there."""
        job = self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, seen.owner(workload)))
        return Wait("its job has ended", LASTING.seconds + TRY) if job is not None and seen.result(job) else None

    def _copy(self, worker: str, workload: Object) -> Object | None:
        """The copy of the present attempt."""
        copy = self.world.workers[worker].site.stored(kinds.WORKLOADS, seen.key(workload))
        reserved = seen.condition(workload, QUOTA_RESERVED) or {}
        mark = f"{reserved.get('lastTransitionTime')}/{workload['metadata']['uid']}"
        return copy if copy is not None and seen.is_ours(copy) and seen.attempt(copy) == mark else None

    def _workloads(self) -> list[Object]:
        return self.world.manager.all(kinds.WORKLOADS, NAMESPACE)


def _has_message(body: Object) -> bool:
    checks = (body.get("status") or {}).get("admissionChecks") or ()
    return any(check["name"] == CHECK and check.get("message") for check in checks)


def _last(event: Object) -> float:
    said = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
    return (datetime.fromisoformat(said) - EPOCH).total_seconds()
