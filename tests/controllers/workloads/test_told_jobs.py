"""What `kubectl describe job` says of why a job does not run."""

from __future__ import annotations

from datetime import timedelta
from typing import NoReturn

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workloads import workloads
from multikueue.errors import InvalidObject
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio


def told(world: Table) -> list[tuple[str, str, str]]:
    """Type, reason and message of the events of Jobs, save for those that tell of the Workload."""
    events = [each for each in world.recorder.waiting() if each["involvedObject"]["kind"] == "Job"]
    found = [(each["type"], each["reason"], each["message"]) for each in events]
    return [each for each in found if each[1] in ("Pending", "Held", "Starting", "Running")]


async def test_a_job_that_just_runs_is_told_nothing() -> None:
    world = table()
    await world.begin()
    world.run("w1")
    await world.settle()
    world.finish("w1")
    await world.settle()
    assert told(world) == []


async def test_one_that_can_never_run_is_told_so_once() -> None:
    world = table(quota=100)
    world.submit(cpu="200")
    await world.settle()
    most = "ClusterQueue cq can never give more than 100 of flavor default"
    assert told(world) == [("Warning", "Pending", f"Pending: it asks for 200 cpu, and {most}.")]

    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"metadata": {"annotations": {"a": "b"}}})
    await world.settle()
    assert len(told(world)) == 1


async def test_an_answer_that_fails_costs_nothing_but_its_event(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> NoReturn:
        raise InvalidObject("/team/job-a", "spec", "something else")

    monkeypatch.setattr(workloads, "answer", fails)
    world = table(quota=100)
    world.submit(cpu="200")
    await world.settle()
    assert told(world) == []
    assert world.condition("QuotaReserved") is not None
    assert 'multikueue_look_failures_total{what="answers"} 1' in world.world.metrics.render().decode()


async def test_one_that_waits_for_quota_is_told_nothing() -> None:
    world = table(quota=1)
    world.submit("first")
    await world.settle()
    world.submit("second")
    await world.settle()
    assert told(world) == []


async def test_one_that_is_evicted_is_told_so_and_when_it_is_started_again() -> None:
    world = table()
    await world.begin()
    world.evict("w1")
    await world.settle()
    world.time += timedelta(minutes=5)
    world.queues.workloads.add(world.key())
    await world.settle()
    world.admit("w2")
    await world.settle()

    found = told(world)
    assert [each[:2] for each in found] == [("Normal", "Pending"), ("Normal", "Starting")]
    assert found[0][2].startswith("Pending: it queues again at 2026-01-01T12:01:02Z, after its eviction")
    assert found[1][2] == "Starting on w2: no pod is ready yet, by the status of the job."
