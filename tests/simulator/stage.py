"""A furnished world on virtual time, for tests that are programs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world.world import Layout, World

__all__ = ["perform"]


def perform(layout: Layout, test: Callable[[World, TaskGroup], Awaitable[None]]) -> None:
    """The test runs in it, with its workers running."""

    async def main() -> None:
        random.seed(1)
        world = World(layout, clock=VirtualClock(), seed=1)
        world.apply_fixtures()
        async with anyio.create_task_group() as tasks:
            await world.start(tasks)
            await test(world, tasks)
            tasks.cancel_scope.cancel()

    run(main)
