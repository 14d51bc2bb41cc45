"""What has been over for long is removed (quota-engine 5.3, QE-337)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workloads.retention import RetentionSweep
from multikueue.runtime import DONE
from multikueue.settings import PodsReady, Quota
from multikueue.settings import Retention as Kept
from tests.controllers.table import NAMESPACE, Table, table

pytestmark = pytest.mark.anyio

HOUR = timedelta(hours=1)
FINISHED = Kept(after_finished=HOUR)
DEACTIVATED = Kept(after_deactivated=HOUR)
ONE_CHANCE = PodsReady(enabled=True, timeout=timedelta(minutes=5), backoff_limit_count=0)
JOB = ObjectKey(NAMESPACE, "job")


async def finished(retention: Kept) -> Table:
    world = table(retention=retention)
    await running(world)
    world.finish("w1")
    await world.settle()
    assert condition(world, "Finished") == ("True", "Succeeded")
    return world


async def deactivated(retention: Kept) -> Table:
    """By the manager itself: its pods were not ready in time, and once is enough."""
    world = table(retention=retention, rules=Quota(pods_ready=ONE_CHANCE))
    await running(world)
    await look(world, after=ONE_CHANCE.timeout)
    assert condition(world, "Evicted") == ("True", "DeactivatedDueToRequeuingLimitExceeded")
    return world


async def running(world: Table) -> None:
    await world.begin()


def condition(world: Table, type_: str) -> tuple[str, str]:
    found = world.condition(type_) or {}
    return found.get("status", ""), found.get("reason", "")


async def look(world: Table, *, after: timedelta = timedelta()) -> None:
    world.time += after
    for body in world.manager.all(kinds.WORKLOADS):
        world.queues.workloads.add(ObjectKey(NAMESPACE, body["metadata"]["name"]))
    await world.settle()


def left(world: Table) -> tuple[int, int]:
    """How many jobs and Workloads the manager cluster has."""
    return len(world.manager.all(kinds.JOBS)), len(world.manager.all(kinds.WORKLOADS))


async def test_a_finished_workload_goes_in_time_and_its_job_stays_finished() -> None:
    world = await finished(FINISHED)
    await look(world, after=HOUR - timedelta(seconds=1))
    assert left(world) == (1, 1)
    await look(world, after=timedelta(seconds=1))
    assert left(world) == (1, 0)
    assert ("Deleted", "Deleted finished workload due to elapsed retention") in world.said()
    await world.settle()
    assert left(world) == (1, 0), "nobody queues it again"
    assert all(not worker.all(kinds.WORKLOADS) and not worker.all(kinds.JOBS) for worker in world.workers.values())


async def test_it_is_looked_at_again_just_when_it_is_due() -> None:
    world = await finished(FINISHED)
    world.time += timedelta(minutes=20)
    assert (await RetentionSweep(world.world).reconcile(world.key())).again_after == timedelta(minutes=40)


async def test_the_job_of_a_workload_that_we_deactivated_goes_in_time() -> None:
    world = await deactivated(DEACTIVATED)
    await look(world, after=HOUR - timedelta(seconds=1))
    assert left(world)[0] == 1
    await look(world, after=timedelta(seconds=1))
    assert world.manager.find(kinds.JOBS, JOB) is None
    assert ("Deleted", "Deleted job: deactivation retention period expired") in world.said()


@pytest.mark.parametrize("retention", [Kept(), DEACTIVATED], ids=["no time at all", "a time for something else"])
async def test_without_a_time_a_finished_workload_stays(retention: Kept) -> None:
    world = await finished(retention)
    await look(world, after=1000 * HOUR)
    assert left(world) == (1, 1)


@pytest.mark.parametrize("retention", [Kept(), FINISHED], ids=["no time at all", "a time for something else"])
async def test_without_a_time_the_job_of_a_deactivated_workload_stays(retention: Kept) -> None:
    world = await deactivated(retention)
    await look(world, after=1000 * HOUR)
    assert left(world) == (1, 1)


async def test_what_a_user_deactivated_stays() -> None:
    world = table(retention=DEACTIVATED)
    await running(world)
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": False}})
    await look(world)
    assert condition(world, "Evicted") == ("True", "Deactivated")
    await look(world, after=1000 * HOUR)
    assert left(world) == (1, 1)


async def test_what_its_user_activated_again_stays() -> None:
    world = await deactivated(DEACTIVATED)
    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": True}})
    await look(world, after=2 * HOUR)
    assert left(world) == (1, 1)


async def test_what_is_being_deleted_already_is_left_alone() -> None:
    world = await finished(FINISHED)
    key = world.key()
    world.manager.change(kinds.WORKLOADS, key, {"metadata": {"deletionTimestamp": "2026-01-01T13:00:00Z"}})
    world.time += HOUR
    calls = len(world.manager.calls)
    await RetentionSweep(world.world).reconcile(key)
    assert len(world.manager.calls) == calls


def with_eviction(world: Table, **changes: object) -> None:
    conditions = [each | changes if each["type"] == "Evicted" else each for each in world.status()["conditions"]]
    world.manager.change(kinds.WORKLOADS, world.key(), {"status": {"conditions": conditions}})


GOES = {"metadata": {"deletionTimestamp": "2026-01-01T13:00:00Z"}}
MEANWHILE: dict[str, Callable[[Table], object]] = {
    "its Workload is gone": lambda world: world.manager.drop(kinds.WORKLOADS, world.key()),
    "its Workload is being deleted": lambda world: world.manager.change(kinds.WORKLOADS, world.key(), GOES),
    "it is gone": lambda world: world.manager.drop(kinds.JOBS, JOB),
    "it is being deleted": lambda world: world.manager.change(kinds.JOBS, JOB, GOES),
    "its eviction is over": lambda world: with_eviction(world, status="False"),
    "nothing says since when it is evicted": lambda world: with_eviction(world, lastTransitionTime=None),
}


@pytest.mark.parametrize("meanwhile", MEANWHILE.values(), ids=MEANWHILE)
async def test_no_job_of_a_deactivated_workload_is_deleted_where(meanwhile: Callable[[Table], object]) -> None:
    world = await deactivated(DEACTIVATED)
    key = world.key()
    meanwhile(world)
    world.time += HOUR
    calls = len(world.manager.calls)
    assert await RetentionSweep(world.world).reconcile(key) == DONE
    assert len(world.manager.calls) == calls


async def test_the_copy_of_a_finished_workload_stays_on_its_worker_for_its_time() -> None:
    world = await finished(Kept(copies=HOUR))
    await look(world, after=HOUR - timedelta(seconds=1))
    assert copies(world) == {"w1": (1, 1)}
    await look(world, after=timedelta(seconds=1))
    assert copies(world) == {}


async def test_it_goes_with_the_workload() -> None:
    world = await finished(Kept(copies=HOUR, after_finished=timedelta(minutes=1)))
    await look(world, after=timedelta(minutes=1))
    await world.settle()
    assert copies(world) == {}


async def test_a_worker_whose_name_is_to_stand_for_another_cluster_retains_nothing() -> None:
    """That waits until nothing of ours is left there."""
    world = await finished(Kept(copies=HOUR))
    assert copies(world) == {"w1": (1, 1)}
    world.store.worker("w1").leaves("it leads to another cluster")
    await world.settle()
    assert copies(world) == {}


def copies(world: Table) -> dict[str, tuple[int, int]]:
    """How many jobs and Workloads each worker has, if it has any."""
    found = {name: (len(w.all(kinds.JOBS)), len(w.all(kinds.WORKLOADS))) for name, w in world.workers.items()}
    return {name: counts for name, counts in found.items() if any(counts)}
