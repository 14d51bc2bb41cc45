"""Our definitions: sound in themselves, and strict or lenient as the verdicts say (the real suite asks a real server)."""

from __future__ import annotations

import timeit
from time import process_time
from typing import Any

import msgspec
import pytest

from fakekube.model.resources import Resource
from fakekube.schemas import crd
from fakekube.schemas.schema import FieldProblem, Schema
from multikueue_simulator import definitions
from tests.simulator.verdicts import CASES, Case, admission, check, condition, workload

RESOURCES: dict[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource
    for definition in definitions.all_definitions()
    for resource in crd.resources_of(definition)
}


def schema_of(kind: str, api_version: str = "kueue.x-k8s.io/v1beta2") -> Schema:
    return Schema.of(RESOURCES[api_version, kind])


@pytest.mark.parametrize("definition", definitions.all_definitions(), ids=lambda each: each["metadata"]["name"])
def test_a_definition_is_one_that_a_server_takes(definition: dict[str, Any]) -> None:
    assert crd.problems(crd.defaulted(definition)) == []


def test_each_group_has_its_definitions() -> None:
    assert {each["spec"]["group"] for each in definitions.kueue()} == {"kueue.x-k8s.io"}
    assert {each["spec"]["group"] for each in definitions.ocm()} == {"cluster.open-cluster-management.io"}
    assert [each["spec"]["names"]["kind"] for each in definitions.cluster_profiles()] == ["ClusterProfile"]


def test_definitions_are_always_the_same_objects() -> None:
    assert all(one is other for one, other in zip(definitions.kueue(), definitions.all_definitions(), strict=False))


@pytest.mark.parametrize("case", [case for cases in CASES.values() for case in cases], ids=lambda case: case.sentence)
def test_a_verdict(case: Case) -> None:
    assert {problem.field for problem in problems_of(case)} == case.refused


def problems_of(case: Case) -> list[FieldProblem]:
    """What the last step of a case is refused for."""
    schema = schema_of(case.first["kind"], case.first["apiVersion"])
    obj = schema.prune_and_default({name: part for name, part in copied(case.first).items() if name != "status"})
    problems = schema.problems(obj, None)
    for part, patch in case.steps:
        assert problems == [], "only the last step may be refused"
        new = schema.prune_and_default({**obj, part: merged(obj.get(part), copied(patch))})
        problems, obj = schema.problems(new, obj), new
    return [problem for problem in problems if "some validation rules were not checked" not in problem.message]


def copied(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    made = dict(value) if isinstance(value, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            made.pop(name, None)
        else:
            made[name] = merged(made.get(name), inner)
    return made


def test_sentences_are_told_apart() -> None:
    sentences = [case.sentence for cases in CASES.values() for case in cases]
    assert len(set(sentences)) == len(sentences)


def test_defaults_come_as_the_real_ones() -> None:
    queue = schema_of("ClusterQueue").prune_and_default({"metadata": {"name": "cq"}, "spec": {}})
    assert queue["spec"] == {
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "Never",
        },
    }
    made = schema_of("Workload").prune_and_default(copied(workload({"template": {}}, nonsense=1)))
    assert made["spec"] == {
        "queueName": "queue",
        "active": True,
        "podSets": [{"name": "main", "count": 1, "template": {}}],
    }


def test_a_pod_keeps_what_nobody_knows() -> None:
    pod = {"containers": [{"name": "c", "novelty": 1}], "newest": {"a": None}}
    made = schema_of("Workload").prune_and_default(copied(workload({"template": {"spec": pod}})))
    assert made["spec"]["podSets"][0]["template"]["spec"] == pod


def running() -> dict[str, Any]:
    """A workload of some 2 KB as it is while it waits for its check."""
    status = {
        "conditions": [condition("QuotaReserved"), condition("Admitted"), condition("PodsReady")],
        "admission": admission(),
        "admissionChecks": [check()],
    }
    pod = {
        "containers": [{"name": f"c{n}", "image": "i", "env": [{"name": "A", "value": "b" * 100}]} for n in range(10)]
    }
    made: dict[str, Any] = copied(workload({"name": "main", "count": 3, "template": {"spec": pod}}, active=True))
    return made | {"status": copied(status)}


def test_a_write_of_the_status_costs_little() -> None:
    """The budget of a whole write is 150 microseconds; here is room for a slow machine, not for a rule in CEL per write."""
    schema, old = schema_of("Workload"), running()
    ready = [{**old["status"]["admissionChecks"][0], "state": "Ready"}]
    new = {**old, "status": {**old["status"], "admissionChecks": ready, "clusterName": "a"}}

    def write() -> None:
        assert schema.prune_and_default(new) is new
        assert schema.problems(new, old) == []

    write()
    assert min(timeit.repeat(write, number=200, repeat=5, timer=process_time)) / 200 < 250e-6
