from __future__ import annotations

from fakekube.builtins.builtin_schemas import schema_of
from fakekube.server.printers.explained import META, PREFIX, explained, object_meta
from tests.fakekube.front_ends import resource

JOBS = resource("jobs", "Job", "batch", schema=schema_of("batch", "v1", "Job"))


def test_models_refer_to_each_other() -> None:
    schema, parts = explained(JOBS)
    assert schema["properties"]["spec"]["allOf"] == [{"$ref": f"{PREFIX}io.k8s.api.v1.JobSpec"}]
    template = parts["io.k8s.api.v1.JobSpec"]["properties"]["template"]
    assert template["allOf"] == [{"$ref": f"{PREFIX}io.k8s.api.v1.PodTemplateSpec"}]
    containers = parts["io.k8s.api.v1.PodSpec"]["properties"]["containers"]
    assert containers["items"] == {"$ref": f"{PREFIX}io.k8s.api.v1.Container"}
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_fields_are_described() -> None:
    _, parts = explained(JOBS)
    suspend = parts["io.k8s.api.v1.JobSpec"]["properties"]["suspend"]
    assert suspend["type"] == "boolean"
    assert suspend["description"].startswith("suspend specifies whether the Job controller should create Pods or not.")
    assert "noqa" not in suspend["description"]


def test_a_model_that_contains_itself_comes_to_an_end() -> None:
    definitions = resource(
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "apiextensions.k8s.io",
        schema=schema_of("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    )
    _, parts = explained(definitions)
    assert "io.k8s.api.v1.CustomResourceDefinitionSpec" in parts


def test_a_kind_that_nobody_describes_stays_as_it_is() -> None:
    toys = resource("toys", "Toy", schema={"type": "object"})
    assert explained(toys) == ({"type": "object"}, {})
    assert explained(resource("jobs", "Job", "batch")) == ({}, {})


def test_metadata_is_described_too() -> None:
    meta = object_meta()[f"{META}.ObjectMeta"]["properties"]
    assert meta["name"]["description"].startswith("Name must be unique within a namespace.")
    assert meta["ownerReferences"]["items"] == {"$ref": f"{PREFIX}{META}.OwnerReference"}
