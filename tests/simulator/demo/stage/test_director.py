"""Steps of a play: what is done is done once, and can be undone."""

from __future__ import annotations

import anyio

from fakekube.network.link import State
from multikueue_simulator.demo.scripts.story import story
from multikueue_simulator.demo.scripts.values import Die, Fill, Hang, KillManager, Recover, Return, Step
from multikueue_simulator.demo.stage.stage import Stage
from multikueue_simulator.world.world import Worker
from tests.simulator.demo.stage.on_stage import on_stage

PLAY = story(workers=2, jobs=2, seed=1)


def link(stage: Stage, worker: str) -> State:
    return stage.world.network.link(stage.director.manager.name, worker).state


def runs(worker: Worker) -> bool:
    return worker.kueue.is_running and worker.runner.is_running


async def do(stage: Stage, step: Step) -> None:
    await stage.director.perform(step, stage.director.worker_of(step, "no-such-hero"))


def test_a_worker_dies_once_and_comes_back() -> None:
    async def test(stage: Stage) -> None:
        worker = stage.world.workers["medium"]
        for _ in range(2):
            await do(stage, Die())
            assert (stage.director.dead, link(stage, "medium"), runs(worker)) == (["medium"], State.REFUSE, False)
        for _ in range(2):
            await do(stage, Return())
            assert (stage.director.dead, link(stage, "medium"), runs(worker)) == ([], State.UP, True)

    on_stage(PLAY, test)


def test_a_network_that_hangs_stays_so_over_a_death() -> None:
    async def test(stage: Stage) -> None:
        await do(stage, Hang("small"))
        assert link(stage, "small") is State.HANG
        await do(stage, Die("small"))
        await do(stage, Return("small"))
        assert link(stage, "small") is State.HANG
        await do(stage, Recover("small"))
        assert (link(stage, "small"), stage.director.hanging) == (State.UP, set())

    on_stage(PLAY, test)


def test_a_manager_that_is_killed_starts_again_once() -> None:
    async def test(stage: Stage) -> None:
        for _ in range(2):
            await do(stage, KillManager(seconds=2.0))
            assert stage.director.is_manager_down
        assert not stage.director.manager.is_running
        await anyio.sleep(3.0)
        assert (stage.director.manager.is_running, stage.director.manager.runs) == (True, 2)
        assert not stage.director.is_manager_down

    on_stage(PLAY, test)


def test_others_take_what_a_worker_has() -> None:
    async def test(stage: Stage) -> None:
        await do(stage, Fill("medium", 30.0))
        await anyio.sleep(2.0)
        stand = stage.board.stands["medium"]
        assert sum(stand.others.values()) == stand.cpu

    on_stage(PLAY, test)
