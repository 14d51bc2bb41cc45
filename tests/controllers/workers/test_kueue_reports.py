"""What Kueue says of the workers is all that a manager without connections knows of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey, render_time
from multikueue.controllers.workers.clusters import Reports
from multikueue.dispatch.remote import Reach
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio


async def told(world: Table, status: str | None, *, message: str = "") -> None:
    """Kueue says that of w1."""
    when = render_time(world.now() - timedelta(minutes=1))
    condition = {"type": "Active", "status": status, "reason": "Said", "message": message, "lastTransitionTime": when}
    conditions = [] if status is None else [condition]
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), {"status": {"conditions": conditions}})
    await Reports(world.world).reconcile("w1")


@pytest.mark.parametrize(
    ("status", "message", "reach", "why"),
    [
        pytest.param("True", "Connected", Reach.CONNECTED, "", id="active"),
        pytest.param("False", "no such host", Reach.ISOLATED, "no such host", id="not active, for a reason"),
        pytest.param("Unknown", "", Reach.ISOLATED, "Kueue has not said yet that it is active", id="unknown"),
        pytest.param(None, "", Reach.ISOLATED, "Kueue has not said yet that it is active", id="nothing said"),
    ],
)
async def test_a_worker_is_what_its_condition_says(status: str | None, message: str, reach: Reach, why: str) -> None:
    world = table()
    await told(world, status, message=message)
    worker = world.store.worker("w1")
    assert (worker.link.reach, worker.why) == (reach, why)


async def test_the_clock_of_a_loss_is_the_time_of_the_condition() -> None:
    world = table()
    await told(world, "False")
    assert world.store.worker("w1").link.since == world.now() - timedelta(minutes=1)
    await told(world, "True")
    assert world.store.worker("w1").link.since is None


async def test_a_cluster_that_is_gone_is_out_of_reach() -> None:
    world = table()
    await told(world, "True")
    world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))
    await Reports(world.world).reconcile("w1")
    assert world.store.worker("w1").link.reach is Reach.ISOLATED


async def test_a_cluster_that_is_gone_and_that_nothing_names_is_forgotten() -> None:
    world = table()
    await told(world, "True")
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", "mk"), {"spec": {"clusters": ["w2"]}})
    world.manager.drop(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"))
    for _ in range(2):
        await Reports(world.world).reconcile("w1")
        assert "w1" not in world.store.workers


async def test_workloads_look_again_when_a_worker_comes_or_goes_and_else_not() -> None:
    world = table()
    world.submit()
    await world.settle()
    assert len(world.queues.workloads) == 0
    await told(world, "False")
    assert len(world.queues.workloads) == 1
    await world.settle()
    await told(world, "False", message="")
    assert len(world.queues.workloads) == 0


async def test_all_workers_are_read_before_the_first_decision() -> None:
    world = table()
    for name in world.workers:
        world.cut(name)
    await Reports(world.world).read_all()
    assert {worker.link.reach for worker in world.store.workers.values()} == {Reach.CONNECTED}


async def test_nothing_is_written() -> None:
    world = table()
    await told(world, "False")
    assert world.manager.calls == []
