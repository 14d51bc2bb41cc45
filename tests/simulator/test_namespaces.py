"""A clumsy administrator takes a namespace away from under a job that runs, while the manager works or while it is down."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest
from anyio.abc import TaskGroup

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import Cluster, Dispatch, InForce, Settings
from multikueue.store.workers.watch_scope import NAMESPACES_ANNOTATION
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform
from tests.simulator.test_job_kinds import until

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 8), Share("w2", 8)))
LOST = timedelta(minutes=15)
SETTINGS = Settings(cluster=Cluster(namespace=LAYOUT.secrets), dispatch=Dispatch(worker_lost_timeout=LOST))
JOB = ObjectKey(NAMESPACE, "job")


def offer(world: World, worker: str, namespaces: str | None) -> None:
    change = {"metadata": {"annotations": {NAMESPACES_ANNOTATION: namespaces}}}
    world.manager.patch(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", worker), change)


def winner(world: World) -> str:
    found = [each.get("status", {}).get("clusterName") for each in world.manager.all(kinds.WORKLOADS)]
    return str(found[0] or "") if found else ""


def is_finished(world: World) -> bool:
    conditions = (world.manager.stored(kinds.JOBS, JOB) or {}).get("status", {}).get("conditions", ())
    return any(each["type"] == "Complete" for each in conditions)


@pytest.mark.parametrize("undone", [True, False], ids=["undone in time", "for good"])
@pytest.mark.parametrize("down", [False, True], ids=["while the manager works", "while it is down"])
def test_what_runs_stays_for_as_long_as_a_worker_may_be_away_and_is_queued_again_then(
    *, down: bool, undone: bool
) -> None:
    async def scenario(world: World, tasks: TaskGroup) -> None:
        manager = world.add_manager("manager-0", InForce(SETTINGS))
        await manager.begin(tasks).wait()
        world.manager.create(kinds.JOBS, objects.job("job", NAMESPACE, queue="main", seconds=2 * LOST.total_seconds()))
        await until(lambda: winner(world))
        first = winner(world)
        other = next(name for name in world.workers if name != first)
        if down:
            manager.kill()
        offer(world, first, "another")
        if down:
            await manager.begin(tasks).wait()
        await anyio.sleep(LOST.total_seconds() * 0.8)
        assert winner(world) == first
        if undone:
            offer(world, first, None)
            await until(lambda: is_finished(world), within=3 * LOST.total_seconds())
            assert winner(world) in (first, "")
            return
        await until(lambda: winner(world) == other, within=LOST.total_seconds())
        assert world.workers[first].site.stored(kinds.JOBS, JOB) is not None, "nobody may remove it there"

    perform(LAYOUT, scenario)
