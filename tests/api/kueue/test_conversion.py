"""Manifests of v1beta1 in v1beta2: what moves, what is told, and what is refused."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kinds import CLUSTER_QUEUES, MULTIKUEUE_CLUSTERS
from multikueue.api.kueue.conversion import KINDS, LOST, Unconvertible, convert, lost_fields
from multikueue.api.meta import decoder, encode
from tests.api.kueue.old_manifests import DRAWN, draw

Tree = dict[str, Any]

TOPOLOGY = {
    "levels": ["block", "host"],
    "domains": [{"values": ["b1", "n-1.x"], "count": 1}, {"values": ["b1", "n-22.x"], "count": 3}],
}
SLICES = {
    "levels": ["block", "host"],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [
                {"universal": "b1"},
                {"individual": {"prefix": "n-", "suffix": ".x", "roots": ["1", "22"]}},
            ],
            "podCounts": {"individual": [1, 3]},
        }
    ],
}


def old(kind: str, version: str = "v1beta1", **fields: Any) -> Tree:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": {"name": "x"}, **fields}


def assignments(*assigned: Tree) -> Tree:
    return {"admission": {"podSetAssignments": [{"topologyAssignment": each} for each in assigned]}}


MOVES: dict[str, tuple[Tree, Tree]] = {
    "a cohort": (old("ClusterQueue", spec={"cohort": "a"}), {"spec": {"cohortName": "a"}}),
    "admission checks by name": (
        old("ClusterQueue", spec={"admissionChecks": ["a", "b", "a"]}),
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}},
    ),
    "an empty list of checks": (old("ClusterQueue", spec={"admissionChecks": []}), {"spec": {}}),
    "an empty strategy": (old("ClusterQueue", spec={"admissionChecksStrategy": {}}), {"spec": {}}),
    "a strategy of checks stays": (
        old("ClusterQueue", spec={"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}),
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}},
    ),
    "when can borrow or preempt": (
        old("ClusterQueue", spec={"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}),
        {"spec": {"flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"}}},
    ),
    "an unknown field": (old("ClusterQueue", spec={"later": [1]}), {"spec": {"later": [1]}}),
    "a cohort of v1alpha1": (old("Cohort", "v1alpha1", spec={"parent": "a"}), {"spec": {"parentName": "a"}}),
    "a topology of v1alpha1": (old("Topology", "v1alpha1", spec={"levels": []}), {"spec": {"levels": []}}),
    "a kubeconfig": (
        old("MultiKueueCluster", spec={"kubeConfig": {"location": "s", "locationType": "Path"}}),
        {"spec": {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Path"}}}},
    ),
    "a cluster profile beside the kubeconfig that v1beta1 wants": (
        old("MultiKueueCluster", "v1alpha1", spec={"kubeConfig": {"location": ""}, "clusterProfileRef": {"name": "p"}}),
        {"spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}},
    ),
    "a workload's priority class": (
        old("Workload", spec={"priorityClassSource": "scheduling.k8s.io/priorityclass", "priorityClassName": "p"}),
        {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "p"}}},
    ),
    "a workload's own priority class": (
        old("Workload", spec={"priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass", "priorityClassName": "p"}),
        {"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "p"}}},
    ),
    "the time spent": (
        old("Workload", status={"accumulatedPastExexcutionTimeSeconds": 5}),
        {"status": {"accumulatedPastExecutionTimeSeconds": 5}},
    ),
    "a topology assignment": (old("Workload", status=assignments(TOPOLOGY)), {"status": assignments(SLICES)}),
    "a LocalQueue's usage": (
        old("LocalQueue", status={"flavorUsage": [{"name": "f"}], "flavors": []}),
        {"status": {"flavorsUsage": [{"name": "f"}]}},
    ),
}


@pytest.mark.parametrize(("tree", "after"), MOVES.values(), ids=MOVES)
def test_what_has_another_name_in_v1beta2_moves(tree: Tree, after: Tree) -> None:
    before = deepcopy(tree)

    found, _ = convert(tree)

    head = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": tree["kind"], "metadata": {"name": "x"}}
    assert found == head | after
    assert tree == before


TOLD: dict[str, tuple[Tree, str]] = {
    "two ways to name checks": (
        old(
            "ClusterQueue",
            spec={"admissionChecks": ["a"], "admissionChecksStrategy": {"admissionChecks": [{"name": "b"}]}},
        ),
        "spec.admissionChecksStrategy: spec.admissionChecks takes its place, as in Kueue",
    ),
    "minutes that nobody heeds": (
        old("AdmissionCheck", spec={"retryDelayMinutes": 5}),
        "spec.retryDelayMinutes: v1beta2 has no such field, and Kueue does not use it",
    ),
    "a priority class of no kind": (
        old("Workload", spec={"priorityClassName": "p"}),
        "spec.priorityClassName: dropped, as in Kueue: spec.priorityClassSource does not say of which kind it is",
    ),
}


@pytest.mark.parametrize(("tree", "told"), TOLD.values(), ids=TOLD)
def test_what_is_lost_is_told(tree: Tree, told: str) -> None:
    assert convert(tree)[1] == [told]


REFUSED: dict[str, tuple[Tree, str]] = {
    "an unknown kind": (old("ClusterQueu"), "kind: expected AdmissionCheck or ClusterQueue or "),
    "an unknown version": (old("Cohort", "v1"), "apiVersion: expected kueue.x-k8s.io/v1beta1, got 'kueue.x-k8s.io/v1'"),
    "a queue of v1alpha1": (old("ClusterQueue", "v1alpha1"), "apiVersion: expected kueue.x-k8s.io/v1beta1"),
    "a spec that is a list": (old("ClusterQueue", spec=[]), "spec: expected a mapping, got []"),
    "checks that are one name": (
        old("ClusterQueue", spec={"admissionChecks": "a"}),
        "spec.admissionChecks: expected a list of names, got 'a'",
    ),
    "a check that is a mapping": (
        old("ClusterQueue", spec={"admissionChecks": ["a", {"name": "b"}]}),
        "spec.admissionChecks[1]: expected a name, got {'name': 'b'}",
    ),
    "both names of one field": (
        old("ClusterQueue", spec={"cohort": "a", "cohortName": "b"}),
        "spec.cohort: expected it without spec.cohortName, which takes its place",
    ),
    "a cluster of nothing": (
        old("MultiKueueCluster", spec={"kubeConfig": {}}),
        "spec: expected kubeConfig.location or clusterProfileRef",
    ),
    "a source of priority that nobody knows": (
        old("Workload", spec={"priorityClassSource": "x", "priorityClassName": "p"}),
        "spec.priorityClassSource: expected kueue.x-k8s.io/workloadpriorityclass or ",
    ),
    "domains without values": (
        old("Workload", status=assignments({"levels": ["a"], "domains": [{"count": 1}]})),
        "status.admission.podSetAssignments[0].topologyAssignment: expected levels, and domains",
    ),
}


@pytest.mark.parametrize(("tree", "why"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_converted_names_its_field(tree: Tree, why: str) -> None:
    with pytest.raises(Unconvertible) as caught:
        convert(tree)
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize("tree", [{"apiVersion": "batch/v1", "kind": "Job"}, old("Cohort", "v1beta2", spec={"x": 1})])
def test_another_object_passes_as_it_is(tree: Tree) -> None:
    assert convert(tree) == (tree, [])


def test_every_kind_is_drawn() -> None:
    assert set(DRAWN) == set(KINDS)


@given(st.randoms(use_true_random=False), st.sampled_from(sorted(DRAWN)))
def test_twice_is_once_and_what_is_read_of_it_is_all_there(random: Random, kind: str) -> None:
    tree = draw(kind, random)

    found, _ = convert(tree)

    assert convert(found) == (found, [])
    spec = tree.get("spec", {})
    if kind == "ClusterQueue":
        queue = decoder(CLUSTER_QUEUES.type)(encode(found))
        named = spec.get("admissionChecks") or [
            each["name"] for each in spec.get("admissionChecksStrategy", {}).get("admissionChecks", ())
        ]
        assert queue.spec.cohort_name == spec.get("cohort", "")
        rules = queue.spec.admission_checks_strategy.admission_checks
        assert [each.name for each in rules] == named
    if kind == "MultiKueueCluster":
        source = decoder(MULTIKUEUE_CLUSTERS.type)(encode(found)).spec.cluster_source
        assert (source.kube_config is None) != (source.cluster_profile_ref is None)


# What is lost where nobody converts.


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in LOST.items() for field in fields])
def test_a_field_that_was_written_in_v1beta1_is_lost(kind: str, field: str) -> None:
    entry = {"apiVersion": "kueue.x-k8s.io/v1beta1", "fieldsV1": {"f:spec": {f"f:{field}": {}, "f:other": {}}}}
    stored = old(kind, "v1beta2", metadata={"managedFields": [entry]}, spec={})

    assert lost_fields(stored) == (f"spec.{field}",)


def test_nothing_is_lost_of_what_was_written_in_v1beta2() -> None:
    entry = {"apiVersion": "kueue.x-k8s.io/v1beta2", "fieldsV1": {"f:spec": {"f:cohortName": {}}}}

    assert lost_fields(old("ClusterQueue", "v1beta2", metadata={"managedFields": [entry]})) == ()
    assert lost_fields(old("ClusterQueue", "v1beta2")) == ()
