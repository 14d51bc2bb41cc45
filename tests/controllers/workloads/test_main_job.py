"""The main job through all controllers at once, over clusters in memory; its writes are counted."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workloads.workloads import Workloads
from tests.controllers.table import NAMESPACE, Table, job_body, table
from tests.controllers.workloads.main_job import JOB, running

pytestmark = pytest.mark.anyio


async def test_submit_makes_copies_everywhere() -> None:
    world = table()
    world.submit()
    await world.settle()
    assert world.status()["nominatedClusterNames"] == ["w1", "w2", "w3"]
    assert world.copies() == ["w1", "w2", "w3"]
    assert world.runs_on() == []


async def test_the_first_to_admit_gets_the_job_and_the_others_lose_their_copies() -> None:
    world = await running()
    assert world.runs_on() == ["w1"]
    assert world.copies() == ["w1"]
    assert world.status()["clusterName"] == "w1"
    assert world.condition("Admitted") is not None
    assert (world.manager.find(kinds.JOBS, JOB) or {})["spec"]["suspend"] is False


@pytest.mark.parametrize(("tell", "told"), [(True, ['The workload was admitted on "w1"']), (False, [])])
async def test_who_won_is_told_unless_that_is_switched_off(tell: bool, told: list[str]) -> None:
    world = await running(tell_wins=tell)
    assert [message for reason, message in world.said() if reason == "MultiKueue"] == told


async def test_the_result_comes_home_and_nothing_is_left() -> None:
    world = await running()
    world.finish("w1")
    await world.settle()
    local = world.manager.find(kinds.JOBS, JOB) or {}
    assert local["status"]["succeeded"] == 1
    finished = world.condition("Finished")
    assert finished is not None
    assert finished["reason"] == "Succeeded"
    assert (world.copies(), world.runs_on()) == ([], [])


async def test_the_write_budget_is_held() -> None:
    world = table()
    await world.settle()
    world.manager.calls.clear()
    await world.begin()
    world.finish("w1")
    await world.settle()
    assert sorted(world.manager.writes()) == sorted(
        [
            "create workloads",
            "patch workloads/status",  # quota and nomination
            "patch workloads/status",  # the win
            "patch jobs",  # unsuspended
            "patch jobs/status",  # the result
            "patch workloads/status",  # finished
        ]
    )
    assert [len(cluster.calls) for cluster in world.workers.values()] == [4, 2, 2]
    assert not [call for cluster in world.workers.values() for call in cluster.calls if call.startswith("get")]


async def test_looking_at_everything_again_writes_nothing() -> None:
    world = await running()
    before = [len(c.calls) for c in (world.manager, *world.workers.values())]
    for key in (world.key(),):
        world.queues.workloads.add(key)
    world.queues.jobs.add(JobKey("Job.batch", *JOB))
    await world.settle()
    assert [len(c.calls) for c in (world.manager, *world.workers.values())] == before


@pytest.mark.parametrize("events", range(1, 16))
async def test_a_new_process_goes_on_wherever_the_old_one_died(events: int) -> None:
    """The old process dies after that many reconciles; the new one knows nothing but the objects."""
    world = table()
    world.submit()
    await _some(world, events)
    world.start()
    await world.settle()
    if not world.runs_on():
        world.admit("w2")
        await world.settle()
    (worker,) = world.runs_on()
    world.finish(worker)
    await world.settle()
    assert world.condition("Finished") is not None
    assert (world.copies(), world.runs_on()) == ([], [])


async def _some(world: Table, count: int) -> None:
    """A part of `settle`: so many looks at whatever comes first, the worker admitting in between."""
    from multikueue.controllers.workloads.jobs import Jobs

    jobs, workloads = Jobs(world.world), Workloads(world.world)
    for number in range(count):
        world._cycle()
        loops: list[tuple[Any, Any]] = [
            (world.queues.jobs, jobs.reconcile),
            (world.queues.workloads, workloads.reconcile),
        ]
        boxes = [(world.queues.outboxes[n], o.reconcile) for n, o in world.outboxes.items()]
        for queue, reconcile in (*boxes, *loops):
            if len(queue):
                await world._one(queue, reconcile)
                break
        if number == 8 and "w2" in world.copies():
            world.admit("w2")


async def test_deleting_the_job_removes_everything() -> None:
    world = await running()
    key = world.key()
    world.manager.drop(kinds.JOBS, JOB)
    await world.manager.delete(kinds.WORKLOADS, key)  # as the garbage collector does
    await world.settle()
    assert world.manager.find(kinds.WORKLOADS, key) is None
    assert world.runs_on() == []
    assert all(cluster.find(kinds.WORKLOADS, key) is None for cluster in world.workers.values())


async def test_quota_is_what_limits_dispatch() -> None:
    world = table(quota=2)
    for number in range(5):
        world.submit(f"job{number}")
    await world.settle()
    assert sum(bool(world.copies(f"job{n}")) for n in range(5)) == 2
    waiting = [world.condition("QuotaReserved", f"job{n}") for n in range(5)]
    assert sum(c is not None and c["status"] == "False" for c in waiting) == 3


async def test_the_statuses_of_the_queues_are_true() -> None:
    world = await running()
    await world.statuses()
    queue = world.manager.find(kinds.CLUSTER_QUEUES, ObjectKey("", "cq")) or {}
    assert (queue["status"]["reservingWorkloads"], queue["status"]["admittedWorkloads"]) == (1, 1)
    before = len(world.manager.calls)
    await world.statuses()
    assert len(world.manager.calls) == before


async def test_a_job_managed_by_somebody_else_is_explained() -> None:
    world = table()
    world.submit(managed=False)
    await world.settle()
    assert world.copies() == []
    assert [reason for reason, message in world.said() if CONTROLLER_NAME in message] == ["Undispatchable"]


# Jobs that belong to others.
async def test_what_belongs_to_a_job_is_held_until_that_is_admitted_and_has_no_workload() -> None:
    world = table()
    world.submit()
    parent = world.manager.find(kinds.JOBS, JOB) or {}
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "job",
        "uid": parent["metadata"]["uid"],
        "controller": True,
    }
    child = job_body("child", managed=False, suspend=False)
    child["metadata"]["ownerReferences"] = [owner]
    world.manager.put(kinds.JOBS, child)
    await world.settle()

    def suspended() -> bool:
        found: bool = (world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, "child")) or {})["spec"]["suspend"]
        return found

    assert suspended()
    assert ("Suspended", "The job it belongs to is not admitted") in world.said()

    world.admit("w1")
    await world.settle()
    assert suspended(), "whoever made it lets it go"

    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "child"), {"spec": {"suspend": False}})
    await world.settle()
    assert not suspended()

    world.evict("w1")
    await world.settle()
    assert suspended()
    assert [w["metadata"]["ownerReferences"][0]["name"] for w in world.manager.all(kinds.WORKLOADS)] == ["job"]


async def test_a_copy_that_arrives_after_the_race_is_over_is_removed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = table()
    world.submit()
    create = world.workers["w3"].create

    async def slow(*words: Any, **more: Any) -> Any:
        """While the copy is on its way to w3, w1 wins."""
        monkeypatch.undo()
        world.admit("w1")
        workloads = Workloads(world.world)
        for _ in range(3):
            await workloads.reconcile(world.key())
            for name in ("w1", "w2"):
                await world.outboxes[name].reconcile(world.key())
        assert world.status()["clusterName"] == "w1"
        return await create(*words, **more)

    monkeypatch.setattr(world.workers["w3"], "create", slow)
    await world.settle()
    assert world.runs_on() == ["w1"]
    assert world.copies() == ["w1"]


async def test_nothing_is_kept_of_what_is_over() -> None:
    world = table()
    await world.begin()
    assert world.store.plans.get(world.key()) is not None
    world.finish("w1")
    await world.settle()
    assert world.copies() == world.runs_on() == []
    assert not world.store.plans._newest
    assert not world.store._places._of
