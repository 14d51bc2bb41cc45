"""Under pressure queues stay as long as there are keys, tenants and workers take nothing from one another, order is kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest

from fakekube.network.link import Weather
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue_simulator.time import run
from multikueue_simulator.world.world import MANAGER, NAMESPACE
from tests.costs.fleet import quickly
from tests.costs.pressure import NAME, OTHERS, Play, playing

T = TypeVar("T")

LINES = 64
"""Lines of a watch between two turns of others (`kube.reflector`)."""


def played(play: Callable[[Play], Awaitable[T]], **options: int) -> tuple[T, Play]:
    async def main() -> tuple[T, Play]:
        async with playing(**options) as world:
            return await play(world), world

    with quickly():
        return run(main)


def test_many_jobs_at_once_wait_in_queues_once_each() -> None:
    jobs = 40

    async def play(world: Play) -> float:
        names = world.submit(jobs)
        return await world.until(lambda: all(map(world.has_ended, names)))

    _, world = played(play)
    assert world.pressure.longest_queue <= jobs + 1
    assert world.counts["workload reconciles"] <= 10 * jobs


def test_a_flood_of_events_of_one_object_is_looked_at_as_often_as_others_have_a_turn() -> None:
    events = 2000

    async def play(world: Play) -> None:
        world.submit(1, seconds=10_000)
        await anyio.sleep(10)
        world.counts.clear()
        key = ObjectKey(NAMESPACE, "job-0000")
        for number in range(events):
            world.world.manager.patch(kinds.JOBS, key, {"metadata": {"labels": {"seen": str(number)}}})
        await anyio.sleep(60)

    _, world = played(play)
    looks = world.counts["job reconciles"] + world.counts["workload reconciles"]
    assert 0 < looks <= 4 * events / LINES
    assert world.pressure.longest_queue <= 4


def test_a_tenant_with_few_jobs_waits_for_no_tenant_with_many() -> None:
    async def play(world: Play) -> tuple[float, float]:
        world.world.network.link(NAME, MANAGER).weather = Weather(latency=(0.1, 0.1))  # so that calls are scarce
        many = world.submit(40, word="many")
        await anyio.sleep(0.05)
        few = world.submit(3, namespace=OTHERS, word="few")
        for_few = await world.until(lambda: all(world.has_ended(name, OTHERS) for name in few))
        return for_few, for_few + await world.until(lambda: all(map(world.has_ended, many)))

    (few, many), _ = played(play, at_once=4)
    assert few <= many / 2


def test_a_worker_that_answers_once_a_second_holds_up_nobody() -> None:
    jobs = 20

    def ending(*, slow: bool) -> tuple[float, Play]:
        async def play(world: Play) -> float:
            if slow:
                world.world.network.link(NAME, "worker-0").weather = Weather(latency=(0.45, 0.45))
            names = world.submit(jobs)
            return await world.until(lambda: all(map(world.has_ended, names)))

        return played(play)

    (alone, _), (beside, world) = ending(slow=False), ending(slow=True)
    assert beside <= alone + 2
    assert world.pressure.longest_queue <= jobs + 1


@pytest.mark.timeout(600)  # two bursts of 120 on a busy machine
def test_distance_costs_a_burst_a_few_round_trips_and_no_rate() -> None:
    jobs, way = 120, 0.2

    def ending(*, round_trip: float) -> float:
        async def play(world: Play) -> float:
            for worker in world.world.workers:
                world.world.network.link(NAME, worker).weather = Weather(latency=(round_trip / 2, round_trip / 2))
            names = world.submit(jobs)
            return await world.until(lambda: all(map(world.has_ended, names)))

        return played(play)[0]

    near, far = ending(round_trip=0.0), ending(round_trip=way)
    assert far <= near + 10 * way


def test_jobs_start_in_the_order_in_which_they_were_submitted() -> None:
    async def play(world: Play) -> list[str]:
        world.submit(1, word="first", seconds=60)
        names = []
        for number in range(12):
            await anyio.sleep(1.1)  # the time of creation has seconds
            names += world.submit(1, word=f"then-{number:02}", seconds=5)
        await world.until(lambda: all(map(world.has_ended, names)))
        return names

    names, world = played(play, cpu=1)
    assert world.pressure.jobs_made == ["first-0000", *names]
