"""Creating and updating: what the server sets, keeps, refuses and stores; one file, one kind throughout."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from fakekube.model.wire import Object
from tests.fakekube.builders import JOBS, MAPS, NOW, TOYS, Bench, config_map, events, job, toy
from tests.fakekube.builders import toys as definition


@pytest.fixture
def toys(bench: Bench) -> Bench:
    bench.define()
    return bench


def version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


# --- create ----------------------------------------------------------------------------------------------------------


def test_a_new_object_gets_what_only_the_server_gives(bench: Bench) -> None:
    given = config_map("a", uid="mine", creationTimestamp="2020-01-01T00:00:00Z", selfLink="x")
    code, made = bench.answer("POST", MAPS, given)
    metadata = made["metadata"]
    assert code == 201
    assert (made["kind"], made["apiVersion"], metadata["namespace"]) == ("ConfigMap", "v1", "t")
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert version(made) == str(bench.storage.rv)
    assert "selfLink" not in metadata
    assert "generation" not in metadata
    assert bench.get(f"{MAPS}/a") == made


def test_a_new_object_is_not_dying_and_has_no_status(toys: Bench) -> None:
    given = toy("a", deletionTimestamp="2020-01-01T00:00:00Z", generation=7) | {"status": {"size": 3}}
    made = toys.make(TOYS, given)
    assert "deletionTimestamp" not in made["metadata"]
    assert made["metadata"]["generation"] == 1
    assert "status" not in made


def test_defaults_are_filled_in_and_what_is_unknown_is_dropped_with_a_word(toys: Bench) -> None:
    answer = toys.ask("POST", TOYS, toy("a", spec={"color": "red", "wheels": 4}))
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.wheels\\""'  # type: ignore[union-attr]
    assert toys.get(f"{TOYS}/a")["spec"] == {"color": "red", "size": 1}


@pytest.mark.parametrize("body", [{"spec": {"wheels": 4}}, {"wheels": 4}, {"metadata": {"name": "a", "wheels": 4}}])
def test_who_is_strict_is_told_of_what_is_unknown(toys: Bench, body: Object) -> None:
    refusal = toys.refused(400, "POST", TOYS, toy("a") | body, fieldValidation="Strict")
    assert "strict decoding error: unknown field" in refusal["message"]
    assert "wheels" in refusal["message"]
    toys.ask("POST", TOYS, toy("a") | body, fieldValidation="Ignore")


def test_who_is_strict_is_told_of_what_is_there_twice(bench: Bench) -> None:
    body = b'{"metadata":{"name":"a","labels":{"x":"1","x":"2"}},"data":{"k":"v"},"data":{}}'
    refusal = bench.refused(400, "POST", MAPS, body, fieldValidation="Strict")
    told = 'strict decoding error: duplicate field "data", duplicate field "metadata.labels.x"'
    assert refusal["message"].endswith(told)
    bench.done("POST", MAPS, body)


def test_a_name_can_be_generated(bench: Bench) -> None:
    made = bench.make(MAPS, {"metadata": {"generateName": "some-"}})
    assert re.fullmatch("some-[bcdfghjklmnpqrstvwxz2456789]{5}", made["metadata"]["name"])
    long = bench.make(MAPS, {"metadata": {"generateName": "x" * 200}})
    assert len(long["metadata"]["name"]) == 63


def test_a_name_that_is_taken_is_not_generated(bench: Bench) -> None:
    endings = iter(["aaaaa", "aaaaa", "bbbbb"])
    bench.cluster.api.server.ending = lambda: next(endings)  # type: ignore[method-assign]
    names = [bench.make(MAPS, {"metadata": {"generateName": "x-"}})["metadata"]["name"] for _ in range(2)]
    assert names == ["x-aaaaa", "x-bbbbb"]


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({}, 409, 'configmaps "a" already exists'),
        (
            {"metadata": {}},
            422,
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            {"metadata": {"name": "b", "namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"metadata": {"name": "b", "resourceVersion": "5"}},
            500,
            "resourceVersion should not be set on objects to be created",
        ),
        (
            {"kind": "Secret", "apiVersion": "v1"},
            400,
            'Secret in version "v1" cannot be handled as a ConfigMap: no kind "Secret" is registered for version "v1" '
            'in scheme "pkg/runtime/scheme.go:111"',
        ),
    ],
)
def test_what_is_not_made(bench: Bench, change: Object, code: int, message: str) -> None:
    bench.make(MAPS, config_map("a"))
    assert bench.refused(code, "POST", MAPS, config_map("a") | change)["message"] == message


def test_a_namespace_must_be_there_and_stay(bench: Bench) -> None:
    refusal = bench.refused(404, "POST", "/api/v1/namespaces/nowhere/configmaps", config_map("a"))
    assert refusal["message"] == 'namespaces "nowhere" not found'
    bench.make(MAPS, config_map("held", finalizers=["example.com/hold"]))
    bench.done("DELETE", "/api/v1/namespaces/t")
    refusal = bench.refused(403, "POST", MAPS, config_map("a"))
    assert refusal["message"] == (
        'configmaps "a" is forbidden: unable to create new content in namespace t because it is being terminated'
    )
    assert refusal["details"]["causes"] == [
        {
            "reason": "NamespaceTerminating",
            "message": "namespace t is being terminated",
            "field": "metadata.namespace",
        }
    ]


def test_nothing_is_made_of_a_kind_that_ends(toys: Bench) -> None:
    toys.make(TOYS, toy("held", finalizers=["example.com/hold"]))
    toys.done("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.example.com")
    refusal = toys.refused(403, "POST", TOYS, toy("a"))
    assert refusal["message"].endswith("create not allowed while custom resource definition is terminating")


def test_a_dry_run_makes_nothing(bench: Bench) -> None:
    before = bench.storage.rv
    made = bench.done("POST", MAPS, config_map("a"), dryRun="All")
    assert "resourceVersion" not in made["metadata"]
    assert "uid" in made["metadata"]
    assert (bench.storage.rv, bench.is_there(f"{MAPS}/a")) == (before, False)


# --- update ----------------------------------------------------------------------------------------------------------


def test_an_update_replaces_all_but_what_is_the_servers(bench: Bench) -> None:
    made = bench.make(MAPS, config_map("a", labels={"x": "y"}))
    changed = bench.done("PUT", f"{MAPS}/a", {"metadata": {"name": "a", "generation": 9}, "data": {"new": "value"}})
    assert changed["data"] == {"new": "value"}
    kept = ("uid", "creationTimestamp", "namespace")
    assert [changed["metadata"][name] for name in kept] == [made["metadata"][name] for name in kept]
    assert changed["metadata"].keys() & {"labels", "generation"} == set()
    assert int(version(changed)) == int(version(made)) + 1


def test_an_update_of_an_older_version_is_a_conflict(bench: Bench) -> None:
    made = bench.make(MAPS, config_map("a"))
    bench.done("PUT", f"{MAPS}/a", made | {"data": {"key": "1"}})
    refusal = bench.refused(409, "PUT", f"{MAPS}/a", made | {"data": {"key": "2"}})
    assert (refusal["reason"], refusal["message"]) == (
        "Conflict",
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; '
        "please apply your changes to the latest version and try again",
    )


def test_an_update_may_name_the_uid(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    refusal = bench.refused(409, "PUT", f"{MAPS}/a", config_map("a", uid="other"))
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in refusal["message"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": "b"}, "the name of the object (b) does not match the name on the URL (a)"),
        ({}, "the name of the object (a based on URL) was undeterminable: name must be provided"),
    ],
)
def test_an_update_is_of_the_object_in_the_path(bench: Bench, metadata: Object, message: str) -> None:
    bench.make(MAPS, config_map("a"))
    assert bench.refused(400, "PUT", f"{MAPS}/a", {"metadata": metadata})["message"] == message


def test_what_is_not_there_is_not_updated_but_for_some_kinds(bench: Bench) -> None:
    bench.refused(404, "PUT", f"{MAPS}/a", config_map("a"))
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}}
    path = "/apis/coordination.k8s.io/v1/namespaces/t/leases/a"
    assert [bench.answer("PUT", path, lease)[0] for _ in range(2)] == [201, 422]


def test_custom_objects_are_updated_knowingly(toys: Bench) -> None:
    made = toys.make(TOYS, toy("a"))
    refusal = toys.refused(422, "PUT", f"{TOYS}/a", toy("a"))
    assert refusal["message"] == (
        'toys.example.com "a" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )
    toys.done("PUT", f"{TOYS}/a", toy("a", resourceVersion=version(made)))


Write = Callable[[Bench, Object], Any]
NOTHING_NEW: dict[str, Write] = {
    "an update": lambda bench, made: bench.done("PUT", f"{TOYS}/a", made),
    "a patch": lambda bench, _made: bench.patch(f"{TOYS}/a", {"spec": {"color": "red"}}),
    "an update of the status": lambda bench, made: bench.done("PUT", f"{TOYS}/a/status", made),
    "a patch of the wrong half": lambda bench, _made: bench.patch(f"{TOYS}/a", {"status": {"size": 9}}),
    "a patch of the other wrong half": lambda bench, _made: bench.patch(f"{TOYS}/a/status", {"spec": {"color": "x"}}),
    "a dry run": lambda bench, _made: bench.patch(f"{TOYS}/a", {"spec": {"color": "blue"}}, dryRun="All"),
}


@pytest.mark.parametrize("write", NOTHING_NEW.values(), ids=NOTHING_NEW.keys())
def test_what_changes_nothing_leaves_the_version_alone(toys: Bench, write: Write) -> None:
    made = toys.make(TOYS, toy("a"))
    made = toys.patch(f"{TOYS}/a/status", {"status": {"size": 1}})
    watch = toys.watch(TOYS, resourceVersion=version(made))
    write(toys, made)
    assert toys.get(f"{TOYS}/a") == made
    assert not watch.lines


def test_metadata_in_the_status_of_a_custom_kind_is_put_back_and_not_owned(toys: Bench) -> None:
    toys.make(TOYS, toy("a"))
    patched = toys.patch(f"{TOYS}/a/status", {"metadata": {"labels": {"x": "y"}}})
    assert "labels" not in patched["metadata"]
    owned = [entry["fieldsV1"] for entry in patched["metadata"]["managedFields"] if entry.get("subresource")]
    assert owned == []


def test_what_a_dry_run_would_have_done_is_told(bench: Bench) -> None:
    made = bench.make(MAPS, config_map("a"))
    told = bench.patch(f"{MAPS}/a", {"data": {"key": "2"}}, dryRun="All")
    assert (told["data"], version(told)) == ({"key": "2"}, version(made))


def test_the_generation_counts_what_is_wanted(toys: Bench) -> None:
    def generation(path: str, body: Object) -> int:
        return int(toys.patch(path, body)["metadata"]["generation"])

    toys.make(TOYS, toy("a"))
    assert generation(f"{TOYS}/a", {"metadata": {"labels": {"x": "y"}}}) == 1
    assert generation(f"{TOYS}/a/status", {"status": {"size": 2}}) == 1
    assert generation(f"{TOYS}/a", {"spec": {"color": "blue"}}) == 2
    assert generation(f"{TOYS}/a", {"metadata": {"generation": 77}}) == 2


def test_the_status_is_apart(toys: Bench) -> None:
    toys.make(TOYS, toy("a"))
    body = {"metadata": {"labels": {"x": "y"}}, "spec": {"color": "blue"}, "status": {"size": 2}}
    changed = toys.patch(f"{TOYS}/a/status", body)
    assert (changed["spec"]["color"], changed["status"]) == ("red", {"size": 2})
    assert "labels" not in changed["metadata"]
    changed = toys.patch(f"{TOYS}/a", {**body, "status": {"size": 3}})
    assert (changed["spec"]["color"], changed["status"]) == ("blue", {"size": 2})
    assert changed["metadata"]["labels"] == {"x": "y"}


def test_through_the_status_of_a_built_in_kind_metadata_can_be_changed(bench: Bench) -> None:
    bench.make(JOBS, job("a"))
    changed = bench.patch(f"{JOBS}/a/status", {"metadata": {"labels": {"x": "y"}}, "spec": {"suspend": True}})
    assert (changed["metadata"]["labels"]["x"], changed["spec"]["suspend"]) == ("y", False)


def test_the_uid_guards_the_object_and_not_its_status(toys: Bench) -> None:
    toys.make(TOYS, toy("a"))
    body = {"metadata": {"uid": "other"}, "status": {"size": 2}}
    refusal = toys.refused(422, "PATCH", f"{TOYS}/a", body, content_type="application/merge-patch+json")
    assert (
        refusal["message"] == 'Toy.example.com "a" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )
    assert toys.patch(f"{TOYS}/a/status", body)["status"] == {"size": 2}


def test_validation_says_what_is_wrong_where(toys: Bench) -> None:
    refusal = toys.refused(422, "POST", TOYS, toy("a", spec={"color": 7}))
    assert refusal["details"] == {
        "name": "a",
        "group": "example.com",
        "kind": "Toy",
        "causes": [
            {
                "reason": "FieldValueTypeInvalid",
                "message": 'Invalid value: "integer": spec.color in body must be of type string: "integer"',
                "field": "spec.color",
            }
        ],
    }


def test_what_the_stored_version_does_not_know_is_not_kept() -> None:
    bench = Bench()
    known = {"color": {"type": "string"}, "size": {"type": "integer"}, "name": {"type": "string"}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": known}}}
    second = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}}
    bench.define(definition(second))
    other = TOYS.replace("/v1/", "/v2/")
    made = bench.make(other, toy("a", version="v2", spec={"color": "red", "name": "x"}))
    assert made["apiVersion"] == "example.com/v2"
    found = bench.get(f"{TOYS}/a")
    assert (found["apiVersion"], found["spec"]) == ("example.com/v1", {"color": "red", "size": 1})
    same = bench.patch(f"{other}/a", {"spec": {"color": "red"}})
    assert version(same) == version(found), "another version alone is no change"
    watch = bench.watch(other)
    bench.patch(f"{TOYS}/a", {"spec": {"color": "blue"}})
    assert {item["apiVersion"] for _, item in events(watch)} == {"example.com/v2"}


def test_fields_have_owners(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    bench.patch(f"{MAPS}/a", {"data": {"other": "x"}}, fieldManager="someone")
    managers = [entry["manager"] for entry in bench.get(f"{MAPS}/a")["metadata"]["managedFields"]]
    assert managers == ["bench", "someone"]
    plain = Bench(managed_fields=False)
    assert "managedFields" not in plain.make(MAPS, config_map("a"))["metadata"]


def test_finalizers_of_custom_kinds_should_have_a_domain(toys: Bench) -> None:
    answer = toys.ask("POST", TOYS, toy("a", finalizers=["plain"]))
    assert "prefer a domain-qualified finalizer name" in answer.headers["Warning"]  # type: ignore[union-attr]


# --- webhooks --------------------------------------------------------------------------------------------------------

HOOKS = "/apis/admissionregistration.k8s.io/v1"


def hooked(bench: Bench, kind: str, answer: Callable[[Object], Object]) -> list[Object]:
    """Have config maps looked at by a webhook in this process; answers what it is asked."""
    asked: list[Object] = []

    def review(body: Object) -> Object:
        asked.append(body["request"])
        return {**body, "response": {"uid": body["request"]["uid"], "allowed": True, **answer(body["request"])}}

    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}
    hook = {
        "name": "test.example.com",
        "clientConfig": {"url": f"https://{kind}/review"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
    }
    bench.make(f"{HOOKS}/{kind}webhookconfigurations", {"metadata": {"name": kind}, "webhooks": [hook]})
    bench.cluster.admission.local[kind] = review
    return asked


def adding(key: str) -> Callable[[Object], Object]:
    patch = b64encode(json.dumps([{"op": "add", "path": f"/data/{key}", "value": "x"}]).encode()).decode()
    return lambda _request: {"patchType": "JSONPatch", "patch": patch}


def test_a_webhook_may_change_what_is_written(bench: Bench) -> None:
    asked = hooked(bench, "mutating", adding("more"))
    assert bench.make(MAPS, config_map("a"))["data"] == {"key": "value", "more": "x"}
    assert bench.patch(f"{MAPS}/a", {"data": {"key": "2"}})["data"] == {"key": "2", "more": "x"}
    assert [each["operation"] for each in asked] == ["CREATE", "UPDATE"]


def test_a_webhook_may_say_no(bench: Bench) -> None:
    bench.make(MAPS, config_map("old"))
    hooked(bench, "validating", lambda _request: {"allowed": False, "status": {"message": "not here", "code": 403}})
    before = bench.storage.rv
    for method, path, body in (
        ("POST", MAPS, config_map("a")),
        ("PUT", f"{MAPS}/old", config_map("old", labels={"x": "y"})),
        ("DELETE", f"{MAPS}/old", None),
    ):
        assert "not here" in bench.refused(403, method, path, body)["message"]
    assert bench.storage.rv == before


def test_whoever_is_quicker_than_a_webhook_is_not_overwritten(bench: Bench) -> None:
    bench.make(MAPS, config_map("a"))
    others = iter(["one", "two"])

    def meanwhile(_request: Object) -> Object:
        if (other := next(others, None)) is not None:
            found = bench.storage.get("configmaps.", "t/a")
            assert found is not None
            bench.storage.put("configmaps.", "t/a", {**found.object, "data": {**found.object["data"], other: "x"}})
        return {}

    asked = hooked(bench, "validating", meanwhile)
    assert bench.patch(f"{MAPS}/a", {"data": {"mine": "y"}})["data"] == {
        "key": "value",
        "one": "x",
        "two": "x",
        "mine": "y",
    }
    assert len(asked) == 3


def test_who_names_a_version_is_refused_when_somebody_was_quicker(bench: Bench) -> None:
    made = bench.make(MAPS, config_map("a"))

    def meanwhile(_request: Object) -> Object:
        bench.storage.put("configmaps.", "t/a", made)
        return {}

    hooked(bench, "validating", meanwhile)
    bench.refused(409, "PUT", f"{MAPS}/a", {**made, "data": {}})
