"""One worker flaps, one is slow, and one hangs: what the others do meanwhile, on virtual time."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.network.link import Link, State, Weather
from multikueue.api import kinds
from multikueue.settings import Cluster, InForce, Settings
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform

BAD, GOOD = ("w1", "w2", "w3"), ("w4", "w5", "w6")
CPUS, SECONDS, MANY = 3, 20.0, 150
"""CPUs of a worker, seconds of a job, and jobs: more than all workers can do in the time that is looked at."""

LOOKED_AT = 120.0
LAYOUT = Layout(
    queues=(Share("main", CPUS * len(BAD + GOOD)),), workers=tuple(Share(name, CPUS) for name in BAD + GOOD)
)

Spoil = Callable[[Link], Coroutine[Any, Any, None]]


async def flaps(link: Link) -> None:
    while True:
        link.become(State.REFUSE)
        await anyio.sleep(4)
        link.become(State.UP)
        await anyio.sleep(4)


async def is_slow(link: Link) -> None:
    link.weather = Weather(latency=(1.0, 2.0))


async def hangs(link: Link) -> None:
    link.become(State.HANG)


def done_by_others(*spoils: Spoil) -> int:
    """How many jobs the good workers have done after a while."""
    done = 0

    async def scenario(world: World, tasks: TaskGroup) -> None:
        nonlocal done
        world.add_manager("manager-0", InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets)))).begin(tasks)
        await anyio.sleep(5)
        for number in range(MANY):
            world.manager.create(kinds.JOBS, objects.job(f"job{number}", NAMESPACE, queue="main", seconds=SECONDS))
        await anyio.sleep(5)
        for worker, spoil in zip(BAD, spoils, strict=False):
            tasks.start_soon(spoil, world.network.link("manager-0", worker))
        await anyio.sleep(LOOKED_AT)
        status = [each.get("status", {}) for each in world.manager.all(kinds.WORKLOADS)]
        ended = (each for each in status if any(c["type"] == "Finished" for c in each.get("conditions", ())))
        done = sum(each.get("clusterName") in GOOD for each in ended)

    perform(LAYOUT, scenario)
    return done


@pytest.mark.timeout(300)
def test_the_others_do_as_many_jobs_as_if_nothing_were_wrong() -> None:
    control = done_by_others()
    assert control > 40
    assert done_by_others(flaps, is_slow, hangs) >= 0.95 * control
