"""(b) A steady stream at 50, 80 and 95 % of what the script can do: how long each job takes, and whether anything grows; and at
50 % while 3,000 others wait.

The ceiling is measured first, in the same run: the rate at which the script takes a burst to its end. Jobs come at even
distances, whatever became of those before, and each is deleted when it is over, by all sides' same user. They are of ten sizes
and three priorities, as those that wait are. The peer has no part: half of that rate is several times what it can do; and the
script knows no queue, so it has none who wait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import mean

import anyio

from benchmarks import meters
from benchmarks.bench import playing
from benchmarks.driver import Driver
from benchmarks.figures import at_most
from benchmarks.lines import Line, beside, grown, itself, longest_turn
from benchmarks.sides import Ceiling, Observed, Side
from benchmarks.timeline import Stage, percentile
from benchmarks.work.core import Enter, Result, Setting
from benchmarks.work.mixed import add_priorities, crowd, mixed, reached
from testbed.bed import Testbed

__all__ = ["Flow", "Moment", "among", "halves", "lines", "measure"]

WORKERS = 3
JOBS = 200
"""Of the burst that shows the ceiling."""

WAITING, AMONG = {True: 10_000, False: 3_000}, 50
"""How many wait in the last stream, and its share of the ceiling."""

LARGE, ROOM = 900_000, 100_000
"""Milli-CPU of a job that runs on, and what the stream has beside it. Who waits asks for more than that room."""

MINUTES = {True: 5.0, False: 0.5}
SHARES = (50, 80, 95)
SIDES: Mapping[str, Enter] = {"script": Ceiling, "ours": Observed}

BEGIN = 0.1
"""The share of a stream that only fills the pipes, and does not count."""

SAMPLE_SECONDS = 0.5
PATIENCE_SECONDS = 60
MORE_UNDER_WAY, MORE_MEMORY = 1.25, 1.05
"""The most that the second half may have of the first: the jobs under way are few, and chance moves them."""

MORE_CPU, LATER = 1.5, 1.5
"""The most that a job may take among those that wait, of what it takes alone."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Jobs submitted and not finished, and MiB of the manager, at one time."""

    under_way: float
    memory: float


@dataclass(frozen=True, slots=True)
class Flow:
    """What one side made of a stream: seconds of each job from submission to remote job, moments at even distances, and
    milliseconds of the longest turn of its event loop, and of CPU for a job."""

    latencies: Sequence[float] = ()
    moments: list[Moment] = field(default_factory=list)
    unfinished: int = 0
    turn: float | None = None
    cpu: float | None = None

    def latency(self, share: float) -> float | None:
        """Milliseconds, without the jobs of the begin."""
        found = percentile(_settled(self.latencies), share)
        return None if found is None else 1000 * found


async def measure(setting: Setting) -> Result:
    result = Result()
    minutes = setting.minutes or MINUTES[setting.full]
    async with setting.clusters(setting.workers or WORKERS) as bed:
        ceiling = await _ceiling(bed, setting)
        result.lines.append(beside("a stream: the ceiling, jobs/s", "script", None, ours=None, script=ceiling))
        for share in SHARES:
            rate = ceiling * share / 100
            found = {name: await _flow(enter(bed), share, rate, 60 * minutes, setting) for name, enter in SIDES.items()}
            result.plot("latency-by-load", share, **{name: each.latency(0.95) for name, each in found.items()})
            result.lines += lines(found, f"a stream at {share} % of the ceiling")
            if share == AMONG:
                waiting = setting.pending or WAITING[setting.full]
                crowded = await _flow(Observed(bed), share, rate, 60 * minutes, setting, waiting=waiting)
                result.lines += among(crowded, found["ours"], f"a stream at {share} % among {waiting:,} that wait")
    return result


async def _ceiling(bed: Testbed, setting: Setting) -> float:
    jobs = setting.burst(JOBS)
    async with _watched(Ceiling(bed), setting) as driver:
        await driver.submit([f"burst-{number:05}" for number in range(jobs)])
        await driver.reached(Stage.FINISHED, jobs, patience=PATIENCE_SECONDS)
        rate = driver.times.rate(Stage.FINISHED)
    setting.say(f"the ceiling is {rate:.2f} jobs/s")
    return rate


