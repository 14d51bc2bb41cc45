"""Pods that are not ready in time, with the whole manager over clusters in memory (quota-engine 5.2)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from multikueue.settings import PodsReady, Quota
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

MINUTE = timedelta(minutes=1)


async def started(**settings: object) -> Table:
    """A job that was admitted by a worker, whose pods are not ready yet."""
    world = table(rules=Quota(pods_ready=PodsReady.model_validate({"enabled": True, **settings})))
    await world.begin()
    world.run("w1", ready=0)
    await world.settle()
    return world


def said(world: Table, type_: str) -> tuple[str, str]:
    found = world.condition(type_) or {}
    return found.get("status", ""), found.get("reason", "")


def value(world: Table, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(world.world.metrics.render().decode())
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return sum(s.value for s in samples if labels.items() <= s.labels.items())


async def test_the_workload_says_what_its_worker_says_of_the_pods() -> None:
    world = await started()
    assert said(world, "PodsReady") == ("False", "WaitForStart")
    world.time += MINUTE
    world.run("w1")
    await world.settle()
    assert said(world, "PodsReady") == ("True", "Started")
    assert value(world, "kueue_ready_wait_time_seconds_sum", cluster_queue="cq") == 60
    assert value(world, "kueue_admitted_until_ready_wait_time_seconds_sum", cluster_queue="cq") == 60

    world.run("w1", ready=0)
    await world.settle()
    assert said(world, "PodsReady") == ("False", "WaitForRecovery")


async def test_who_is_late_leaves_its_worker_and_queues_again() -> None:
    world = await started()
    world.time += 5 * MINUTE
    world.queues.workloads.add(world.key())
    await world.settle()
    assert said(world, "Evicted") == ("True", "PodsReadyTimeout")
    assert world.runs_on() == ["w1"]
    world.run("w1", active=0, ready=0)
    world.evict("w1")
    await world.settle()

    assert world.runs_on() == []
    assert said(world, "Requeued") == ("False", "PodsReadyTimeout")
    assert said(world, "PodsReady") == ("False", "WaitForStart")
    assert world.status()["requeueState"]["count"] == 1
    labels = {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForStart"}
    assert value(world, "kueue_evicted_workloads_total", cluster_queue="cq", **labels) == 1
    assert value(world, "kueue_pods_ready_to_evicted_time_seconds_count") == 0

    world.time += 2 * MINUTE
    world.queues.workloads.add(world.key())
    await world.settle()
    assert said(world, "Requeued") == ("True", "BackoffFinished")
    assert said(world, "QuotaReserved") == ("True", "QuotaReserved")


async def test_who_is_late_too_often_is_deactivated() -> None:
    world = await started(backoff_limit_count=0)
    world.time += 5 * MINUTE
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.workload()["spec"]["active"] is False
    assert said(world, "Evicted") == ("True", "DeactivatedDueToRequeuingLimitExceeded")


async def test_a_pod_that_does_not_come_back_is_waited_for_no_longer_than_for_the_start() -> None:
    world = await started()
    world.run("w1")
    await world.settle()
    world.time += MINUTE
    world.run("w1", ready=0)
    await world.settle()
    world.time += 5 * MINUTE
    world.queues.workloads.add(world.key())
    await world.settle()
    assert said(world, "Evicted") == ("True", "PodsReadyTimeout")
    labels = {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForRecovery"}
    assert value(world, "kueue_evicted_workloads_total", cluster_queue="cq", **labels) == 1


async def test_or_as_long_as_it_takes() -> None:
    world = await started(recovery_timeout="0s")
    world.run("w1")
    await world.settle()
    world.run("w1", ready=0)
    await world.settle()
    world.time += 100 * MINUTE
    world.queues.workloads.add(world.key())
    await world.settle()
    assert said(world, "Evicted") == ("", "")


async def test_nobody_looks_at_pods_unless_told_to() -> None:
    world = table()
    await world.begin()
    world.run("w1")
    await world.settle()
    assert world.condition("PodsReady") is None
