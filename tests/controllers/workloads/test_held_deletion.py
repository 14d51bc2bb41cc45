"""A job deleted by its user, of which something is left on a worker: told, and quota is held for what may run only."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.errors import ClusterUnreachable, Forbidden
from tests.controllers.table import NAMESPACE, Table, table

pytestmark = pytest.mark.anyio

JOB = ObjectKey(NAMESPACE, "job")
HELD = {"metadata": {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}}


async def running() -> tuple[Table, ObjectKey]:
    """A job runs on w1, and another one waits for its quota."""
    world = table(quota=1)
    await world.begin()
    assert world.runs_on() == ["w1"]
    world.submit("next")
    await world.settle()
    return world, world.key()


async def delete(world: Table, key: ObjectKey) -> None:
    await world.manager.delete(kinds.JOBS, JOB)
    if world.manager.find(kinds.WORKLOADS, key) is not None:
        await world.manager.delete(kinds.WORKLOADS, key)
    await world.settle()


async def pass_(world: Table, key: ObjectKey, seconds: int) -> None:
    await pass_once(world, key, seconds)
    await pass_once(world, key, 2)  # parked work waits for a second


async def pass_once(world: Table, key: ObjectKey, seconds: int) -> None:
    world.time += timedelta(seconds=seconds)
    for name in world.outboxes:
        world.queues.outboxes[name].add(key)
    for each in (key, world.key("next")):
        world.queues.workloads.add(each)
    await world.settle()


def has_quota(world: Table) -> bool:
    return (world.condition("QuotaReserved", "next") or {}).get("status") == "True"


async def test_a_copy_that_only_the_workers_kueue_may_release_is_named_and_holds_no_quota() -> None:
    world, key = await running()
    world.workers["w1"].change(kinds.WORKLOADS, key, HELD)
    await world.settle()
    await delete(world, key)
    assert world.manager.find(kinds.WORKLOADS, key) is not None
    await pass_(world, key, 61)
    assert world.manager.find(kinds.WORKLOADS, key) is None
    assert has_quota(world)
    (words,) = [words for _, words in world.said() if "deletion" in words]
    assert words == (
        f'The deletion waits for what is left: Workload {key} on worker cluster "w1" is held by '
        "kueue.x-k8s.io/resource-in-use: see to who has to take it away there"
    )
    world.workers["w1"].drop(kinds.WORKLOADS, key)
    await pass_(world, key, 60)
    assert world.workers["w1"].find(kinds.WORKLOADS, key) is None


async def test_a_job_that_does_not_go_is_named_and_holds_its_quota() -> None:
    world, key = await running()
    world.workers["w1"].change(kinds.JOBS, JOB, {"metadata": {"finalizers": ["x/y"]}})
    await world.settle()
    await delete(world, key)
    for _ in range(5):
        await pass_(world, key, 61)
    left = world.manager.find(kinds.WORKLOADS, key)
    assert left is not None
    assert not has_quota(world)
    told = [words for _, words in world.said() if "deletion" in words]
    (check,) = left["status"]["admissionChecks"]
    assert told == [check["message"]]
    assert f'Job {JOB} on worker cluster "w1"' in told[0]
    assert "x/y" in told[0]
    world.workers["w1"].drop(kinds.JOBS, JOB)
    await pass_(world, key, 60)
    assert world.manager.find(kinds.WORKLOADS, key) is None
    assert has_quota(world)


async def test_a_copy_that_may_not_be_deleted_is_named_and_holds_no_quota() -> None:
    world, key = await running()
    no = Forbidden(403, "Forbidden", "no")
    world.workers["w1"].fault = lambda verb, plural: no if (verb, plural) == ("delete", "workloads") else None
    await delete(world, key)
    assert any("the copy cannot be deleted: 403 Forbidden: no" in words for _, words in world.said())
    await pass_(world, key, 61)
    assert has_quota(world)


async def test_a_job_that_may_have_been_made_holds_its_quota_until_that_is_known() -> None:
    world = table(quota=1)
    world.submit()
    await world.settle()
    lost = ClusterUnreachable("w1", "no answer in time")
    world.workers["w1"].fault = lambda verb, plural: lost if (verb, plural) == ("create", "jobs") else None
    world.admit("w1")
    await world.settle()
    key = world.key()
    no = Forbidden(403, "Forbidden", "no")
    world.workers["w1"].fault = lambda verb, plural: no if (verb, plural) == ("get", "jobs") else None
    world.outboxes["w1"].breaker.trust()
    world.submit("next")
    await delete(world, key)
    for _ in range(3):
        await pass_(world, key, 61)
    assert not has_quota(world)
    assert any("cannot be read: 403 Forbidden: no" in words for _, words in world.said())
    world.workers["w1"].fault = lambda _verb, _plural: None
    await pass_(world, key, 61)
    assert has_quota(world)


async def test_what_goes_in_time_is_said_to_nobody() -> None:
    world, key = await running()
    await delete(world, key)
    await pass_(world, key, 61)
    assert has_quota(world)
    assert not [words for _, words in world.said() if "deletion" in words]
