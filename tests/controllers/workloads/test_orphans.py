"""Workloads whose job was deleted without them (`kubectl delete job --cascade=orphan`): they end, as in Kueue since 0.18."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import Quota, Retention
from tests.controllers.table import NAMESPACE, Body, Table, table

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")
WHEN = ("running", "asked of no worker", "without quota", "deactivated")


async def orphaned(when: str, world: Table) -> ObjectKey:
    if when == "without quota":
        world.submit("first")
        await world.settle()
    world.submit()
    await world.settle()
    key = world.key()
    if when == "running":
        world.admit("w1")
        await world.settle()
        assert world.runs_on() == ["w1"]
    if when == "deactivated":
        world.manager.change(kinds.WORKLOADS, key, {"spec": {"active": False}})
        await world.settle()
    world.manager.change(kinds.WORKLOADS, key, {"metadata": {"ownerReferences": None}})
    world.manager.drop(kinds.JOBS, JOB)
    return key


async def passes(world: Table, key: ObjectKey, minutes: int = 1, times: int = 6) -> Body | None:
    for _ in range(times):
        await world.settle()
        world.time += timedelta(minutes=minutes)
        world.queues.workloads.add(key)
    await world.settle()
    return world.manager.find(kinds.WORKLOADS, key)


def finished(left: Body) -> list[tuple[str, str]]:
    return [(c["status"], c["reason"]) for c in left["status"]["conditions"] if c["type"] == "Finished"]


@pytest.mark.parametrize("when", WHEN)
async def test_the_workload_of_an_orphan_ends_and_nothing_of_it_is_left(when: str) -> None:
    world = table(quota=1)
    key = await orphaned(when, world)
    left = await passes(world, key)
    assert left is not None
    assert finished(left) == [("True", "OwnerNotFound")]
    assert not any(cluster.find(kinds.WORKLOADS, key) for cluster in world.workers.values())
    assert world.runs_on() == []


async def test_it_ends_when_its_job_is_gone_on_the_worker_and_not_before() -> None:
    world = table(quota=1)
    key = await orphaned("running", world)
    world.workers["w1"].change(kinds.JOBS, JOB, {"metadata": {"finalizers": ["x/y"]}, "status": {"active": 1}})
    world.submit("next")
    left = await passes(world, key)
    assert left is not None
    assert finished(left) == []
    world.workers["w1"].drop(kinds.JOBS, JOB)
    left = await passes(world, key)
    assert left is not None
    assert finished(left) == [("True", "OwnerNotFound")]
    world.queues.workloads.add(world.key("next"))
    await passes(world, world.key("next"))
    assert (world.condition("QuotaReserved", "next") or {}).get("status") == "True"


async def test_retention_removes_it() -> None:
    world = table(quota=1, retention=Retention(after_finished=timedelta(hours=1)))
    key = await orphaned("running", world)
    assert await passes(world, key, minutes=40) is None


async def test_as_kueue_before_018_it_does_not_end() -> None:
    world = table(quota=1, rules=Quota(compatibility="0.16"))
    left = await passes(world, await orphaned("running", world))
    assert left is not None
    assert finished(left) == []


async def test_a_workload_that_never_had_a_job_is_none() -> None:
    world = table()
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    key = ObjectKey(NAMESPACE, "own")
    spec = {"queueName": "main", "podSets": [pod_set]}
    world.manager.put(kinds.WORKLOADS, {"metadata": {"name": "own", "namespace": NAMESPACE}, "spec": spec})
    left = await passes(world, key)
    assert left is not None
    assert finished(left) == []
