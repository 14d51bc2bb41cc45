"""(e) One worker that hangs, answers nothing, breaks connections, is gone, is far away, or comes and goes: what that costs the
others.

A control and a sick burst take turns, on the same clusters and in the same minutes, since rates drift with other load on the
machine: a ratio is that of one pair, and the median pair counts. Jobs are held: only dispatch is measured. Where a worker
goes away in the middle of a burst only the share of the burst counts that the others have to themselves: the few jobs that
the worker was asked for just before wait for it. Neither the script nor the peer has a part: one would wait for ever, and
tests/real/test_peer_faults.py has what becomes of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import anyio

from benchmarks.bench import playing
from benchmarks.driver import Driver
from benchmarks.figures import at_least, at_most
from benchmarks.lines import Line, grown, itself, longest_turn
from benchmarks.sides import Restarted
from benchmarks.timeline import Stage, Timelines
from benchmarks.work.core import Result, Setting
from testbed import objects
from testbed.client import Client, eventually
from testbed.proxy import Link

__all__ = ["SCENARIOS", "Pair", "Run", "Scenario", "lines", "measure", "run_of"]

WORKERS = 3
JOBS = 60
MODES = ("hang", "blackhole", "reset", "refuse")
LATENCY_SECONDS = 0.2
BROKEN_SECONDS, WELL_SECONDS = 0.5, 2.5
PATIENCE_SECONDS = 15
RECOVERY_SECONDS = 60
RATE_TARGET = at_least(0.95)
PAUSE_TARGET = 2.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """The sickness of the last worker, its begin, and the measured share of the burst.

    `when` is `start` (before the manager starts), `quarter` (when a quarter is dispatched) or `burst` (before it).
    """

    name: str
    mode: str
    when: str
    share: float = 1.0


SCENARIOS = (
    *(Scenario(f"a worker away from the start, {mode}", mode, "start") for mode in MODES),
    *(Scenario(f"a worker that goes away in the burst, {mode}", mode, "quarter", share=0.75) for mode in MODES),
    Scenario("a worker that comes and goes", "flap", "burst", share=0.75),
    Scenario("a worker 200 ms away", "latency", "burst"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One burst: jobs dispatched per second, the longest time in seconds without a dispatch."""

    rate: float
    pause: float


@dataclass(frozen=True, slots=True)
class Pair:
    """A control and a sick burst."""

    control: Run
    sick: Run

    @property
    def ratio(self) -> float:
        return self.sick.rate / self.control.rate


def run_of(times: Timelines, number: int) -> Run:
    """The figures of the first `number` dispatched jobs."""
    moments = [times.began(), *sorted(times.noted[Stage.WON].values())[:number]]
    pauses = [later - sooner for sooner, later in pairwise(moments)]
    return Run(len(pauses) / (moments[-1] - moments[0]), max(pauses))


async def measure(setting: Setting) -> Result:
    """All scenarios one after another, on one manager."""
    result = Result()
    async with setting.clusters(setting.workers or WORKERS) as bed:
        side = Restarted(bed).through_links()
        async with playing(side, setting.say) as driver, bed.manager.client() as client:
            ward = Ward(side, driver, client, setting.burst(JOBS))
            for scenario in SCENARIOS:
                pairs = []
                for number in range(1, setting.rounds + 1):
                    pairs.append(await ward.pair(scenario))
                    setting.say(f"{scenario.name}: pair {number}, {pairs[-1].ratio:.2f} of control")
                result.lines += lines(scenario.name, pairs)
            result.lines.append(longest_turn("sick workers", await side.longest_turn()))
    return result


def lines(what: str, pairs: Sequence[Pair]) -> list[Line]:
    """The rate of the median pair, of an even number the worse one; and the longest pause of all, which is as long as that of
    the controls, or short."""
    middle = sorted(pairs, key=lambda pair: pair.ratio)[(len(pairs) - 1) // 2]
    rate, unit = middle.sick.rate, middle.control.rate
    pause, most = max(pair.sick.pause for pair in pairs), max(PAUSE_TARGET, *(pair.control.pause for pair in pairs))
    return [
        grown(f"{what}: dispatched per second", "without", RATE_TARGET, unit=unit, ours=rate),
        itself(f"{what}: longest time without a dispatch, s", pause, at_most(round(most, 1))),
    ]


@dataclass(slots=True)
class Ward:
    """Runs bursts, with the last worker well or sick."""

    side: Restarted
    driver: Driver
    client: Client
    jobs: int

    async def pair(self, scenario: Scenario) -> Pair:
        return Pair(await self._run(scenario, sick=False), await self._run(scenario, sick=True))

    async def _run(self, scenario: Scenario, *, sick: bool) -> Run:
        number = int(self.jobs * scenario.share)
        if scenario.when == "start":
            await self._set(scenario, sick=sick)
            await self.side.restart()
        async with self.driver.watching() as times:
            self.driver.hold()
            async with anyio.create_task_group() as tasks:
                if sick and scenario.mode == "flap":
                    tasks.start_soon(self._flap)
                elif scenario.when == "burst":
                    await self._set(scenario, sick=sick)
                await self._dispatch(scenario, number, sick=sick)
                tasks.cancel_scope.cancel()
            run = run_of(times, number)
            await self._set(scenario, sick=False)
            await self._reached(self.jobs)
        await self._recover()
        return run

    async def _dispatch(self, scenario: Scenario, number: int, *, sick: bool) -> None:
        """Until so many jobs are dispatched."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.driver.submit, [f"burst-{n:05}" for n in range(self.jobs)])
            if scenario.when == "quarter":
                await self._reached(self.jobs // 4)
                await self._set(scenario, sick=sick)
            await self._reached(number)

    @property
    def _link(self) -> Link:
        return list(self.side.links.values())[-1]

    async def _set(self, scenario: Scenario, *, sick: bool) -> None:
        if not sick:
            self._link.ok()
        elif scenario.mode == "latency":
            self._link.latency(LATENCY_SECONDS)
        else:
            getattr(self._link, scenario.mode)()

    async def _flap(self) -> None:
        while True:
            self._link.reset()
            await anyio.sleep(BROKEN_SECONDS)
            self._link.ok()
            await anyio.sleep(WELL_SECONDS)

    async def _reached(self, number: int) -> None:
        if not await self.driver.reached(Stage.WON, number, patience=PATIENCE_SECONDS):
            raise TimeoutError(f"{self.driver.times.count(Stage.WON)} of {number} jobs were dispatched")

    async def _recover(self) -> None:
        """Wait until all workers are connected again and nothing is left of the burst."""
        await self.driver.forget()
        await eventually(self._is_empty, timeout=RECOVERY_SECONDS, interval=0.5)
        if not await self.driver.clean(patience=RECOVERY_SECONDS):
            raise TimeoutError("copies are left on workers")

    async def _is_empty(self) -> bool:
        for body in await self.client.list(objects.MULTIKUEUE_CLUSTER):
            active = objects.condition(body, "Active")
            assert active is not None, f"{body['metadata']['name']} has no condition"
            assert active["status"] == "True", active["message"]
        return not await self.client.list(objects.WORKLOAD, self.side.namespace)
