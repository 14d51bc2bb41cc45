"""The cost of one sick worker for the others: `python -m benchmarks faults`.

Each scenario is measured in pairs, a control and a sick burst in turn, on the same clusters and in the same minutes, since
rates drift with other load on the machine. A ratio is that of one pair; the result is the median over pairs. Jobs are
held: only dispatch is measured. If a worker goes away in the middle of a burst, only the share of the burst counts that
the others have to themselves: the few jobs that the worker was asked for just before wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import anyio

from benchmarks.driver import Driver
from benchmarks.sides import Ours
from benchmarks.timeline import Stage, Timelines
from benchmarks.wire import Wire
from testbed import objects
from testbed.bed import Testbed
from testbed.client import Client, eventually

__all__ = ["SCENARIOS", "Pair", "Run", "Scenario", "as_text", "measure_all", "run_of"]

Say = Callable[[str], None]

MODES = ("hang", "blackhole", "reset", "refuse")
LATENCY_SECONDS = 0.2
PATIENCE_SECONDS = 15
RECOVERY_SECONDS = 60
RATE_TARGET = 0.95
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
    *(Scenario(f"away from the start: {mode}", mode, "start") for mode in MODES),
    *(Scenario(f"away in the burst: {mode}", mode, "quarter", share=0.75) for mode in MODES),
    Scenario("200 ms away", "latency", "burst"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One burst: jobs dispatched per second, and the longest time without a dispatch."""

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


def as_text(results: Iterable[tuple[Scenario, Sequence[Pair]]]) -> str:
    """A table: for each scenario the median ratio and its range, the longest pauses, and whether the targets are met."""
    lines = [f"{'':28} {'of control':>10} {'range':>12} {'pause':>7} {'control':>8}"]
    for scenario, pairs in results:
        ratios, sick, control = (
            [pair.ratio for pair in pairs],
            max(pair.sick.pause for pair in pairs),
            max(pair.control.pause for pair in pairs),
        )
        met = median(ratios) >= RATE_TARGET and sick <= max(control, PAUSE_TARGET)
        spread = f"{min(ratios):.2f}-{max(ratios):.2f}"
        numbers = f"{median(ratios):10.2f} {spread:>12} {sick:5.1f} s {control:6.1f} s"
        lines.append(f"{scenario.name:28} {numbers}  {'pass' if met else 'MISS'}")
    return "\n".join(lines)


async def measure_all(
    bed: Testbed, scenarios: Sequence[Scenario], *, jobs: int, pairs: int, say: Say
) -> list[tuple[Scenario, list[Pair]]]:
    """Measure the scenarios one after another, on one manager."""
    side = Restarted(bed).through_links()
    async with AsyncExitStack() as stack:
        await side.set_up()
        stack.push_async_callback(side.take_down)
        wires = [await stack.enter_async_context(Wire.open(plane)) for plane in bed.planes.values()]
        client = await stack.enter_async_context(bed.manager.client())
        ward = Ward(side, Driver(wires[0], wires[1:], namespace=side.namespace), client, jobs)
        results: list[tuple[Scenario, list[Pair]]] = []
        for scenario in scenarios:
            measured = []
            for number in range(1, pairs + 1):
                measured.append(await ward.pair(scenario))
                say(f"{scenario.name}: pair {number}, {measured[-1].ratio:.2f} of control")
            results.append((scenario, measured))
    return results


class Restarted(Ours):
    """Ours, which can be started anew while its clusters go on."""

    async def restart(self) -> None:
        """Start a new process, and wait until it acts."""
        await self.stop()
        before = self._times_ready()
        await self.start()

        async def is_ready() -> bool:
            return self._times_ready() > before

        await eventually(is_ready, timeout=RECOVERY_SECONDS)

    def _times_ready(self) -> int:
        return self.process.log.read_text(errors="replace").count("manager.ready")


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
            if scenario.when == "burst":
                await self._set(scenario, sick=sick)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.driver.submit, [f"burst-{n:05}" for n in range(self.jobs)])
                if scenario.when == "quarter":
                    await self._reached(self.jobs // 4)
                    await self._set(scenario, sick=sick)
                await self._reached(number)
            run = run_of(times, number)
            await self._set(scenario, sick=False)
            await self._reached(self.jobs)
        await self._recover()
        return run

    async def _set(self, scenario: Scenario, *, sick: bool) -> None:
        link = list(self.side.links.values())[-1]
        if not sick:
            link.ok()
        elif scenario.mode == "latency":
            link.latency(LATENCY_SECONDS)
        else:
            getattr(link, scenario.mode)()

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
