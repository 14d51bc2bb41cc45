"""The sweep, as each role with workers runs it."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workers.sweep import STRIDE, sweep
from multikueue.runtime import WorkQueue
from multikueue.settings import (
    BESIDE_KUEUE,
    STANDALONE,
    Role,
)
from tests.controllers.table import table

pytestmark = pytest.mark.anyio

LABELS = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
LEFT = {"metadata": {"name": "left", "namespace": "team", "labels": LABELS}}


@pytest.mark.parametrize("roles", [STANDALONE, BESIDE_KUEUE], ids=["standalone", "beside Kueue"])
async def test_the_sweep_looks_again_at_what_workers_hold(roles: frozenset[Role]) -> None:
    world = table(roles=roles, gc_interval=timedelta(milliseconds=5))
    world.workers["w1"].put(kinds.WORKLOADS, LEFT)
    world.queues.workloads = WorkQueue()  # the event was missed
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.runnables.tasks[-1])
        assert await world.queues.workloads.get() == ObjectKey("team", "left")
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("roles", [STANDALONE, BESIDE_KUEUE], ids=["standalone", "beside Kueue"])
async def test_the_sweep_looks_again_at_workers_without_an_object(roles: frozenset[Role]) -> None:
    world = table(roles=roles, gc_interval=timedelta(milliseconds=5))
    world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))
    world.queues.clusters = WorkQueue()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.runnables.tasks[-1])
        assert await world.queues.clusters.get() == "w1"
        assert len(world.queues.clusters) == 0, "the others have one"
        tasks.cancel_scope.cancel()


async def test_an_interval_that_changes_counts_from_then_on_and_none_is_never() -> None:
    world = table(gc_interval=timedelta())
    world.workers["w1"].put(kinds.WORKLOADS, LEFT)
    world.queues.workloads = WorkQueue()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sweep, world.world)
        await anyio.wait_all_tasks_blocked()
        assert len(world.queues.workloads) == 0
        world.world.settings.take(table(gc_interval=timedelta(milliseconds=5)).settings)
        assert await world.queues.workloads.get() == ObjectKey("team", "left")
        tasks.cancel_scope.cancel()


async def test_a_sweep_over_much_lets_others_go_on_every_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    world, turns, twice = table(gc_interval=timedelta(milliseconds=1)), list[int](), anyio.Event()
    held = [ObjectKey("team", f"left-{n}") for n in range(2 * STRIDE + 1)]
    monkeypatch.setattr(type(world.store.worker("w1")), "held", lambda worker: held if worker.name == "w1" else [])
    world.queues.workloads = WorkQueue()

    async def turn() -> None:
        turns.append(len(world.queues.workloads))
        if len(turns) == 2:
            twice.set()
            await anyio.sleep_forever()

    monkeypatch.setattr("anyio.lowlevel.checkpoint", turn)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sweep, world.world)
        await twice.wait()
        tasks.cancel_scope.cancel()
    assert turns == [STRIDE, 2 * STRIDE]
