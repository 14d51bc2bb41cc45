"""Kinds of patches, and server-side apply."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.wire import Object
from tests.fakekube.builders import JOBS, MAPS, MERGE, TOYS, Bench, config_map, job, toy

JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def manifest(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def applied(bench: Bench, path: str, body: Any, *, manager: str = "me", **query: str) -> tuple[int, Any]:
    return bench.answer("PATCH", path, body, content_type=APPLY, fieldManager=manager, **query)


def test_a_merge_patch(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    assert bench.patch(f"{MAPS}/a", {"data": {"key": None, "new": "x"}})["data"] == {"new": "x"}


def test_a_json_patch(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    operations: Any = [
        {"op": "test", "path": "/data/key", "value": "value"},
        {"op": "add", "path": "/data/new", "value": "x"},
    ]
    assert bench.patch(f"{MAPS}/a", operations, content_type=JSON_PATCH)["data"] == {"key": "value", "new": "x"}
    operations[0]["value"] = "other"
    assert bench.refused(422, "PATCH", f"{MAPS}/a", operations, content_type=JSON_PATCH)["reason"] == "Invalid"


def test_a_strategic_merge_patch_joins_lists_by_their_keys(bench: Bench) -> None:
    bench.make(JOBS, job("a", suspend=True))
    body: Object = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "other"}]}}}}
    code, answer = bench.answer("PATCH", f"{JOBS}/a", body, content_type=STRATEGIC)
    assert (code, "field is immutable" in answer["message"]) == (422, True)
    assert '"name":"main"' in answer["message"]
    # Merged by key the container kept all else it had.
    assert '"terminationMessagePath"' in answer["message"]


def test_custom_kinds_take_no_strategic_merge_patch(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a"))
    refusal = bench.refused(415, "PATCH", f"{TOYS}/a", {}, content_type=STRATEGIC)
    assert refusal["message"] == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


@pytest.mark.parametrize("content_type", ["", "application/json", "text/plain"])
def test_a_patch_says_what_kind_it_is(bench: Bench, content_type: str) -> None:
    bench.make(MAPS, config_map("a"))
    bench.refused(415, "PATCH", f"{MAPS}/a", {}, content_type=content_type)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[]", "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        (b'"x"', "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
)
def test_a_merge_patch_is_an_object(bench: Bench, body: bytes, message: str) -> None:
    assert bench.refused(400, "PATCH", f"{MAPS}/a", body, content_type=MERGE)["message"] == message


def test_a_patch_that_is_no_json(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    assert bench.refused(400, "PATCH", f"{MAPS}/a", b"{oo", content_type=MERGE)["message"].startswith(
        "error decoding patch: "
    )


def test_a_patch_leaves_kind_and_name(bench: Bench) -> None:
    bench.define()
    bench.make(TOYS, toy("a"))
    bench.make(MAPS, config_map("a"))
    refusal = bench.refused(422, "PATCH", f"{TOYS}/a", {"kind": "Foo"}, content_type=MERGE)
    assert refusal["message"] == 'Foo.example.com "a" is invalid: kind: Invalid value: "Foo": must be Toy'
    refusal = bench.refused(422, "PATCH", f"{TOYS}/a", {"apiVersion": "foo/v1"}, content_type=MERGE)
    assert refusal["message"] == 'Toy.foo "a" is invalid: apiVersion: Invalid value: "foo/v1": must be example.com/v1'
    bench.refused(422, "PATCH", f"{MAPS}/a", {"kind": "Foo"}, content_type=MERGE)
    refusal = bench.refused(400, "PATCH", f"{MAPS}/a", {"metadata": {"name": "b"}}, content_type=MERGE)
    assert refusal["message"] == "the name of the object (b) does not match the name on the URL (a)"


def test_what_cannot_be_read_after_a_patch_is_the_patchs_fault(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    refusal = bench.refused(422, "PATCH", f"{MAPS}/a", {"data": {"x": 1}}, content_type=MERGE)
    assert refusal["message"].startswith(' "" is invalid: patch: Invalid value: ')


@pytest.mark.parametrize("version", ["1", "99999"])
def test_a_patch_may_name_the_version_it_is_for(bench: Bench, version: str) -> None:
    made = bench.make(MAPS, config_map("a"))
    body = {"metadata": {"resourceVersion": version}, "data": {"key": "2"}}
    bench.refused(409, "PATCH", f"{MAPS}/a", body, content_type=MERGE)
    body["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    assert bench.patch(f"{MAPS}/a", body)["data"] == {"key": "2"}


def test_nobody_is_patched_who_is_not_there(bench: Bench) -> None:
    bench.refused(404, "PATCH", f"{MAPS}/a", {}, content_type=MERGE)


# --- apply -----------------------------------------------------------------------------------------------------------


def test_an_apply_makes_changes_and_leaves_alone(bench: Bench) -> None:
    code, made = applied(bench, f"{MAPS}/a", manifest("a", one="1", two="2"))
    assert (code, made["data"]) == (201, {"one": "1", "two": "2"})
    code, changed = applied(bench, f"{MAPS}/a", manifest("a", one="3"))
    assert (code, changed["data"]) == (200, {"one": "3"}), "what is not named any more goes"
    _, same = applied(bench, f"{MAPS}/a", manifest("a", one="3"))
    assert same == changed


def test_an_apply_may_be_yaml(bench: Bench) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  when: 2026-01-01\n"
    code, refusal = applied(bench, f"{MAPS}/a", body)
    assert code == 201, refusal
    assert bench.get(f"{MAPS}/a")["data"] == {"when": "2026-01-01"}, "times stay text"


def test_what_another_set_is_a_conflict_unless_forced(bench: Bench) -> None:
    applied(bench, f"{MAPS}/a", manifest("a", one="1"))
    code, refusal = applied(bench, f"{MAPS}/a", manifest("a", one="2"), manager="you")
    assert (code, refusal["details"]["causes"][0]["reason"]) == (409, "FieldManagerConflict")
    code, changed = applied(bench, f"{MAPS}/a", manifest("a", one="2"), manager="you", force="true")
    assert (code, changed["data"]) == (200, {"one": "2"})


def test_who_applies_has_a_name(bench: Bench) -> None:
    refusal = bench.refused(422, "PATCH", f"{MAPS}/a", manifest("a"), content_type=APPLY)
    assert refusal["message"] == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch'
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (manifest("b"), 400),
        ({**manifest("a"), "kind": "Secret"}, 400),
        ({**manifest("a"), "metadata": {"name": "a", "managedFields": []}}, 400),
        ({**manifest("a"), "metadata": {"name": "a", "uid": "x"}}, 422),
        ([], 400),
    ],
)
def test_what_is_not_applied(bench: Bench, body: Any, code: int) -> None:
    assert applied(bench, f"{MAPS}/a", body)[0] == code
    assert not bench.is_there(f"{MAPS}/a")


def test_an_apply_may_name_the_version_it_is_for(bench: Bench) -> None:
    new = {**manifest("a", one="1"), "metadata": {"name": "a", "resourceVersion": "7"}}
    assert applied(bench, f"{MAPS}/a", new)[0] == 201, "of nothing there is no version"
    assert applied(bench, f"{MAPS}/a", {**new, "data": {"one": "2"}})[0] == 409


def test_a_status_can_be_applied_to_what_is_there(bench: Bench) -> None:
    bench.define()
    body = {**toy("a"), "status": {"size": 3}}
    assert applied(bench, f"{TOYS}/a/status", body)[0] == 404
    bench.make(TOYS, toy("a"))
    code, changed = applied(bench, f"{TOYS}/a/status", {**body, "spec": {"color": "blue"}})
    assert (code, changed["status"], changed["spec"]["color"]) == (200, {"size": 3}, "red")
    empty = {**body, "metadata": {"name": "a", "resourceVersion": ""}, "status": {"size": 4}}
    assert applied(bench, f"{TOYS}/a/status", empty)[0] == 422
