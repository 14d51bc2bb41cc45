"""What Kueue's webhooks refuse beyond its definitions (the real suite asks a worker with a real Kueue)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from multikueue.api.kueue.workload import ELASTIC_ANNOTATION
from multikueue_simulator.workers.kueue import webhooks
from tests.simulator.refusals_of_kueue import CASES
from tests.simulator.test_definitions import copied, merged
from tests.simulator.verdicts import Case, Object, pod_set, refused, reserved, workload

PROBLEM = re.compile(r"(?:^|[ \[])(\w[\w.\[\]]*): (?=Invalid|Required|Unsupported|Duplicate|Not found)")


def answer(new: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    request = {"uid": "u", "operation": "UPDATE" if old else "CREATE", "object": new, "oldObject": old}
    asked = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    made: dict[str, Any] = webhooks.review(asked)["response"]
    return made


def fields(response: dict[str, Any]) -> frozenset[str]:
    return frozenset(PROBLEM.findall(response["status"]["message"])) if "status" in response else frozenset()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.sentence)
def test_a_verdict(case: Case) -> None:
    obj, response = copied(case.first), answer(copied(case.first), None)
    for part, patch in case.steps:
        assert response["allowed"], "only the last step may be refused"
        new = {**obj, part: merged(obj.get(part), copied(patch))}
        response, obj = answer(new, obj), new
    assert fields(response) == case.refused
    assert response["allowed"] is not bool(case.refused)


def elastic() -> Object:
    made = workload(pod_set(count=3))
    return {**made, "metadata": {**made["metadata"], "annotations": {ELASTIC_ANNOTATION: "true"}}}


def over(count: int) -> Object:
    return {"reclaimablePods": [{"name": "main", "count": count}]}


THREE = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 3}]}
DOWN = ("spec", {"podSets": [pod_set(count=2)]})


@pytest.mark.parametrize(
    "case",
    [
        Case("fewer pods", elastic(), [reserved(), DOWN]),
        Case(
            "more pods", elastic(), [reserved(), ("spec", {"podSets": [pod_set(count=4)]})], refused("spec.podSets.0")
        ),
        Case(
            "other pods",
            elastic(),
            [reserved(), ("spec", {"podSets": [pod_set("other", count=2)]})],
            refused("spec.podSets.0", "status.admission.podSetAssignments[0].name"),
        ),
        Case("fewer pods than are reclaimable", elastic(), [reserved(**over(3)), DOWN]),
        Case(
            "other pods reclaimable than there are",
            elastic(),
            [reserved(**over(2)), DOWN, ("status", over(3))],
            refused("status.reclaimablePods[main].count"),
        ),
        Case(
            "fewer reclaimable, once scaled down",
            elastic(),
            [reserved(admission=THREE, **over(2)), DOWN, ("status", over(1))],
        ),
        Case(
            "none reclaimable, once scaled down",
            elastic(),
            [reserved(admission=THREE, **over(2)), DOWN, ("status", {"reclaimablePods": None})],
        ),
        Case(
            "fewer reclaimable, of the size that was admitted",
            elastic(),
            [reserved(admission=THREE, **over(2)), ("status", over(1))],
            refused("status.reclaimablePods[main].count"),
        ),
    ],
    ids=lambda case: case.sentence,
)
def test_a_verdict_on_an_elastic_job(case: Case) -> None:
    """As Kueue's since 0.19, with the gate for elastic jobs on."""
    test_a_verdict(case)


def test_an_object_on_its_way_out_is_not_held_back() -> None:
    old = copied(workload())
    old["status"] = {"conditions": [{"type": "QuotaReserved", "status": "True"}]}
    new = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "now"}, "spec": {"podSets": []}}
    assert answer(new, old) == {"uid": "u", "allowed": True}


def test_a_refusal_is_forbidden_and_names_all_that_is_wrong() -> None:
    (case,) = [each for each in CASES if each.sentence == "a flavor's resources in another order"]
    status = answer(case.first, None)["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith("[spec.resourceGroups[0]")


def test_the_configuration_asks_about_each_of_the_kinds_and_the_status_of_one() -> None:
    made = webhooks.configuration("somewhere")
    assert {each["name"]: each["rules"][0]["resources"] for each in made["webhooks"]} == {
        "vworkload.kb.io": ["workloads", "workloads/status"],
        "vclusterqueue.kb.io": ["clusterqueues"],
        "vcohort.kb.io": ["cohorts"],
    }
    assert {each["clientConfig"]["url"].split("/")[2] for each in made["webhooks"]} == {"somewhere"}
