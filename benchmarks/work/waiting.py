"""(i) One job ends while many others wait, of ten sizes and three priorities: what that end costs, in writes and CPU.

Too little becomes free for any of them, so nothing else is to be done. Neither the script nor the peer has a part: one knows no
queue, and the other would take an hour to have so many waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import anyio

from benchmarks import meters
from benchmarks.bench import calls_since, marks, playing
from benchmarks.driver import Driver
from benchmarks.figures import at_most
from benchmarks.lines import Line, grown, itself, longest_turn
from benchmarks.sides import Observed
from benchmarks.timeline import Stage
from benchmarks.work.core import Result, Setting
from benchmarks.work.mixed import add_priorities, crowd, reached

__all__ = ["Ends", "lines", "measure", "sizes"]

WORKERS = 1
FEW, MANY = 30, {True: 10_000, False: 3_000}
ENDS = 5
"""Jobs that end for each number that waits. Each is of 100m, and so little is never enough."""

LARGE, LEAST = 3000, 2100
"""Milli-CPU of the job that runs on, and of the smallest that waits."""

MOST_WRITES, MOST_GROWTH = 5, 1.5
"""The statuses of the Job, its Workload and its two queues."""

QUIET_SECONDS = 2.0
"""After an end all that follows from it is over: work that was parked is looked at after a second."""


@dataclass(frozen=True, slots=True)
class Ends:
    """For one end: writes of the manager on its own cluster, without events, and milliseconds of CPU; with so many waiting."""

    waiting: int
    writes: float
    cpu: float


def sizes(setting: Setting) -> Sequence[int]:
    return FEW, setting.pending or MANY[setting.full]


async def measure(setting: Setting) -> Result:
    async with setting.clusters(setting.workers or WORKERS) as bed:
        side = Observed(bed)
        small = ENDS * len(sizes(setting))
        side.quota = {"cpu": f"{LARGE + 100 * small}m", "memory": "1000000Gi"}
        async with playing(side, setting.say) as driver, driver.watching():
            await _begin(side, driver, small)
            found = [await _ends(side, driver, waiting, setting) for waiting in sizes(setting)]
            turn = await side.longest_turn()
    return Result(lines(found, turn))


async def _begin(side: Observed, driver: Driver, small: int) -> None:
    """Small jobs run, to be ended in this order, and then a large one."""
    await add_priorities(side.bed)
    driver.hold()
    await driver.submit([f"small-{number:03}" for number in range(small)])
    await reached(driver, Stage.RELEASED, small)
    driver.ask(cpu=f"{LARGE}m")
    await driver.submit(["large"])
    await reached(driver, Stage.RELEASED, small + 1)


async def _ends(side: Observed, driver: Driver, waiting: int, setting: Setting) -> Ends:
    """Fills up to so many that wait, and lets some end."""
    there = driver.times.count(Stage.SUBMITTED) - driver.times.count(Stage.RELEASED)
    await crowd(driver, side.bed, [f"waiting-{number:05}" for number in range(there, waiting)], LEAST, setting.say)
    over, before, busy = driver.times.count(Stage.FINISHED), await marks(side.bed), meters.cpu_seconds(side.process.pid)
    for number in range(1, ENDS + 1):
        await driver.end_one()
        await reached(driver, Stage.FINISHED, over + number)
        await anyio.sleep(QUIET_SECONDS)
    busy = meters.cpu_seconds(side.process.pid) - busy
    manager, _ = await calls_since(side.bed, before, ENDS)
    setting.say(f"{waiting:,} wait: {manager.by}")
    return Ends(waiting, manager.writes - manager.events, 1000 * busy / ENDS)


def lines(found: Sequence[Ends], turn: float) -> list[Line]:
    few, many = found
    what = f"an end with {few.waiting:,} and {many.waiting:,} waiting"
    return [
        *(itself(f"an end with {each.waiting:,} waiting: writes", each.writes, at_most(MOST_WRITES)) for each in found),
        itself(f"an end with {few.waiting:,} waiting: CPU, ms", few.cpu),
        grown(
            f"an end with {many.waiting:,} waiting: CPU, ms",
            "with few",
            at_most(MOST_GROWTH),
            unit=few.cpu,
            ours=many.cpu,
        ),
        longest_turn(what, turn),
    ]
