"""What is made on workers: shown in rows, and for programs as objects."""

from __future__ import annotations

import json

import pytest

from multikueue.api.kinds import LOCAL_QUEUES, NAMESPACES
from multikueue.cli.access.worker_clusters import WorkerCluster
from multikueue.cli.access.worker_repairs import RepairPlan, print_plans
from multikueue.cli.terminal.formats import Format
from multikueue.registration.plan import ROLES, Wanted
from tests.builders import multikueue_cluster

QUEUE = Wanted(
    LOCAL_QUEUES, {"metadata": {"name": "main", "namespace": "a"}, "spec": {"clusterQueue": "cq"}}, is_shared=True
)
SPACE = Wanted(NAMESPACES, {"metadata": {"name": "a"}}, is_shared=True)
ROLE = Wanted(ROLES, {"metadata": {"name": "multikueue", "namespace": "a"}, "rules": []})
MEMBER = WorkerCluster(item={}, cluster=multikueue_cluster("w1").build())
PLAN = RepairPlan(MEMBER, (SPACE, QUEUE, ROLE), {"LocalQueue b/main": "you may not"})


def test_each_object_is_a_row_and_what_cannot_be_made_too(capsys: pytest.CaptureFixture[str]) -> None:
    print_plans([PLAN, RepairPlan(MEMBER)], Format.TABLE)

    assert [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()[1:]] == [
        "w1 Namespace a create -",
        "w1 LocalQueue a/main create leads to ClusterQueue cq",
        "w1 Role a/multikueue update -",
        "w1 LocalQueue b/main none you may not",
    ]
    assert [str(each) for each in PLAN.problems] == ["w1: LocalQueue b/main: you may not"]


def test_for_programs_they_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    print_plans([PLAN], Format.JSON)

    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert [each["kind"] for each in item["objects"]] == ["Namespace", "LocalQueue", "Role"]


def test_where_nothing_is_missing_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_plans([RepairPlan(MEMBER)], Format.TABLE)

    assert capsys.readouterr().out == ""
