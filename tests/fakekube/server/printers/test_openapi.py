from __future__ import annotations

from typing import Any

import msgspec

from fakekube.model.resources import Registry
from fakekube.model.wire import Request
from fakekube.server.printers import openapi
from tests.fakekube.front_ends import JOBS, NAMESPACES, TOYS, registry, resource


def ask(served: Registry, path: str) -> Any:
    answer = openapi.answer(served, Request(method="GET", path=path))
    return msgspec.json.decode(answer.body) if answer is not None else None


def test_the_index_leads_to_a_document_for_each_version() -> None:
    index = ask(registry(), "/openapi/v3")["paths"]
    assert list(index) == ["api/v1", "apis/batch/v1", "apis/example.com/v1beta1"]
    for entry in index.values():
        path, _, query = entry["serverRelativeURL"].partition("?")
        assert query.startswith("hash=")
        assert ask(registry(), path)["openapi"] == "3.0.0"


def test_other_documents_do_not_exist() -> None:
    assert ask(registry(), "/openapi/v3/apis/none/v1") is None
    assert ask(registry(), "/api") is None
    assert openapi.answer(registry(), Request(method="POST", path="/openapi/v3")) is None


def test_a_schema_is_found_by_group_version_and_kind() -> None:
    schemas = ask(registry(), "/openapi/v3/apis/example.com/v1beta1")["components"]["schemas"]
    toy = schemas["com.example.v1beta1.Toy"]
    assert toy["x-kubernetes-group-version-kind"] == [{"group": "example.com", "kind": "Toy", "version": "v1beta1"}]
    assert toy["description"] == "Toy is what one plays with."
    assert toy["properties"]["spec"] == TOYS.schema["properties"]["spec"]
    assert list(toy["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
    (reference,) = toy["properties"]["metadata"]["allOf"]
    assert reference["$ref"].removeprefix("#/components/schemas/") in schemas
    items = schemas["com.example.v1beta1.ToyList"]["properties"]["items"]["items"]
    assert items == {"$ref": "#/components/schemas/com.example.v1beta1.Toy"}


def test_every_reference_leads_somewhere() -> None:
    for entry in ask(registry(), "/openapi/v3")["paths"].values():
        document = ask(registry(), entry["serverRelativeURL"].partition("?")[0])
        found = references(document)
        assert found
        assert found <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(references(each) for each in value))
    return set()


def test_a_kind_without_a_schema_may_hold_anything() -> None:
    schemas = ask(registry(), "/openapi/v3/apis/batch/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.batch.v1.Job"]["x-kubernetes-preserve-unknown-fields"] is True


def test_paths_say_what_kubectl_looks_for() -> None:
    paths = ask(Registry((JOBS,)), "/openapi/v3/apis/batch/v1")["paths"]
    root = "/apis/batch/v1"
    one = f"{root}/namespaces/{{namespace}}/jobs/{{name}}"
    assert list(paths) == [f"{root}/jobs", one.removesuffix("/{name}"), one, f"{one}/status"]
    patch = paths[one]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "batch", "version": "v1", "kind": "Job"}
    assert {"dryRun", "fieldValidation"} <= {each["name"] for each in patch["parameters"]}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    assert set(paths[one]) == {"get", "put", "patch", "delete", "parameters"}


def test_custom_kinds_have_no_strategic_merge_patch() -> None:
    paths = ask(registry(), "/openapi/v3/apis/example.com/v1beta1")["paths"]
    patch = paths["/apis/example.com/v1beta1/namespaces/{namespace}/toys/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert "application/merge-patch+json" in patch["requestBody"]["content"]


def test_a_cluster_scoped_kind_has_one_collection() -> None:
    paths = ask(Registry((NAMESPACES,)), "/openapi/v3/api/v1")["paths"]
    assert list(paths)[:2] == ["/api/v1/namespaces", "/api/v1/namespaces/{name}"]


def test_a_review_can_only_be_created() -> None:
    reviews = resource("tokenreviews", "TokenReview", "authentication.k8s.io", namespaced=False, verbs=("create",))
    paths = ask(Registry((reviews,)), "/openapi/v3/apis/authentication.k8s.io/v1")["paths"]
    assert {path: set(operations) for path, operations in paths.items()} == {
        "/apis/authentication.k8s.io/v1/tokenreviews": {"post", "parameters"}
    }


def test_documents_are_kept_while_their_resources_are_the_same() -> None:
    served = Registry((JOBS,))
    first = openapi.answer(served, Request(method="GET", path="/openapi/v3/apis/batch/v1"))
    served.add(TOYS)
    second = openapi.answer(served, Request(method="GET", path="/openapi/v3/apis/batch/v1"))
    assert first is not None
    assert second is not None
    assert first.body is second.body
    before = ask(served, "/openapi/v3")["paths"]["apis/example.com/v1beta1"]
    served.add(resource("toys", "Toy", "example.com", version="v1beta1", custom=True))
    assert ask(served, "/openapi/v3")["paths"]["apis/example.com/v1beta1"] != before


def test_the_old_document_has_the_same_definitions() -> None:
    old = ask(registry(), "/openapi/v2")
    assert old["swagger"] == "2.0"
    assert "com.example.v1beta1.Toy" in old["definitions"]
    assert references(old) <= {f"#/definitions/{name}" for name in old["definitions"]}
