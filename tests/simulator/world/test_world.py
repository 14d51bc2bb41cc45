"""A world: clusters, programs that are killed and begun again, and who is trusted where."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import anyio
import pytest
from anyio.abc import TaskGroup

from fakekube.model.wire import Refused
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import Cluster, InForce, Retention, Settings
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World
from tests.simulator.stage import perform

LAYOUT = Layout(queues=(Share("main", 8),), workers=(Share("w1", 4), Share("w2", 8)))
JOB = ObjectKey(NAMESPACE, "job")


def in_a_world(test: Callable[[World, TaskGroup], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test runs on virtual time in a furnished world whose workers run."""

    def wrapped() -> None:
        perform(LAYOUT, test)

    wrapped.__name__, wrapped.__doc__ = test.__name__, test.__doc__
    return wrapped


def in_force() -> InForce:
    return InForce(Settings(cluster=Cluster(namespace=LAYOUT.secrets), retention=Retention(copies=timedelta(0))))


def submitted(world: World) -> None:
    world.manager.create(kinds.JOBS, objects.job("job", NAMESPACE, queue="main", seconds=2.0))


async def finished(world: World, *, within: float = 120.0) -> None:
    with anyio.fail_after(within):
        while not _is_complete(world.manager.stored(kinds.JOBS, JOB)):  # noqa: ASYNC110
            await anyio.sleep(0.5)


def _is_complete(job: dict[str, Any] | None) -> bool:
    conditions = (job or {}).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Complete" and each["status"] == "True" for each in conditions)


@in_a_world
async def test_a_job_goes_to_a_worker_and_comes_home_finished(world: World, tasks: TaskGroup) -> None:
    await world.add_manager("manager-0", in_force()).begin(tasks).wait()
    submitted(world)
    await finished(world)
    await anyio.sleep(5)
    assert [worker.site.all(kinds.JOBS) for worker in world.workers.values()] == [[], []]


@in_a_world
async def test_a_manager_that_is_killed_does_no_more_and_another_life_goes_on(world: World, tasks: TaskGroup) -> None:
    manager = world.add_manager("manager-0", in_force())
    await manager.begin(tasks).wait()
    manager.kill()
    assert not manager.is_running
    submitted(world)
    version = world.manager.cluster.storage.rv
    await anyio.sleep(60)
    assert world.manager.cluster.storage.rv == version
    await manager.begin(tasks).wait()
    await finished(world)
    assert manager.runs == 2


@in_a_world
async def test_a_manager_that_is_asked_to_stop_ends_by_itself(world: World, tasks: TaskGroup) -> None:
    ended: list[str] = []
    manager = world.add_manager("manager-0", in_force(), ended=ended.append)
    await manager.begin(tasks).wait()
    manager.stop()
    with anyio.fail_after(60):
        while manager.is_running:  # noqa: ASYNC110
            await anyio.sleep(0.5)
    assert (ended, manager.error) == (["manager-0"], None)


@in_a_world
async def test_nothing_runs_twice_at_a_time(world: World, tasks: TaskGroup) -> None:
    worker = world.workers["w1"]
    with pytest.raises(RuntimeError, match="runs already"):
        worker.kueue.begin(tasks)


@in_a_world
async def test_a_worker_without_its_kueue_admits_nothing(world: World, tasks: TaskGroup) -> None:
    world.workers["w1"].kueue.kill()
    await world.add_manager("manager-0", in_force()).begin(tasks).wait()
    submitted(world)
    await finished(world)
    (workload,) = world.manager.all(kinds.WORKLOADS)
    assert workload["status"]["clusterName"] == "w2"


@in_a_world
async def test_calls_on_the_spot_are_answered_or_refused(world: World, tasks: TaskGroup) -> None:
    assert world.site(MANAGER) is world.manager
    assert world.manager.find(kinds.JOBS, JOB) is None
    submitted(world)
    found = world.manager.find(kinds.JOBS, JOB)
    assert found is not None
    with pytest.raises(Refused) as refused:
        submitted(world)
    assert refused.value.code == 409
    world.manager.delete(kinds.JOBS, JOB)
    assert world.manager.stored(kinds.JOBS, JOB) is None
