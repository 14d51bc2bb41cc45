from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.kueue.workload import DRAINED_FROM_ANNOTATION
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import DRAIN_ANNOTATION, DRAINED, HUB_TAINTS_ANNOTATION
from multikueue.controllers.workers.draining import Drains
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio


async def running(world: Table) -> str:
    """The worker on which the job that is submitted runs."""
    await world.begin()
    assert world.workload()["status"]["clusterName"] == "w1"
    return "w1"


def ask(world: Table, name: str, value: str | None, annotation: str = DRAIN_ANNOTATION) -> None:
    body = {"metadata": {"annotations": {annotation: value}}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), body)


async def later(world: Table) -> None:
    """Once the worker's Kueue has stopped the job, and an attempt may have ended: none is shorter than two seconds."""
    world.evict("w1")
    world.time += timedelta(seconds=5)
    world.queues.workloads.add(world.key())
    await world.settle()


async def look(world: Table, name: str = "w1") -> tuple[str, str]:
    """What the condition says after a look; nothing without one."""
    await Drains(world.world).reconcile(name)
    cluster = world.manager.find(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name)) or {}
    found: list[Any] = [each for each in cluster.get("status", {}).get("conditions", []) if each["type"] == DRAINED]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


async def test_what_runs_there_queues_again_and_goes_elsewhere() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "requeue")

    status, message = await look(world)
    assert (status, message) == (
        "False",
        "workloads: 1 giving quota back, 1 with objects there",
    )
    await later(world)
    await look(world)
    await world.settle()

    assert DRAINED_FROM_ANNOTATION not in world.workload()["metadata"].get("annotations", {})
    assert world.workload()["spec"].get("active", True)
    assert "w1" not in world.workload()["status"].get("nominatedClusterNames", [])
    assert await look(world) == ("True", "nothing of ours is there")


async def test_what_runs_there_goes_on_until_the_time_is_over() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "wait=8h")

    for passed in (timedelta(), timedelta(hours=7)):
        world.time += passed
        assert await look(world) == ("False", "workloads: 1 running, 1 with objects there")
        assert world.workload()["spec"].get("active", True)

    world.time += timedelta(hours=1)
    await look(world)
    assert world.workload()["spec"]["active"] is False


async def test_without_a_time_nothing_is_stopped() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "wait")
    await look(world)
    world.time += timedelta(days=30)
    await look(world)
    assert world.workload()["spec"].get("active", True)


async def test_a_manager_that_starts_in_between_releases_what_was_held() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "requeue")
    await look(world)
    ask(world, "w1", None)
    world.start()
    await later(world)

    await look(world, "w2")

    assert world.workload()["spec"]["active"] is True


async def test_a_workload_that_somebody_else_holds_stays_held() -> None:
    world = table()
    await running(world)
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": False}})
    await world.settle()
    ask(world, "w1", "requeue")

    await look(world)
    await later(world)
    await look(world)

    assert world.workload()["spec"]["active"] is False


async def test_the_condition_goes_with_the_annotation() -> None:
    world = table()
    ask(world, "w1", "wait")
    assert (await look(world))[0] == "True"
    ask(world, "w1", None)
    assert await look(world) == ("", "")


async def test_a_look_without_news_writes_nothing() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "wait")
    await look(world)
    world.manager.calls.clear()
    await look(world)
    assert world.manager.calls == []


async def test_a_worker_that_is_away_is_drained_once_nothing_runs_there() -> None:
    world = table()
    world.cut("w1")
    ask(world, "w1", "requeue")
    assert await look(world) == ("True", "nothing of ours is there; it is not connected, so its objects cannot be seen")


async def test_a_word_that_is_none_only_cordons_and_is_told() -> None:
    world = table()
    await running(world)
    ask(world, "w1", "now")
    await look(world)
    assert world.workload()["spec"].get("active", True)
    (event,) = [each for each in world.recorder.waiting() if each["reason"] == "InvalidAnnotation"]
    assert "expected requeue, wait, or wait with a time, such as wait=8h, got 'now'" in event["message"]


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {DRAIN_ANNOTATION: "wait"}}},
        {"metadata": {"annotations": {HUB_TAINTS_ANNOTATION: "gpu=broken:NoSelect"}}},
    ],
    ids=["one that is drained", "one with a taint"],
)
async def test_new_workloads_stay_away_from(change: dict[str, Any]) -> None:
    world = table()
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), change)
    world.submit()
    await world.settle()
    assert sorted(world.workload()["status"]["nominatedClusterNames"]) == ["w2", "w3"]


async def test_what_waits_there_is_withdrawn_at_once() -> None:
    world = table()
    world.submit()
    await world.settle()
    ask(world, "w1", "wait")
    await world.settle()
    assert sorted(world.workload()["status"]["nominatedClusterNames"]) == ["w2", "w3"]
