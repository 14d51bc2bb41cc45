"""Fields of a status that the server does not keep (a policy, a webhook, another definition): told, and no hot loop."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.kind import Kind
from multikueue.api.kueue.workload import RequeueState, WorkloadStatus
from multikueue.api.meta import ObjectKey, encode
from multikueue.controllers.reconcile.conditions import difference, status_patch
from multikueue.controllers.workers.admission_checks import Checks
from multikueue.errors import NotKept
from multikueue.settings import BESIDE_KUEUE
from tests.builders import NOW, workload
from tests.controllers.kueue_core import Core
from tests.controllers.table import NAMESPACE, Table, job_body, table

pytestmark = pytest.mark.anyio

EACH_TIME = pytest.mark.parametrize("is_restless", [False, True], ids=["", "and stores something else each time"])


def strips(world: Table, plural: str, field: str, *, within: str = "status", is_restless: bool = False) -> None:
    """The server stores no such field, whoever writes it; a restless one stores something else each time."""

    def stripped(kind: Kind[Any], body: Any, subresource: str) -> Any:
        if (kind.plural, subresource) != (plural, "status" if within == "status" else ""):
            return body
        tree = msgspec.json.decode(encode(body))
        if tree.get(within, {}).pop(field, None) is not None and is_restless:
            tree["metadata"] = tree.get("metadata", {}) | {"annotations": {"touched": str(random.random())}}
        return tree

    merge, apply = world.manager.merge_patch, world.manager.apply

    async def pruned_merge(kind: Kind[Any], key: ObjectKey, body: Any, *, subresource: str = "") -> Any:
        return await merge(kind, key, stripped(kind, body, subresource), subresource=subresource)

    async def pruned_apply(kind: Kind[Any], key: ObjectKey, body: Any, **more: Any) -> Any:
        return await apply(kind, key, stripped(kind, body, more.get("subresource", "")), **more)

    world.manager.merge_patch = pruned_merge  # type: ignore[method-assign]
    world.manager.apply = pruned_apply  # type: ignore[method-assign]


def told(world: Table) -> list[str]:
    return [words for reason, words in world.said() if reason == "StatusNotKept"]


@pytest.mark.parametrize("field", ["nominatedClusterNames", "admission", "admissionChecks", "conditions"])
async def test_a_field_of_a_workload_that_is_not_kept_is_written_seldom_and_told_once(field: str) -> None:
    world = table()
    strips(world, "workloads", field)
    world.submit()
    await world.settle()
    assert world.manager.calls.count("patch workloads/status") < 10
    for _ in range(5):
        world.queues.workloads.add(world.key())
        await world.settle()
    (words,) = told(world)
    assert f"status.{field}" in words
    assert world.store.refusals.count(world.time) == {("status", ""): 1}


async def test_beside_kueue_too() -> None:
    world = table(roles=BESIDE_KUEUE)
    strips(world, "workloads", "nominatedClusterNames")
    core = Core(world)
    await core.submit()
    await core.settle()
    assert sum("workloads/status" in call for call in world.manager.calls) < 12
    (words,) = told(world)
    assert "status.nominatedClusterNames" in words


async def test_once_it_is_kept_all_goes_on() -> None:
    world = table()
    merge, apply = world.manager.merge_patch, world.manager.apply
    strips(world, "workloads", "nominatedClusterNames")
    world.submit()
    await world.settle()
    assert world.copies() == []
    world.manager.merge_patch, world.manager.apply = merge, apply  # type: ignore[method-assign]
    world.queues.workloads.add(world.key())
    await world.settle()
    assert world.copies() == ["w1", "w2", "w3"]
    assert world.store.refusals.count(world.time) == {}


@EACH_TIME
@pytest.mark.parametrize(
    ("plural", "field"),
    [("clusterqueues", "flavorsUsage"), ("clusterqueues", "conditions"), ("localqueues", "flavorsUsage")],
)
async def test_a_field_of_a_queue_that_is_not_kept_is_told(plural: str, field: str, is_restless: bool) -> None:
    world = table()
    strips(world, plural, field, is_restless=is_restless)
    world.submit()
    await world.settle()
    for _ in range(5):
        await statuses(world)
        await world.settle()
    assert world.manager.calls.count(f"patch {plural}/status") < 12
    assert [f"status.{field}" in words for words in told(world)] == [True]


async def statuses(world: Table) -> None:
    try:
        await world.statuses()
    except NotKept as error:
        world.errors.append(error)


async def test_a_field_of_a_jobs_status_that_is_not_kept_is_told() -> None:
    world = table()
    strips(world, "jobs", "startTime")
    await world.begin()
    world.run("w1")
    await world.settle()
    assert world.manager.calls.count("patch jobs/status") < 10
    assert [f"status.{'startTime'}" in words for words in told(world)] == [True]


@EACH_TIME
async def test_a_start_of_a_job_that_is_not_kept_is_told_and_tried_again(is_restless: bool) -> None:
    world = table()
    merge = world.manager.merge_patch
    strips(world, "jobs", "suspend", within="spec", is_restless=is_restless)
    await world.begin()
    for _ in range(5):
        world.queues.jobs.add(JobKey(kinds.JOBS.name, NAMESPACE, "job"))
        await world.settle()
    assert world.manager.calls.count("patch jobs") < 10
    words = [words for reason, words in world.said() if reason == "SpecNotKept"]
    assert ["spec.suspend" in each for each in words] == [True]
    assert world.store.refusals.count(world.time) == {("status", ""): 1}
    world.manager.merge_patch = merge  # type: ignore[method-assign]
    world.queues.jobs.add(JobKey(kinds.JOBS.name, NAMESPACE, "job"))
    await world.settle()
    job = world.manager.find(kinds.JOBS, ObjectKey(NAMESPACE, "job"))
    assert job is not None
    assert job["spec"]["suspend"] is False
    assert world.store.refusals.count(world.time) == {}


def submit(world: Table, label: str, value: str) -> None:
    body = job_body("job")
    body["metadata"]["labels"][label] = value
    world.manager.put(kinds.JOBS, body)


@EACH_TIME
async def test_a_priority_that_is_not_kept_is_told_and_holds_nothing_up(is_restless: bool) -> None:
    world = table()
    classes = {"metadata": {"name": "high"}, "value": 50}
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, classes)
    submit(world, "kueue.x-k8s.io/priority-class", "high")
    await world.settle()
    strips(world, "workloads", "priority", within="spec", is_restless=is_restless)
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, classes | {"value": 30})
    await world.settle()
    for _ in range(5):
        world.queues.workloads.add(world.key())
        await world.settle()
    assert world.manager.calls.count("patch workloads") < 12
    words = [words for reason, words in world.said() if reason == "SpecNotKept"]
    assert ["spec.priority" in each for each in words] == [True]
    world.admit("w1")
    await world.settle()
    assert world.runs_on() == ["w1"]


@EACH_TIME
async def test_an_end_of_a_workload_that_is_not_kept_is_told_and_tried_again(is_restless: bool) -> None:
    world = table()
    merge = world.manager.merge_patch
    submit(world, "kueue.x-k8s.io/max-exec-time-seconds", "60")
    await world.settle()
    world.admit("w1")
    await world.settle()
    strips(world, "workloads", "active", within="spec", is_restless=is_restless)
    world.time += timedelta(minutes=2)
    for _ in range(5):
        world.queues.workloads.add(world.key())
        await world.settle()
    assert world.manager.calls.count("patch workloads") < 10
    words = [words for reason, words in world.said() if reason == "SpecNotKept"]
    assert ["spec.active" in each for each in words] == [True]
    assert world.store.refusals.count(world.time) == {("status", ""): 1}
    assert world.condition("Evicted") is None
    assert world.store.plans.get(world.key()) is not None
    world.manager.merge_patch = merge  # type: ignore[method-assign]
    world.queues.workloads.add(world.key())
    await world.settle()
    evicted = world.condition("Evicted")
    assert evicted is not None
    assert evicted["reason"] == "DeactivatedDueToMaximumExecutionTimeExceeded"
    assert world.store.refusals.count(world.time) == {}


async def test_a_check_that_is_not_kept_is_told() -> None:
    world = table()
    strips(world, "admissionchecks", "conditions")
    world.cut("w1")
    world.manager.change(kinds.ADMISSION_CHECKS, ObjectKey("", "mk"), {"status": {"conditions": None}})
    await world.settle()
    assert world.manager.calls.count("patch admissionchecks/status") < 10
    assert ["status.conditions" in words for words in told(world)] == [True]


async def test_a_condition_is_written_until_it_is_kept() -> None:
    """A policy that drops it may go, and nothing else would have it written then."""
    world = table()
    merge, key = world.manager.merge_patch, ObjectKey("", "mk")
    strips(world, "admissionchecks", "conditions")
    world.manager.change(kinds.ADMISSION_CHECKS, key, {"status": {"conditions": None}})
    await world.settle()
    for _ in range(3):
        with pytest.raises(NotKept):
            await Checks(world.world).reconcile("mk")
    world.manager.merge_patch = merge  # type: ignore[method-assign]
    await Checks(world.world).reconcile("mk")
    assert world.store.checks.get(key).status.conditions  # type: ignore[union-attr]


def test_no_change_is_no_patch() -> None:
    status = workload("wl").reserved("cq").build().status
    assert difference(status, status) == {}


def test_only_changed_fields_are_named_and_lists_are_whole() -> None:
    before = workload("wl").reserved("cq").check("a").check("b")
    patch = difference(before.build().status, before.check("b", "Ready").build().status)
    assert set(patch) == {"admissionChecks"}
    assert [check["state"] for check in patch["admissionChecks"]] == ["Pending", "Ready"]


def test_what_is_gone_is_null() -> None:
    before = workload("wl").reserved("cq").nominated("w1").build().status
    after = workload("wl").build().status
    patch = difference(before, after)
    assert (patch["admission"], patch["conditions"], patch["nominatedClusterNames"]) == (None, None, None)


def test_nested_values_lose_what_is_gone() -> None:
    before = WorkloadStatus(requeue_state=RequeueState(count=1, requeue_at=NOW))
    after = WorkloadStatus(requeue_state=RequeueState(count=2))
    assert difference(before, after) == {"requeueState": {"count": 2, "requeueAt": None}}


def test_a_status_patch_holds_for_one_version() -> None:
    item = workload("wl").version(7).build()
    assert status_patch(item, {"a": 1}) == {"metadata": {"resourceVersion": "7"}, "status": {"a": 1}}
