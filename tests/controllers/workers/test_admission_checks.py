"""The Active condition of a check, in Kueue's words (contract 1.4)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from tests.controllers.table import CHECK, CONFIG, Table, table

pytestmark = pytest.mark.anyio

KEY = ObjectKey("", CHECK)


async def condition(world: Table) -> tuple[str, str, str]:
    await world.settle()
    status = (world.manager.find(kinds.ADMISSION_CHECKS, KEY) or {})["status"]
    (active,) = status["conditions"]
    return active["status"], active["reason"], active["message"]


def clusters(world: Table, *names: str) -> None:
    world.manager.change(kinds.MULTIKUEUE_CONFIGS, ObjectKey("", CONFIG), {"spec": {"clusters": list(names)}})


def inactive(world: Table, name: str) -> None:
    down = {"type": "Active", "status": "False", "reason": "ClientConnectionFailed", "message": ""}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", name), {"status": {"conditions": [down]}})


async def test_all_clusters_usable() -> None:
    assert await condition(table()) == ("True", "Active", "The admission check is active")


async def test_some_missing_some_inactive() -> None:
    world = table()
    clusters(world, "w1", "w2", "nobody", "none")
    inactive(world, "w2")
    expected = "Missing clusters: [nobody none], Inactive clusters: [w2]"
    assert await condition(world) == ("True", "SomeActiveClusters", expected)


async def test_none_usable() -> None:
    world = table()
    clusters(world, "nobody")
    assert await condition(world) == ("False", "NoUsableClusters", "Missing clusters: [nobody]")


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"parameters": None}, "missing parameters reference"),
        ({"parameters": {"kind": "Other"}}, "bad parameters reference"),
        ({"parameters": {"name": "other"}}, 'MultiKueueConfig.kueue.x-k8s.io "other" not found'),
    ],
    ids=["no parameters", "parameters of another kind", "no such configuration"],
)
async def test_bad_parameters(spec: dict[str, Any], problem: str) -> None:
    world = table()
    world.manager.change(kinds.ADMISSION_CHECKS, KEY, {"spec": spec})
    expected = f"Cannot load the AdmissionChecks parameters: {problem}"
    assert await condition(world) == ("False", "BadConfig", expected)


async def test_a_check_of_another_controller_is_not_touched() -> None:
    world = table()
    world.manager.change(kinds.ADMISSION_CHECKS, KEY, {"spec": {"controllerName": "example.com/other"}})
    clusters(world)
    await world.settle()
    assert "patch admissionchecks/status" not in world.manager.calls


async def test_nothing_is_written_twice() -> None:
    world = table()
    await world.settle()
    world.manager.calls.clear()
    world.queues.checks.add(CHECK)
    await world.settle()
    assert world.manager.calls == []


async def test_work_cannot_wait_where_a_check_is_not_active() -> None:
    world = table(quota=0)
    world.submit("before")
    await world.settle()
    assert told(world, "before") == "Pending"

    clusters(world, "nobody")
    world.submit("after")
    await world.settle()
    assert {name: told(world, name) for name in ("before", "after")} == dict.fromkeys(
        ("before", "after"), "Inadmissible"
    )

    clusters(world, "w1")
    await world.settle()
    assert {name: told(world, name) for name in ("before", "after")} == dict.fromkeys(("before", "after"), "Pending")


def told(world: Table, name: str) -> str:
    return str((world.condition("QuotaReserved", name) or {}).get("reason"))


async def test_who_was_switched_off_for_a_rejection_starts_over_when_it_is_switched_on() -> None:
    world = table()
    other = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    spec = {"controllerName": "example.com/other"}
    world.manager.put(
        kinds.ADMISSION_CHECKS, {"metadata": {"name": "x"}, "spec": spec, "status": {"conditions": [other]}}
    )
    rules = [{"name": CHECK}, {"name": "x"}]
    world.manager.change(
        kinds.CLUSTER_QUEUES,
        ObjectKey("", "cq"),
        {"spec": {"admissionChecksStrategy": {"admissionChecks": rules}}},
    )
    world.submit()
    await world.settle()
    states = [
        check | ({"state": "Rejected"} if check["name"] == "x" else {}) for check in world.status()["admissionChecks"]
    ]
    world.manager.change(kinds.WORKLOADS, world.key(), {"status": {"admissionChecks": states}})
    await world.settle()
    assert world.workload()["spec"]["active"] is False
    assert (world.condition("QuotaReserved") or {})["status"] == "False"
    assert {check["state"] for check in world.status()["admissionChecks"]} == {"Pending"}

    world.manager.change(kinds.WORKLOADS, world.key(), {"spec": {"active": True}})
    await world.settle()
    assert (world.condition("QuotaReserved") or {})["status"] == "True"
    assert {check["state"] for check in world.status()["admissionChecks"]} == {"Pending"}
    assert world.workload()["spec"]["active"] is True
