"""Somebody asks why jobs do not run, as with `multikueue why`, and each answer is held against what happens next."""

from __future__ import annotations

import io
import random
import re
from collections.abc import AsyncIterator, Callable, Container, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, redirect_stderr
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import anyio

from fakekube.model.wire import Object
from fakekube.network.transport import Network
from multikueue.answers.answer import JobAnswer, answer
from multikueue.answers.codes import Code
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import ACTIVE
from multikueue.api.kueue.workload import ADMITTED
from multikueue.api.meta import ObjectKey
from multikueue.cli.access.worker_access import ReachableWorker, WorkerAccess
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload.seen import Inspection, look
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Client
from multikueue.kube.cluster_client import ClusterClient
from multikueue.settings import Settings
from multikueue_simulator.simulation import seen
from multikueue_simulator.simulation.faults.fault_injector import FaultInjector
from multikueue_simulator.time import EPOCH
from multikueue_simulator.world.transport import over
from multikueue_simulator.world.world import MANAGER, NAMESPACE, World

__all__ = ["Asker"]

PAUSE = (2.0, 20.0)
"""The shortest and the longest time in seconds between two questions."""

NEWS = 20.0
"""The greatest age in seconds of what an answer says of a job that runs."""

LOOKED_AT = 60.0
"""Seconds until "it is about to be looked at" and "no manager has looked at it" are untrue while a manager works."""

NEVER = {
    *(code.name for code in (Code.PriorityClassNotFound, Code.QueueNotFound, Code.NoFlavorHasResource)),
    *(code.name for code in (Code.MoreThanQueueHas, Code.NoFlavorSuits, Code.NoWorkerCanHold)),
    *(code.name for code in (Code.CannotBeDispatched, Code.Held, Code.LocalQueueStopped, Code.ClusterQueueStopped)),
}
"""Of what only a change of something else can make start."""

AGAIN = re.compile(r"queues again at (\S+Z)")

ENDS = {"Finished": "Complete", "Failed": "Failed"}
"""States of an answer, and the condition that a Job has then."""

WITH_STATUS: tuple[Kind[Any], ...] = (kinds.MULTIKUEUE_CLUSTERS, kinds.ADMISSION_CHECKS, kinds.CLUSTER_QUEUES)
"""Kinds on the manager cluster that are active or not: a queue with a check that is not lets nobody begin."""

DECISIVE: tuple[Kind[Any], ...] = (
    kinds.CLUSTER_QUEUES,
    kinds.LOCAL_QUEUES,
    kinds.RESOURCE_FLAVORS,
    kinds.ADMISSION_CHECKS,
    kinds.MULTIKUEUE_CONFIGS,
    kinds.MULTIKUEUE_CLUSTERS,
)

Broken = Callable[[str, float, str], None]


