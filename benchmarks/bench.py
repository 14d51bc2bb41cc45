"""The order of events: one testbed, one side after the other, jobs one at a time and then at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio

from benchmarks import meters
from benchmarks.calls import Calls, calls_of
from benchmarks.driver import Driver
from benchmarks.figures import Figures
from benchmarks.sides import MANAGER_USER, WORKER_USER, Side
from benchmarks.timeline import Stage, Timelines
from benchmarks.wire import Wire
from testbed.audit import Mark
from testbed.bed import Testbed
from testbed.process import Process

__all__ = ["Load", "Say", "calls_since", "marks", "measure", "playing"]

Say = Callable[[str], None]

WARM_UPS = 3
REST_SECONDS = 0.5
PATIENCE_SECONDS = 60
CALM_SECONDS = 3
LOG_LINES = 5


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a side: jobs one after another, then jobs at once.

    `hold`: the jobs of the burst run until all of them are dispatched, so that no job's end slows the dispatch down.
    """

    rested: int
    burst: int
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Rest:
    """Jobs one at a time, on idle clusters."""

    jobs: int
    times: Timelines
    manager: Calls
    worker: Calls


@dataclass(frozen=True, slots=True)
class Burst:
    """Jobs at once."""

    jobs: int
    times: Timelines
    manager: Calls
    worker: Calls
    cpu: meters.Usage
    memory: meters.Memory


async def measure(side: Side, load: Load, say: Say) -> Figures:
    """Start a side, measure it, and take it down again."""
    async with playing(side, say) as driver:
        startup = meters.cpu_seconds(side.process.pid)
        rest = await _rest(side, driver, load.rested, say)
        burst = await _burst(side, driver, load, say)
    return _figures(side, rest, burst, startup)


@asynccontextmanager
async def playing(side: Side, say: Say) -> AsyncIterator[Driver]:
    """A side that runs, and the driver for it. It is taken down afterwards, and the clusters come to rest."""
    say(f"{side.name}: starting")
    try:
        await side.set_up()
        async with AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(Wire.open(plane)) for plane in side.bed.planes.values()]
            driver = Driver(wires[0], wires[1:], namespace=side.namespace)
            yield driver
            await driver.forget()
    except BaseException as error:
        error.add_note(f"the log of {side.name} ends with:\n{side.process.tail(LOG_LINES)}")
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await side.take_down()
    await anyio.sleep(CALM_SECONDS)


async def _rest(side: Side, driver: Driver, jobs: int, say: Say) -> Rest:
    """Measure jobs one after another. A few jobs before them warm all connections and caches, and do not count."""
    say(f"{side.name}: {jobs} jobs one after another")
    async with driver.watching(closely=True):
        await _one_by_one(driver, [f"warm-{number:02}" for number in range(WARM_UPS)])
    await anyio.sleep(CALM_SECONDS)
    before = await marks(side.bed)
    async with driver.watching(closely=True) as times:
        await _one_by_one(driver, [f"rest-{number:03}" for number in range(jobs)])
    return Rest(jobs, times, *await calls_since(side.bed, before, jobs))


async def _one_by_one(driver: Driver, names: Sequence[str]) -> None:
    for number, name in enumerate(names, start=1):
        await driver.submit([name])
        if not await _all_over(driver, number):
            raise TimeoutError(f"{name} did not finish: {driver.times.stage_of(name)}")
        await anyio.sleep(REST_SECONDS)


async def _burst(side: Side, driver: Driver, load: Load, say: Say) -> Burst:
    jobs = load.burst
    say(f"{side.name}: {jobs} jobs at once")
    await anyio.sleep(CALM_SECONDS)
    audited = await marks(side.bed)
    programs = _programs(side)
    async with driver.watching() as times:
        before = meters.read(programs)
        if load.hold:
            driver.hold()
        await driver.submit([f"burst-{number:05}" for number in range(jobs)])
        await driver.reached(Stage.WON, jobs, patience=PATIENCE_SECONDS)
        driver.let_go()
        await _all_over(driver, jobs)
        cpu = meters.read(programs).since(before)
        memory = meters.memory(side.process.pid)
    unfinished = jobs - times.count(Stage.FINISHED)
    manager, worker = await calls_since(side.bed, audited, jobs)
    say(f"{side.name}: {times.rate(Stage.CREATED, Stage.WON):.2f} jobs/s dispatched, {unfinished} never finished")
    return Burst(jobs, times, manager, worker, cpu, memory)


async def _all_over(driver: Driver, jobs: int) -> bool:
    """Wait until all jobs are finished on the manager cluster and gone from the workers; False after a standstill."""
    for stage in (Stage.CREATED, Stage.WON, Stage.COMPLETE, Stage.FINISHED, Stage.REMOVED):
        if not await driver.reached(stage, jobs, patience=PATIENCE_SECONDS):
            return False
    return await driver.clean(patience=PATIENCE_SECONDS)


def _programs(side: Side) -> dict[str, Process]:
    """All programs that run for this side, by their names in the report."""
    others = {each.name: each for each in side.bed.processes if each is not side.process}
    return {**others, side.name: side.process}


async def marks(bed: Testbed) -> dict[str, Mark]:
    return {name: await plane.audit.settled() for name, plane in bed.planes.items()}


async def calls_since(bed: Testbed, before: dict[str, Mark], jobs: int) -> tuple[Calls, Calls]:
    """Calls to the manager cluster and to all workers together, since the marks."""
    until = await marks(bed)
    on_manager = bed.manager.audit.events(before[bed.manager.name], until[bed.manager.name])
    on_workers = [event for plane in bed.workers for event in plane.audit.events(before[plane.name], until[plane.name])]
    return (
        calls_of(on_manager, user=MANAGER_USER, jobs=jobs),
        calls_of(on_workers, user=WORKER_USER, jobs=jobs),
    )


def _figures(side: Side, rest: Rest, burst: Burst, startup: float) -> Figures:
    return Figures(
        jobs=burst.jobs,
        unfinished=burst.jobs - burst.times.count(Stage.FINISHED),
        rested_jobs=rest.jobs,
        workers=len(side.bed.workers),
        dispatch_rate=burst.times.rate(Stage.CREATED, Stage.WON),
        finish_rate=burst.times.rate(Stage.COMPLETE, Stage.FINISHED),
        start=rest.times.between(Stage.SUBMITTED, Stage.CREATED),
        completion=rest.times.between(Stage.ENDED, Stage.COMPLETE),
        manager=burst.manager,
        worker=burst.worker,
        cpu_ms=1000 * burst.cpu.programs[side.name] / burst.jobs,
        startup_cpu_ms=1000 * startup,
        peak_memory=burst.memory.peak,
        memory=burst.memory.resident,
        steps=rest.times.steps(),
        rested_manager=rest.manager,
        rested_worker=rest.worker,
        cpu=burst.cpu.programs,
        others=burst.cpu.others,
    )
