"""A play on virtual time, without ports and webhooks, for tests that are programs."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import anyio

from multikueue.settings import InForce
from multikueue_simulator.demo.scripts.values import Play
from multikueue_simulator.demo.stage.director import Director
from multikueue_simulator.demo.stage.options import Options, settings_of, timings_of
from multikueue_simulator.demo.stage.scene import scene
from multikueue_simulator.demo.stage.stage import Stage, board_of
from multikueue_simulator.time import VirtualClock, run

__all__ = ["on_stage", "played"]


def on_stage(
    play: Play, test: Callable[[Stage], Awaitable[None]], *, act: str = "", strategy: str = "all-at-once"
) -> Stage:
    """The test runs once the manager does; then all of it ends."""

    async def main() -> Stage:
        random.seed(1)
        options = Options(act=act, strategy=strategy)
        world = scene(play, clock=VirtualClock(), seed=1, strategy=strategy)
        manager = world.add_manager(
            "manager-0", InForce(settings_of(options, play, webhook=False), timings_of(options))
        )
        board = board_of(play)
        async with anyio.create_task_group() as tasks:
            director = Director(world=world, board=board, manager=manager, tasks=tasks, speed=1.0)
            stage = Stage(options=options, play=play, world=world, board=board, director=director, webhook=False)
            await world.start(tasks)
            stage.attend()
            await manager.begin(tasks).wait()
            stage.began = anyio.current_time()
            await test(stage)
            tasks.cancel_scope.cancel()
        return stage

    return run(main)


async def played(stage: Stage) -> None:
    """Submit and act by the script until all jobs have finished."""
    async with anyio.create_task_group() as script:
        script.start_soon(stage.submit_all)
        script.start_soon(stage.act_all)
        with anyio.fail_after(300):
            while not stage.is_over:  # noqa: ASYNC110
                await anyio.sleep(0.25)
        script.cancel_scope.cancel()
