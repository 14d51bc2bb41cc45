"""(h) Strategies side by side: what a job costs in calls, what copies cost that do not win, and how soon a job starts.

Each worker is full of its own jobs, which are less urgent, so each copy puts out some of them: also those copies that do not
win. One worker holds half of the jobs. The peer has a part by its own all-at-once; the rounds of its incremental dispatcher
are five minutes long.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import anyio.abc
import msgspec

from benchmarks.bench import calls_since, marks, playing
from benchmarks.driver import QUEUE, Driver
from benchmarks.events import workload_event
from benchmarks.figures import at_most
from benchmarks.lines import Line, grown, itself
from benchmarks.losers import Losers
from benchmarks.sides import Ours, Side
from benchmarks.timeline import Distribution, Stage
from benchmarks.wire import Wire
from benchmarks.work import own
from benchmarks.work.core import Enter, Result, Setting
from testbed import objects
from testbed.bed import Testbed
from testbed.client import eventually
from testbed.plane import ControlPlane

__all__ = ["Cost", "Nominator", "lines", "measure"]

WORKERS = 3
JOBS = {True: 120, False: 24}
URGENT = "urgent"
ROUND = "5s"
PATIENCE_SECONDS = 60
FIRST = "all-at-once"
EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class Cost:
    """API calls per job, seconds per job that losers have quota, preemptions by losers, and seconds from submission to the
    start of the remote job."""

    calls: float
    held: float
    preemptions: float
    start: Distribution | None
    unfinished: int


async def measure(setting: Setting) -> Result:
    jobs = setting.burst(JOBS[setting.full])
    async with setting.clusters(setting.workers or WORKERS) as bed:
        found = {name: await _measure(enter(bed), name, jobs, setting) for name, enter in _ours(bed).items()}
        peer = await _measure(setting.sides["peer"](bed), "its own", jobs, setting) if "peer" in setting.sides else None
    return Result(lines(found, peer))


def _ours(bed: Testbed) -> Mapping[str, Enter]:
    return {
        FIRST: _with(FIRST, {}),
        "incremental": _with("incremental", {"step": 1, "round_length": ROUND}),
        EXTERNAL: _with(EXTERNAL, {}),
        "a user's own": _with(own.NAME, {"patience": ROUND}, own.installed(bed.folder / "own")),
    }


def _with(name: str, options: Mapping[str, object], env: Mapping[str, str] | None = None) -> Enter:
    chosen = {"MULTIKUEUE_DISPATCH__STRATEGY": msgspec.json.encode({"name": name, "options": options}).decode()}
    return partial(Ours, env={**chosen, **(env or {})})


async def _measure(side: Side, strategy: str, jobs: int, setting: Setting) -> Cost:
    setting.say(f"{strategy}: {jobs} jobs at once")
    room = -(-jobs // 2)
    async with playing(side, setting.say) as driver, _full(side, driver, room), _told(side, strategy) as losers:
        driver.ask(priority_class=URGENT)
        before = await marks(side.bed)
        async with driver.watching() as times:
            driver.hold()
            await driver.submit([f"job-{number:05}" for number in range(jobs)])
            await _all_reach(driver, jobs, Stage.STARTED, Stage.RELEASED)
            driver.let_go()
            await _all_reach(driver, jobs, Stage.FINISHED, Stage.REMOVED)
        manager, worker = await calls_since(side.bed, before, jobs)
        return Cost(
            calls=manager.writes + manager.reads + worker.writes + worker.reads,
            held=losers.seconds() / jobs,
            preemptions=losers.preemptions(),
            start=times.between(Stage.SUBMITTED, Stage.STARTED),
            unfinished=jobs - times.count(Stage.FINISHED),
        )


async def _all_reach(driver: Driver, jobs: int, *stages: Stage) -> None:
    """Or as many as do before nothing happens any more."""
    for stage in stages:
        await driver.reached(stage, jobs, patience=PATIENCE_SECONDS)


@asynccontextmanager
async def _full(side: Side, driver: Driver, room: int) -> AsyncIterator[None]:
    """Workers that hold so many jobs, and are full of as many of their own."""
    async with side.bed.manager.client() as client:
        await client.apply(_priority_class())
    async with anyio.create_task_group() as tasks:
        for plane in side.bed.workers:
            tasks.start_soon(_fill, plane, side.namespace, room)
    yield
    async with anyio.create_task_group() as tasks:
        for plane in side.bed.workers:
            tasks.start_soon(_empty, plane, side.namespace)
    await driver.clean(patience=PATIENCE_SECONDS)


async def _fill(plane: ControlPlane, namespace: str, room: int) -> None:
    queue = objects.cluster_queue(namespace, quota={"cpu": f"{100 * room}m", "memory": f"{100 * room}Mi"})
    queue["spec"]["preemption"] = {"withinClusterQueue": "LowerPriority"}
    async with plane.client() as client:
        await client.apply(_priority_class())
        await client.apply(queue)
        for number in range(room):
            await client.apply(objects.job(f"local-{number:05}", namespace, queue=QUEUE))

        async def is_full() -> bool:
            found = [objects.condition(body, "Admitted") for body in await client.list(objects.WORKLOAD, namespace)]
            return [each["status"] for each in found if each] == ["True"] * room

        await eventually(is_full, timeout=PATIENCE_SECONDS, interval=0.5)


async def _empty(plane: ControlPlane, namespace: str) -> None:
    async with plane.client() as client:
        for kind in (objects.JOB, objects.WORKLOAD):
            for body in await client.list(kind, namespace):
                await client.delete(kind, body["metadata"]["name"], namespace)


def _priority_class() -> objects.Object:
    about = {"apiVersion": objects.CLUSTER_QUEUE.api_version, "kind": "WorkloadPriorityClass"}
    return {**about, "metadata": {"name": URGENT}, "value": 1000}


@asynccontextmanager
async def _told(side: Side, strategy: str) -> AsyncIterator[Losers]:
    """What losers cost, as watches of all clusters tell; with `external` there is also somebody who nominates."""
    losers, path = Losers(), f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{side.namespace}/workloads"
    clusters = {plane.name: f"{side.namespace}-{plane.name}" for plane in side.bed.workers}
    nominator = Nominator(list(clusters.values()))
    async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
        manager = await stack.enter_async_context(Wire.open(side.bed.manager))

        def on_workload(line: bytes) -> str:
            if strategy == EXTERNAL and (nomination := nominator.nomination(line)):
                tasks.start_soon(manager.patch, f"{path}/{nomination.workload}/status", nomination.status)
            return losers.on_workload(line)

        await _follow(tasks, manager, path, on_workload)
        for plane in side.bed.workers:
            wire = await stack.enter_async_context(Wire.open(plane))
            await _follow(tasks, wire, path, partial(_on_copy, losers, clusters[plane.name]))
        yield losers
        tasks.cancel_scope.cancel()


async def _follow(tasks: anyio.abc.TaskGroup, wire: Wire, path: str, on_event: Callable[[bytes], str]) -> None:
    await tasks.start(lambda task_status: wire.watch(path, on_event, task_status=task_status))


def _on_copy(losers: Losers, cluster: str, line: bytes) -> str:
    return losers.on_copy(cluster, line, time.monotonic())


@dataclass(frozen=True, slots=True)
class Nomination:
    workload: str
    status: bytes


@dataclass(slots=True)
class Nominator:
    """Names one cluster for each workload that has quota, all in turn: the part that is external."""

    clusters: Sequence[str]
    _done: set[str] = field(default_factory=set)

    def nomination(self, line: bytes) -> Nomination | None:
        """For a workload of the manager cluster's watch, once."""
        event = workload_event(line)
        name = event.object.metadata.name
        if event.type == "DELETED" or name in self._done or not event.has("QuotaReserved"):
            return None
        cluster = self.clusters[len(self._done) % len(self.clusters)]
        self._done.add(name)
        return Nomination(name, msgspec.json.encode({"status": {"nominatedClusterNames": [cluster]}}))


def lines(found: Mapping[str, Cost], peer: Cost | None) -> list[Line]:
    """Each strategy beside all-at-once; so is the peer, whose strategy that is."""
    first = found[FIRST]
    return [
        line
        for name, cost in found.items()
        for line in _lines(f"strategy {name}", cost, first, peer if cost is first else None)
    ]


def _lines(what: str, cost: Cost, first: Cost, peer: Cost | None) -> list[Line]:
    def line(figure: str, of: Callable[[Cost], float | None]) -> Line:
        return grown(
            f"{what}: {figure}", FIRST, None, unit=of(first) or 0, ours=of(cost), peer=of(peer) if peer else None
        )

    return [
        line("API calls per job", lambda each: each.calls),
        line("seconds that losers hold quota, per job", lambda each: each.held),
        line("preemptions by losers", lambda each: each.preemptions),
        line("submission to start of the remote job, p50 s", lambda each: each.start.p50 if each.start else None),
        line("submission to start of the remote job, p95 s", lambda each: each.start.p95 if each.start else None),
        itself(f"{what}: jobs that never finished", cost.unfinished, at_most(0)),
    ]
