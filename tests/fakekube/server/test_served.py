"""Definitions and what they make a server serve."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.wire import Object
from fakekube.schemas.schema import Schema
from multikueue_simulator import definitions
from tests.fakekube.builders import DEFINITIONS, TOYS, Bench, toy, toys

TOY = f"{DEFINITIONS}/toys.example.com"


def conditions(definition: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in definition["status"]["conditions"]}


def test_a_definition_is_accepted_at_once(bench: Bench) -> None:
    made = bench.define()
    assert made["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }
    assert conditions(bench.get(TOY)) == {"NamesAccepted": "True", "Established": "True"}
    bench.make(TOYS, toy("a"))


def test_two_definitions_do_not_share_a_name(bench: Bench) -> None:
    bench.define()
    other = toys()
    other["metadata"]["name"] = "playthings.example.com"
    other["spec"]["names"] = {"plural": "playthings", "singular": "plaything", "kind": "Toy"}
    bench.define(other)
    assert conditions(bench.get(f"{DEFINITIONS}/playthings.example.com"))["Established"] == "False"
    assert bench.answer("GET", "/apis/example.com/v1/namespaces/t/playthings")[0] == 404


def test_a_changed_definition_holds_at_once(bench: Bench) -> None:
    bench.define()
    changed = bench.get(TOY)
    properties = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    properties["wheels"] = {"type": "integer", "default": 4}
    assert bench.done("PUT", TOY, changed)["metadata"]["generation"] == 2
    assert bench.make(TOYS, toy("a"))["spec"]["wheels"] == 4


def test_a_change_of_its_metadata_leaves_the_kind_alone(bench: Bench) -> None:
    bench.define()
    generation = bench.cluster.registry.generation
    watch = bench.watch(TOYS)
    bench.patch(TOY, {"metadata": {"labels": {"x": "y"}}})
    assert (bench.cluster.registry.generation, watch.ended) == (generation, False)


def test_a_version_may_be_served_no_more(bench: Bench) -> None:
    second: Any = {**toys()["spec"]["versions"][0], "name": "v2", "storage": False}
    bench.define(toys(second))
    assert bench.names(TOYS.replace("v1", "v2")) == []
    changed = bench.get(TOY)
    changed["spec"]["versions"][1]["served"] = False
    bench.done("PUT", TOY, changed)
    assert bench.ask("GET", TOYS.replace("v1", "v2")).status == 404  # type: ignore[union-attr]
    assert bench.names(TOYS) == []


def test_a_bad_definition_is_refused(bench: Bench) -> None:
    refusal = bench.refused(422, "POST", DEFINITIONS, {**toys(), "metadata": {"name": "toys"}})
    assert refusal["details"]["causes"][0]["field"] == "metadata.name"


def test_known_definitions_are_installed_quickly_and_shared() -> None:
    one, other = Bench(definitions=definitions.kueue()), Bench(definitions=definitions.kueue())
    path = "/apis/kueue.x-k8s.io/v1beta2"
    assert one.get(path) == other.get(path)
    stored = one.get(f"{DEFINITIONS}/workloads.kueue.x-k8s.io")
    assert conditions(stored)["Established"] == "True"
    assert stored["metadata"]["generation"] == 1
    resources = [bench.cluster.resource("kueue.x-k8s.io/v1beta2", "Workload") for bench in (one, other)]
    assert Schema.of(resources[0]) is Schema.of(resources[1])


def test_what_nobody_defined_is_not_served(bench: Bench) -> None:
    with pytest.raises(LookupError):
        bench.cluster.resource("example.com/v1", "Toy")
