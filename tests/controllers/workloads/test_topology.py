"""Pods that are placed on the worker: the manager waits for it, and no more (contract 3.9)."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from tests.controllers.table import Table, job_body, table

pytestmark = pytest.mark.anyio


def near() -> Table:
    """All pods are placed, for the only flavor has a topology; a job waits for a worker."""
    world = table()
    spec = {"topologyName": "racks", "nodeLabels": {"racks": "yes"}}
    (flavor,) = world.manager.all(kinds.RESOURCE_FLAVORS)
    world.manager.put(kinds.RESOURCE_FLAVORS, {"metadata": {**flavor["metadata"], "generation": 2}, "spec": spec})
    body = job_body("job")
    template = body["spec"]["template"]
    template["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    world.manager.put(kinds.JOBS, body)
    return world


def delayed(world: Table) -> Any:
    (assignment,) = world.status()["admission"]["podSetAssignments"]
    return assignment.get("delayedTopologyRequest")


def place(world: Table, worker: str) -> None:
    """The worker's Kueue has found nodes."""
    key = world.key()
    copy = world.workers[worker].find(kinds.WORKLOADS, key) or {}
    where = {"levels": ["host"], "slices": []}
    assignments = [{"name": "main", "topologyAssignment": where}]
    status = {**copy.get("status", {}), "admission": {"clusterQueue": "cq", "podSetAssignments": assignments}}
    world.workers[worker].change(kinds.WORKLOADS, key, {"status": status})


async def test_admission_waits_until_the_winner_has_placed_the_pods() -> None:
    world = near()
    await world.settle()
    assert delayed(world) == "Pending"
    place(world, "w1")
    world.admit("w1")
    await world.settle()
    assert delayed(world) == "Ready"
    assert (world.condition("Admitted") or {})["status"] == "True"


async def test_a_worker_that_places_nothing_is_not_enough() -> None:
    world = near()
    await world.settle()
    world.admit("w1")
    await world.settle()
    assert delayed(world) == "Pending"
    assert world.condition("Admitted") is None
