"""Quota of pods that are over, with the whole manager over clusters in memory (quota-engine 6.1)."""

from __future__ import annotations

import pytest

from multikueue.api import kinds
from multikueue.quota.queueing.requeueing import FLUSH_DELAY
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

QUOTA = 3


async def running(*, pods: int) -> Table:
    """A job of so many pods that runs on the first worker."""
    world = table(quota=QUOTA)
    world.submit(pods=pods)
    await world.settle()
    world.admit("w1")
    await world.settle()
    world.run("w1", active=pods, ready=pods)
    await world.settle()
    return world


def reclaimed(world: Table) -> dict[str, int]:
    return {pods["name"]: pods["count"] for pods in world.status().get("reclaimablePods", [])}


async def test_pods_that_are_over_give_way_to_the_next_job() -> None:
    world = await running(pods=QUOTA)
    world.submit("next")
    await world.settle()
    assert (world.condition("QuotaReserved", "next") or {})["status"] == "False"
    world.run("w1", active=QUOTA - 1, ready=QUOTA - 1, succeeded=1)
    await world.settle()
    assert reclaimed(world) == {"main": 1}
    world.time += FLUSH_DELAY
    await world.settle()
    assert (world.condition("QuotaReserved", "next") or {})["status"] == "True"


async def test_what_was_over_in_an_earlier_attempt_is_needed_again() -> None:
    world = await running(pods=3)
    world.run("w1", active=1, ready=1, succeeded=2)
    await world.settle()
    assert reclaimed(world) == {"main": 2}
    world.evict("w1")
    world.run("w1", active=0, ready=0, succeeded=2)
    await world.settle()
    assert world.runs_on() == []
    assert reclaimed(world) == {}


async def test_what_was_over_before_somebody_deleted_the_workload_is_needed_again() -> None:
    """The new one is reserved while the job still has the counters of before: all its pods run again."""
    world = await running(pods=3)
    world.run("w1", active=1, ready=1, succeeded=2)
    await world.settle()
    world.manager.change(kinds.WORKLOADS, world.key(), {"metadata": {"deletionTimestamp": "2026-01-01T12:40:00Z"}})
    await world.settle()
    assert (world.condition("QuotaReserved") or {})["status"] == "True"
    assert reclaimed(world) == {}