@dataclass(slots=True)
class Asker:
    """Owner of what was said. It reads over a network of its own, which no fault cuts, and may read everything; half of its
    questions are those of a user without access to any worker. `led_since`: since when a manager acts, None if none does.
    """

    world: World
    injector: FaultInjector
    settings: Settings
    led_since: Callable[[], float | None]
    broken: Broken
    seed: int
    asked: int = 0
    _network: Network = field(init=False)
    _rng: random.Random = field(init=False)
    _never: dict[str, tuple[JobAnswer, str, float]] = field(default_factory=dict)
    """By the UID of a Workload what was said of it that only a change can make untrue, the state of all that it rests on, and
    when it was said."""
    _doubtful: dict[tuple[str, str], float] = field(default_factory=dict)
    """By job and doubt: since when an answer is as it may be for a short time only."""

    def __post_init__(self) -> None:
        self._rng = random.Random(f"why {self.seed}")  # noqa: S311  # not a secret
        self._network = Network(random.Random(self.seed))  # noqa: S311  # not a secret
        for site in self.world.sites:
            self._network.add(site.name, site.cluster.api)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await anyio.sleep(self._rng.uniform(*PAUSE))
            jobs = {
                body["metadata"]["name"]: bool(seen.result(body))
                for body in self.world.manager.all(kinds.JOBS, NAMESPACE)
            }
            interesting = [name for name, has_ended in jobs.items() if not has_ended]
            interesting += [job for job, _ in self._doubtful if job in jobs]
            if jobs:
                await self.ask(self._rng.choice(interesting or list(jobs)))

    async def ask(self, job: str) -> None:
        """Ask about a job, and judge the answer."""
        is_tenant = self._rng.random() < 0.5
        try:
            inspection = await self._look(job, is_tenant=is_tenant)
        except CommandFailed as error:
            is_one = not str(error).startswith("several workloads")  # a user chooses, and both are named
            if is_one and self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, job)) is not None:
                self.broken("answers", anyio.current_time(), f"job {job}: {error}")
            return
        now = anyio.current_time()
        told = answer(inspection.seen, _at(now))
        self.asked += 1
        self._judge(job, inspection, told, now)

    async def _look(self, job: str, *, is_tenant: bool) -> Inspection:
        reach = cast(
            WorkerAccess, _Workers(self._client, self.injector.host_of, self.world.workers, is_closed=is_tenant)
        )
        with redirect_stderr(io.StringIO()):  # notes about objects of a hostile tenant that cannot be read
            async with self._client(MANAGER) as client:
                return await look(client, reach, NAMESPACE, f"job/{job}", self.settings)

    def _client(self, host: str) -> AbstractAsyncContextManager[Client]:
        line = self._network.line("somebody")
        return Client.connect(Credentials(server=f"http://{host}"), cluster=host, transport=over(line))

    # --- judging ---

    def _judge(self, job: str, found: Inspection, told: JobAnswer, now: float) -> None:
        self._can_change(told, found, now)
        body = self.world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, job))
        if body is None or (found.seen.job is not None and found.seen.job.meta.uid != body["metadata"]["uid"]):
            return
        if told.state in ENDS and seen.result(body) not in ("", ENDS[told.state]):
            self._contradicted(job, told, f"the job is {seen.result(body)}", now)
        doubts = dict(self._doubts(told, body, now))
        self._doubtful = {
            known: since for known, since in self._doubtful.items() if known[0] != job or known[1] in doubts
        }
        for text, seconds in doubts.items():
            since = self._doubtful.setdefault((job, text), now)
            if now - since >= seconds:
                self._contradicted(job, told, f"{text}, for {now - since:.0f} s", now)

    def _contradicted(self, job: str, told: JobAnswer, by: str, now: float) -> None:
        self.broken("answers", now, f"job {job}: {told.summary!r}, but {by}")

    def _can_change(self, told: JobAnswer, found: Inspection, now: float) -> None:
        """What was said never to start does not start while nothing changes that it rests on."""
        for uid, (said, rests_on, since) in tuple(self._never.items()):
            body = next((w for w in self._workloads() if w["metadata"]["uid"] == uid), None)
            if body is None or self._rests_on(body) != rests_on:
                del self._never[uid]
            elif seen.is_true(body, ADMITTED):
                del self._never[uid]
                if now - since > NEWS + PAUSE[1]:  # before, it may have been said of what had just changed
                    self._contradicted(said.job, said, "it was admitted since, and nothing had changed", now)
        workload = found.seen.workload
        if workload is None or code_of(told) not in NEVER:
            return
        body = self.world.manager.stored(kinds.WORKLOADS, workload.key)
        if body is not None and not seen.is_true(body, ADMITTED):
            self._never.setdefault(workload.metadata.uid, (told, self._rests_on(body), now))

    def _rests_on(self, workload: Object) -> str:
        """All that decides whether a job can ever start, beside time and what others have."""
        specs = [
            (site.name, kind.kind, body["metadata"]["name"], body.get("spec"), body["metadata"].get("annotations"))
            for site in self.world.sites
            for kind in DECISIVE
            for body in site.all(kind)
        ]
        manager = self.world.manager
        active = [seen.is_true(body, ACTIVE) for kind in WITH_STATUS for body in manager.all(kind)]
        ended = sum(fault.end is not None for fault in self.injector.faults.all)
        return repr((specs, active, ended, len(self.injector.faults.all), workload["spec"], seen.labels(workload)))

    def _doubts(self, told: JobAnswer, job: Object, now: float) -> Iterator[tuple[str, float]]:
        """What may be so for some seconds, and how many."""
        code = code_of(told)
        since = self.led_since()
        if since is None or now - since < NEWS or not self._is_calm(MANAGER, now):
            return
        if code in (Code.NextInLine.name, Code.NoManager.name):
            yield "a manager works", LOOKED_AT
        if told.state not in ENDS and seen.result(job):
            yield f"the job is {seen.result(job)}", NEWS
        again = AGAIN.search(told.summary)
        if (
            again
            and datetime.fromisoformat(again[1]) < _at(now)
            and not any(r.skew for r in self.injector.plan.replicas)
        ):
            yield f"it is later than {again[1]}", NEWS
        yield from self._elsewhere(told, job, now)

    def _elsewhere(self, told: JobAnswer, job: Object, now: float) -> Iterator[tuple[str, float]]:
        cluster = self.injector.host_of(told.cluster)
        noticed = NEWS + 2 * self.settings.dispatch.heartbeat_interval.total_seconds()
        for worker in self.world.workers.values():
            there = worker.site.stored(kinds.JOBS, ObjectKey(NAMESPACE, job["metadata"]["name"]))
            runs = there is not None and seen.is_ours(there) and seen.is_running(there)
            away = self.injector.faults.deaf_since(worker.name, now, told=False)  # it may know a new token since
            if worker.name == cluster and told.state == "Running" and away is not None and now - away > noticed:
                yield f"{cluster} is away", 0.0
            if not self._is_calm(worker.name, now) or not worker.kueue.is_running:
                continue
            if worker.name == cluster and told.state == "Running" and not runs:
                yield f"it does not run on {cluster}", NEWS
            if worker.name == cluster and told.state == "Unknown":
                yield f"{cluster} answers", LOOKED_AT
            if runs and told.state in ("Pending", "Held") and code_of(told) != Code.Leaving.name:
                yield f"it runs on {worker.name}", LOOKED_AT

    def _is_calm(self, host: str, now: float) -> bool:
        return not self.injector.faults.between(host, now - NEWS, now)

    def _workloads(self) -> list[Object]:
        return self.world.manager.all(kinds.WORKLOADS, NAMESPACE)


def code_of(told: JobAnswer) -> str:
    """The code of the heaviest obstacle; empty without any."""
    return told.heaviest.code if told.heaviest else ""


@dataclass(frozen=True, slots=True)
class _Workers:
    """The workers as a command reaches them. Those of a tenant are closed. Names may lead to the same one, and to none."""

    client: Callable[[str], AbstractAsyncContextManager[Client]]
    host_of: Callable[[str], str]
    hosts: Container[str]
    is_closed: bool
    is_named: bool = False

    @asynccontextmanager
    async def connect(self, _manager: ClusterClient, cluster: str) -> AsyncIterator[ReachableWorker]:
        host = self.host_of(cluster)
        if self.is_closed or host not in self.hosts:
            raise CommandFailed(f"no way to {cluster}: you may not read MultiKueueCluster {cluster}")
        async with self.client(host) as client:
            yield ReachableWorker(cluster, client, "", "")


def _at(now: float) -> datetime:
    return EPOCH + timedelta(seconds=now)
