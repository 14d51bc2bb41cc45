"""Schemas of built-in kinds: the models' fields with what our tables add (the real suite compares with a real server)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fakekube.builtins.builtin_schemas import schema_of
from fakekube.schemas.schema import Schema


def at(schema: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    for name in path:
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema


POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("path", "keys", "merge_key"),
    [
        ((*POD, "containers"), ["name"], "name"),
        ((*POD, "initContainers"), ["name"], "name"),
        ((*POD, "volumes"), ["name"], "name"),
        ((*POD, "tolerations"), None, None),
        ((*POD, "containers", "[]", "env"), ["name"], "name"),
        ((*POD, "containers", "[]", "ports"), ["containerPort", "protocol"], "containerPort"),
        ((*POD, "containers", "[]", "volumeMounts"), ["mountPath"], "mountPath"),
        (("metadata", "ownerReferences"), ["uid"], "uid"),
        (("status", "conditions"), None, "type"),
    ],
)
def test_lists_of_a_job_have_their_keys(path: tuple[str, ...], keys: list[str] | None, merge_key: str | None) -> None:
    found = at(schema_of("batch", "v1", "Job"), *path)
    assert found["type"] == "array"
    assert found.get("x-kubernetes-list-map-keys") == keys
    assert found["x-kubernetes-list-type"] == ("map" if keys else "atomic")
    assert found.get("x-kubernetes-patch-merge-key") == merge_key


def test_finalizers_are_a_set_that_is_merged() -> None:
    found = at(schema_of("", "v1", "Secret"), "metadata", "finalizers")
    assert (found["x-kubernetes-list-type"], found["x-kubernetes-patch-strategy"]) == ("set", "merge")


def test_one_kind_of_two_groups_is_not_mixed_up() -> None:
    assert "involvedObject" in schema_of("", "v1", "Event")["properties"]
    assert "regarding" in schema_of("events.k8s.io", "v1", "Event")["properties"]


def test_a_schema_in_a_schema_is_open_where_it_contains_itself() -> None:
    found = at(schema_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"), "spec", "versions", "[]", "schema")
    assert at(found, "openAPIV3Schema", "not")["x-kubernetes-preserve-unknown-fields"]


def test_an_unknown_kind_is_a_lookup_error() -> None:
    with pytest.raises(LookupError):
        schema_of("", "v1", "Nonsense")


def test_a_schema_is_made_once() -> None:
    assert schema_of("", "v1", "Secret") is schema_of("", "v1", "Secret")


def job(**container: Any) -> dict[str, Any]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", **container}]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}


def problems(obj: dict[str, Any]) -> list[str]:
    return [problem.field for problem in Schema(schema_of("batch", "v1", "Job")).problems(obj, None)]


CONTAINER = "spec.template.spec.containers[0]"


@pytest.mark.parametrize(
    ("container", "wrong"),
    [
        ({"resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}, None),
        ({"resources": {"requests": {"cpu": 0.5}}}, None),
        ({"livenessProbe": {"httpGet": {"port": "web"}}}, None),
        ({"livenessProbe": {"httpGet": {"port": 80}}}, None),
        ({"env": [{"name": "A", "value": 1}]}, f"{CONTAINER}.env[0].value"),
        ({"ports": [{"containerPort": "x"}]}, f"{CONTAINER}.ports[0].containerPort"),
        ({"command": "x"}, f"{CONTAINER}.command"),
    ],
)
def test_types_are_judged(container: dict[str, Any], wrong: str | None) -> None:
    assert problems(job(**container)) == ([wrong] if wrong else [])


def test_what_is_not_there_is_not_missed() -> None:
    assert problems({"spec": {}}) == []


def test_unknown_fields_are_known_as_such_and_dropped() -> None:
    schema = Schema(schema_of("batch", "v1", "Job"))
    obj = job(novelty=1)
    assert schema.unknown_fields(obj) == [f"{CONTAINER}.novelty"]
    assert schema.prune_and_default(obj) == job()


def test_a_port_is_of_some_protocol() -> None:
    schema = Schema(schema_of("batch", "v1", "Job"))
    assert schema.prune_and_default(job(ports=[{"containerPort": 1}])) == job(
        ports=[{"containerPort": 1, "protocol": "TCP"}]
    )


def test_secrets_hold_bytes() -> None:
    schema = Schema(schema_of("", "v1", "Secret"))
    assert [each.field for each in schema.problems({"data": {"a": "***", "b": "YQ=="}}, None)] == ["data.a"]
