"""Where the priority of a job's Workload comes from, and who may change it."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.settings import Quota
from tests.controllers.table import NAMESPACE, Table, job_body, table

pytestmark = pytest.mark.anyio

LABEL = "kueue.x-k8s.io/priority-class"
OWN = ObjectKey(NAMESPACE, "own")


def put_class(world: Table, name: str, value: int) -> None:
    world.manager.put(kinds.WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})


def submit(world: Table, *, cpu: str = "1", of_class: str = "", pods_of: str = "") -> None:
    body = job_body("job", cpu=cpu)
    if of_class:
        body["metadata"]["labels"][LABEL] = of_class
    if pods_of:
        body["spec"]["template"]["spec"]["priorityClassName"] = pods_of
    world.manager.put(kinds.JOBS, body)


def label(world: Table, of_class: str) -> None:
    world.manager.change(kinds.JOBS, ObjectKey(NAMESPACE, "job"), {"metadata": {"labels": {LABEL: of_class}}})


def edit(world: Table, value: int, key: ObjectKey | None = None) -> None:
    """Somebody gives the Workload a priority."""
    world.manager.change(kinds.WORKLOADS, key or world.key(), {"spec": {"priority": value}})


def priority(world: Table) -> int:
    found: int = world.workload()["spec"]["priority"]
    return found


def own_workload() -> dict[str, Any]:
    """One of nobody's job."""
    ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    pod_set = {"name": "main", "count": 1, "template": job_body("x", cpu="1000")["spec"]["template"]}
    spec = {"queueName": "main", "podSets": [pod_set], "priority": 50, "priorityClassRef": ref}
    return {"metadata": {"name": OWN.name, "namespace": OWN.namespace}, "spec": spec}


@pytest.mark.parametrize("name", ["system-node-critical", "system-cluster-critical"])
@pytest.mark.parametrize(("setting", "expected"), [("Ignore", 0), ("Count", 2_000_001_000)])
async def test_a_tenant_does_not_outrank_others_by_a_class_of_the_system(
    name: str, setting: Any, expected: int
) -> None:
    world = table(rules=Quota(system_priority_classes=setting))
    world.manager.put(kinds.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 2_000_001_000})
    submit(world, pods_of=name)
    await world.settle()
    assert priority(world) == expected
    copy = world.workers["w1"].find(kinds.WORKLOADS, world.key())
    assert copy is not None
    assert copy["spec"].get("priority", 0) == expected


@pytest.mark.parametrize("cpu", ["1", "1000"], ids=["with quota", "waiting"])
@pytest.mark.parametrize("restarts", [0, 1, 2])
async def test_a_priority_that_somebody_edits_stays(cpu: str, restarts: int) -> None:
    world = table()
    put_class(world, "high", 100)
    submit(world, cpu=cpu, of_class="high")
    await world.settle()
    assert priority(world) == 100
    edit(world, 1)
    await world.settle()
    for _ in range(restarts):
        world.start()
        await world.settle()
    assert priority(world) == 1


async def test_so_does_that_of_a_workload_that_is_nobodys_job() -> None:
    world = table()
    put_class(world, "high", 50)
    world.manager.put(kinds.WORKLOADS, own_workload())
    await world.settle()
    edit(world, 7, OWN)
    await world.settle()
    world.start()
    await world.settle()
    assert (world.manager.find(kinds.WORKLOADS, OWN) or {})["spec"]["priority"] == 7


@pytest.mark.parametrize("is_edited", [True, False])
@pytest.mark.parametrize("is_away", [True, False], ids=["while nobody looks", "while it looks"])
async def test_once_its_class_has_another_value_it_has_that(is_edited: bool, is_away: bool) -> None:
    world = table()
    put_class(world, "high", 100)
    submit(world, of_class="high")
    await world.settle()
    if is_edited:
        edit(world, 1)
        await world.settle()
    if is_away:
        with world.manager.unheard():
            put_class(world, "high", 30)
        world.start()
    else:
        put_class(world, "high", 30)
    await world.settle()
    assert priority(world) == 30


async def test_another_class_goes_before_what_was_edited() -> None:
    world = table()
    put_class(world, "high", 100)
    put_class(world, "low", 10)
    submit(world, of_class="high")
    await world.settle()
    edit(world, 1)
    await world.settle()
    label(world, "low")
    await world.settle()
    assert priority(world) == 10
    edit(world, 2)
    await world.settle()
    assert priority(world) == 2


async def test_a_class_that_comes_while_quota_is_reserved_is_told_of() -> None:
    world = table()
    put_class(world, "high", 100)
    submit(world)
    await world.settle()
    label(world, "high")
    await world.settle()
    assert priority(world) == 0
    told = [message for reason, message in world.said() if reason == "PriorityClassIgnored"]
    assert told == ["WorkloadPriorityClass high: its Workload got quota without one: it counts from the next attempt"]


async def test_so_is_one_that_comes_where_the_pods_have_a_class() -> None:
    world = table()
    put_class(world, "high", 100)
    world.manager.put(kinds.PRIORITY_CLASSES, {"metadata": {"name": "pods"}, "value": 5})
    submit(world, cpu="1000", pods_of="pods")
    await world.settle()
    label(world, "high")
    await world.settle()
    assert priority(world) == 5
    assert [message for reason, message in world.said() if reason == "PriorityClassIgnored"] == [
        "WorkloadPriorityClass high: its Workload has the priority of the PriorityClass pods for good: submit the job again"
    ]


async def test_one_that_counts_is_not_told_of() -> None:
    world = table()
    put_class(world, "high", 100)
    submit(world, cpu="1000")
    await world.settle()
    label(world, "high")
    await world.settle()
    assert priority(world) == 100
    assert [reason for reason, _ in world.said() if reason == "PriorityClassIgnored"] == []