async def _flow(side: Side, share: int, rate: float, seconds: float, setting: Setting, *, waiting: int = 0) -> Flow:
    """Names have the share: the last Workload of a stream may outlast the side that made it."""
    jobs = max(2, round(rate * seconds))
    side.quota = {"cpu": f"{LARGE + ROOM}m", "memory": "1000000Gi"} if waiting else side.quota
    async with _watched(side, setting) as driver:
        if waiting:
            await _fill(side, driver, waiting, setting)
        setting.say(f"{side.name}: {rate:.2f} jobs/s for {seconds:.0f} s")
        moments: list[Moment] = []
        busy = meters.cpu_seconds(side.process.pid)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_sample, side, driver, moments)
            await driver.stream([f"stream-{share}-{number:06}" for number in range(jobs)], rate=rate)
            tasks.cancel_scope.cancel()
        await driver.reached(Stage.FINISHED, jobs, patience=PATIENCE_SECONDS)
        cpu = 1000 * (meters.cpu_seconds(side.process.pid) - busy) / jobs
        times, turn = driver.times, await side.longest_turn() if isinstance(side, Observed) else None
    return Flow(times.seconds(Stage.SUBMITTED, Stage.CREATED), moments, jobs - times.count(Stage.FINISHED), turn, cpu)


async def _fill(side: Side, driver: Driver, waiting: int, setting: Setting) -> None:
    """A large job takes most of the quota, and others wait, all of which are larger than the rest of it."""
    driver.hold({"large"})
    driver.ask(cpu=f"{LARGE}m")
    await driver.submit(["large"])
    await reached(driver, Stage.RELEASED, 1)
    names = [f"waiting-{number:05}" for number in range(waiting)]
    await crowd(driver, side.bed, names, 2 * ROOM, setting.say)
    driver.ask_in_turn(mixed())


@asynccontextmanager
async def _watched(side: Side, setting: Setting) -> AsyncIterator[Driver]:
    async with playing(side, setting.say) as driver, driver.watching(tidy=True):
        await add_priorities(side.bed)
        driver.ask_in_turn(mixed())
        yield driver


async def _sample(side: Side, driver: Driver, moments: list[Moment]) -> None:
    def open_jobs() -> int:
        return driver.times.count(Stage.SUBMITTED) - driver.times.count(Stage.FINISHED)

    others = open_jobs()
    while True:
        await anyio.sleep(SAMPLE_SECONDS)
        moments.append(Moment(open_jobs() - others, meters.memory(side.process.pid).resident))


def lines(found: Mapping[str, Flow], what: str) -> list[Line]:
    ours, script = found["ours"], found["script"]
    return [
        *(
            beside(
                f"{what}: submission to remote job, {name} ms",
                "script",
                None,
                ours=ours.latency(share),
                script=script.latency(share),
            )
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        ),
        _growth(f"{what}: jobs under way in the second half", found, "under_way", MORE_UNDER_WAY),
        _growth(f"{what}: memory in the second half, MiB", found, "memory", MORE_MEMORY),
        longest_turn(what, ours.turn),
        itself(f"{what}: jobs that never finished", ours.unfinished, at_most(0)),
    ]


def among(crowded: Flow, alone: Flow, what: str) -> list[Line]:
    """Of ours, with many that wait beside none."""
    figures = (
        ("submission to remote job, p50 ms", LATER, crowded.latency(0.5), alone.latency(0.5)),
        ("CPU per job, ms", MORE_CPU, crowded.cpu, alone.cpu),
    )
    return [
        *(
            grown(f"{what}: {name}", "without", at_most(most), unit=unit or 0.0, ours=ours)
            for name, most, ours, unit in figures
        ),
        _growth(f"{what}: jobs under way in the second half", {"ours": crowded}, "under_way", MORE_UNDER_WAY),
        longest_turn(what, crowded.turn),
        itself(f"{what}: jobs that never finished", crowded.unfinished, at_most(0)),
    ]


def _growth(figure: str, found: Mapping[str, Flow], of: str, most: float) -> Line:
    """What the second half had beside the first."""
    sides = {name: halves([getattr(moment, of) for moment in each.moments]) for name, each in found.items()}
    first, second = sides["ours"]
    return grown(
        figure, "the first half", at_most(most), unit=first, ours=second, script=sides.get("script", (0.0, None))[1]
    )


def halves(values: Sequence[float]) -> tuple[float, float]:
    """The means of both halves, without the begin; 0 of nothing."""
    settled = _settled(values)
    middle = len(settled) // 2
    first, second = settled[:middle], settled[middle:]
    return mean(first) if first else 0.0, mean(second) if second else 0.0


def _settled(values: Sequence[float]) -> Sequence[float]:
    return values[int(BEGIN * len(values)) :]
