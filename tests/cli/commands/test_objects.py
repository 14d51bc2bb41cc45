"""`multikueue objects unreadable`: what costs itself, and why."""

from __future__ import annotations

import json

import pytest

from multikueue.api.kinds import CLUSTER_QUEUES, JOBS, WORKLOADS
from tests.border.hostile import tree_of
from tests.builders import cluster_queue, job, workload
from tests.cli.conftest import Run, World

COMMAND = ("objects", "unreadable")


@pytest.fixture
def odd(world: World) -> World:
    """Honest objects, and three that are odd in ways of their own: of shape, of a spec inside, of what it says."""
    world.manager.add(JOBS, job("fine").build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("fine").quota("default", cpu=1).build())
    world.manager.add(CLUSTER_QUEUES, cluster_queue("odd").quota("default", cpu="much").build())
    world.manager.add(WORKLOADS, tree_of(workload("odd").build()) | {"spec": {"podSets": "none"}})
    shapeless = tree_of(job("odd").build())
    shapeless["metadata"]["labels"] = 5
    world.manager.add(JOBS, shapeless)
    return world


@pytest.mark.usefixtures("odd")
def test_each_is_listed_with_its_reason(cli: Run) -> None:
    result = cli(*COMMAND)
    assert result.code == 0
    assert result.lines[0].split() == ["KIND", "NAMESPACE", "NAME", "REASON"]
    shown = {tuple(line.split()[:3]): line for line in result.lines[1:]}
    assert shown.keys() == {("Workload", "default", "odd"), ("ClusterQueue", "-", "odd"), ("Job", "default", "odd")}
    assert "Expected `array`" in shown["Workload", "default", "odd"]
    assert "a Kubernetes suffix" in shown["ClusterQueue", "-", "odd"]


@pytest.mark.usefixtures("odd")
def test_programs_get_objects(cli: Run) -> None:
    items = json.loads(cli(*COMMAND, "-o", "json").out)["items"]
    assert {(item["kind"], item["metadata"]["name"]) for item in items} == {
        ("Workload", "odd"),
        ("ClusterQueue", "odd"),
        ("Job", "odd"),
    }
    assert all(item["reason"] for item in items)


def test_where_all_is_well_it_says_so(world: World, cli: Run) -> None:
    world.manager.add(JOBS, job("fine").build())
    result = cli(*COMMAND)
    assert (result.code, result.out) == (0, "")
    assert "All objects can be read." in result.err
