"""Jobs of ten sizes and three priorities, as a queue has them, and a crowd of such jobs that waits."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from benchmarks.bench import Say, calls_since, marks
from benchmarks.driver import Ask, Driver
from benchmarks.timeline import Stage
from testbed import objects
from testbed.bed import Testbed

__all__ = ["KINDS", "add_priorities", "at_rest", "cpu_of", "crowd", "mixed", "reached"]

SIZES, PRIORITIES = 10, 3
KINDS = SIZES * PRIORITIES

STEP = 100
"""Milli-CPU between one size and the next."""

CALM_SECONDS = 12
"""Who writes nothing for so long is at rest: jobs that wait are called suspended after ten."""

PATIENCE_SECONDS = 120


def mixed(least: int = STEP) -> Sequence[Ask]:
    """What jobs ask for in turn, from so much milli-CPU on. Neighbours differ in both."""
    return [Ask(f"{least + STEP * (kind % SIZES)}m", _named(kind % PRIORITIES)) for kind in range(KINDS)]


def cpu_of(jobs: int, least: int = STEP) -> int:
    """The milli-CPU of so many jobs that ask in turn for what is `mixed`."""
    return sum(least + STEP * (number % SIZES) for number in range(jobs))


async def add_priorities(bed: Testbed) -> None:
    """The WorkloadPriorityClasses of these jobs."""
    async with bed.manager.client() as client:
        for value in range(PRIORITIES):
            await client.apply(_priority_class(value))


async def crowd(driver: Driver, bed: Testbed, names: Sequence[str], least: int, say: Say) -> None:
    """Submits jobs of which the smallest asks for so much milli-CPU, more than ever becomes free, until all wait and nobody
    writes any more."""
    say(f"{len(names):,} more wait")
    queued = driver.times.count(Stage.QUEUED)
    driver.ask_in_turn(mixed(least))
    await driver.submit(names)
    await reached(driver, Stage.QUEUED, queued + len(names))
    await at_rest(bed)


async def at_rest(bed: Testbed) -> None:
    """Until nobody writes any more."""
    is_busy = True
    while is_busy:
        before = await marks(bed)
        await anyio.sleep(CALM_SECONDS)
        is_busy = (await calls_since(bed, before, 1))[0].writes > 0


async def reached(driver: Driver, stage: Stage, number: int) -> None:
    """Raises TimeoutError when nothing happens for long before so many jobs reach that stage."""
    if not await driver.reached(stage, number, patience=PATIENCE_SECONDS):
        raise TimeoutError(f"{driver.times.count(stage)} of {number} jobs came to this: {stage}")


def _named(priority: int) -> str:
    return f"bench-{priority}"


def _priority_class(value: int) -> objects.Object:
    about = {"apiVersion": objects.CLUSTER_QUEUE.api_version, "kind": "WorkloadPriorityClass"}
    return {**about, "metadata": {"name": _named(value)}, "value": value}
