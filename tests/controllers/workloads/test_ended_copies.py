"""The copy of a finished job stays on its worker for a while, with its pods and their logs, and goes when its time is over."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.kueue.workload import LOGS_UNTIL
from multikueue.api.meta import ObjectKey, render_time
from multikueue.settings import Retention
from tests.controllers.table import CONFIG, NAMESPACE, Table, job_body, table

pytestmark = pytest.mark.anyio

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


async def ended(*names: str, retention: Retention = Retention(), quota: int = 100) -> Table:  # noqa: B008  # frozen
    """Jobs that have run to their ends on w1, a minute after one another."""
    world = table(retention=retention, quota=quota)
    for name in names:
        await end(world, name)
    return world


async def end(world: Table, name: str = "job") -> None:
    world.submit(name)
    await world.settle()
    world.admit("w1", name)
    await world.settle()
    assert world.runs_on(name) == ["w1"]
    world.finish("w1", name)
    await world.settle()
    world.time += timedelta(minutes=1)


async def pass_by(world: Table, time: timedelta) -> None:
    """The time passes, and whatever was to be looked at again by then is."""
    world.time += time
    for body in world.manager.all(kinds.WORKLOADS):
        world.queues.workloads.add(ObjectKey(NAMESPACE, body["metadata"]["name"]))
    await world.settle()


def left(world: Table, *names: str) -> list[str]:
    """Those that are still on a worker: copy and job, or neither."""
    assert [bool(world.copies(name)) for name in names] == [bool(world.runs_on(name)) for name in names]
    return [name for name in names if world.runs_on(name)]


async def test_it_stays_for_an_hour_and_its_workload_says_until_when() -> None:
    world = await ended("job")
    told = world.condition(LOGS_UNTIL)
    finished = world.condition("Finished")
    assert told is not None
    assert finished is not None
    assert told["message"] == render_time(world.time - timedelta(minutes=1) + HOUR)
    assert left(world, "job") == ["job"]
    await pass_by(world, HOUR - timedelta(minutes=2))
    assert left(world, "job") == ["job"]
    await pass_by(world, timedelta(minutes=1))
    assert left(world, "job") == []


async def test_it_goes_with_a_job_that_the_manager_cluster_deletes_by_itself() -> None:
    world = table(retention=Retention())
    body = job_body("job")
    body["spec"]["ttlSecondsAfterFinished"] = 90
    world.manager.put(kinds.JOBS, body)
    await world.settle()
    world.admit("w1")
    await world.settle()
    world.finish("w1")
    await world.settle()
    told = world.condition(LOGS_UNTIL)
    assert told is not None
    assert told["message"] == render_time(world.time + timedelta(seconds=90))
    await pass_by(world, timedelta(seconds=90))
    assert left(world, "job") == []


async def test_it_costs_nothing_but_its_later_removal() -> None:
    """One write fewer than a copy that goes at once would be a fault too: something would be left."""
    calls = []
    for retention in (Retention(), Retention(copies=timedelta())):
        world = await ended("job", retention=retention)
        await pass_by(world, DAY)
        calls.append([sorted(cluster.calls) for cluster in (world.manager, *world.workers.values())])
    assert calls[0] == calls[1]


async def test_what_is_due_is_found_after_a_restart() -> None:
    world = await ended("job")
    world.start()
    await pass_by(world, timedelta())
    assert left(world, "job") == ["job"]
    world.start()
    await pass_by(world, HOUR)
    assert left(world, "job") == []


async def test_a_burst_leaves_so_many_of_a_namespace_and_the_first_to_end_go_first() -> None:
    world = await ended("a", "b", "c", "d", retention=Retention(most_copies=2))
    assert left(world, "a", "b", "c", "d") == ["c", "d"]
    world.start()
    await pass_by(world, timedelta())
    assert left(world, "a", "b", "c", "d") == ["c", "d"]
    await end(world, "e")
    assert left(world, "c", "d", "e") == ["d", "e"]


async def test_a_lower_bound_counts_after_the_next_start() -> None:
    world = await ended("a", "b", "c")
    world.settings = world.settings.model_copy(update={"retention": Retention(most_copies=1)})
    world.start()
    await pass_by(world, timedelta())
    assert left(world, "a", "b", "c") == ["c"]


async def test_it_holds_no_quota() -> None:
    world = await ended("job", quota=1)
    await end(world, "next")
    assert left(world, "job", "next") == ["job", "next"]


async def test_it_goes_at_once_with_its_job() -> None:
    world = await ended("job")
    key = world.key()
    world.manager.drop(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    world.manager.drop(kinds.WORKLOADS, key)
    await world.settle()
    assert [cluster.all(kinds.JOBS) for cluster in world.workers.values()] == [[], [], []]


@pytest.mark.parametrize("worker", ["w1", "w2"])
async def test_a_job_of_the_same_name_runs_after_it_was_deleted(worker: str) -> None:
    world = await ended("job")
    key = world.key()
    world.manager.drop(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    world.manager.drop(kinds.WORKLOADS, key)
    world.submit("job")
    await world.settle()
    world.admit(worker)
    await world.settle()
    assert world.runs_on() == [worker]
    world.finish(worker)
    await world.settle()
    assert left(world, "job") == ["job"]


async def test_it_stays_while_its_worker_is_out_of_reach_and_goes_when_that_is_back() -> None:
    world = await ended("job")
    world.cut("w1")
    await pass_by(world, 2 * HOUR)
    assert left(world, "job") == ["job"]
    world.connect("w1")
    await pass_by(world, timedelta())
    assert left(world, "job") == []


async def test_a_worker_outside_the_configuration_keeps_it_as_long() -> None:
    world = await ended("job")
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", CONFIG), {"spec": {"clusters": ["w2", "w3"]}})
    await pass_by(world, timedelta())
    assert left(world, "job") == ["job"]
    await pass_by(world, HOUR)
    assert left(world, "job") == []


async def test_what_the_worker_itself_removes_is_gone() -> None:
    """As by `objectRetentionPolicies` of its Kueue: the rest goes with it, or when its time is over."""
    world = await ended("job", "other")
    world.workers["w1"].drop(kinds.WORKLOADS, world.key("job"))
    world.workers["w1"].drop(kinds.JOBS, ObjectKey(NAMESPACE, "other"))
    await pass_by(world, timedelta())
    assert world.runs_on("job") == []
    assert world.copies("other") == ["w1"]
    await pass_by(world, HOUR)
    assert world.copies("other") == []
