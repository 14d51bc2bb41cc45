"""Custom resources: what a definition does to objects, and its own life; one file, one kind throughout."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract import builders
from tests.contract.builders import (
    BOXES_GROUP,
    GROUP_VERSION,
    box,
    condition,
    define,
    definition,
    structure,
    unique,
    version,
    widget,
)
from tests.contract.server import Object, Server
from tests.contract.space import Collection, Space, eventually

pytestmark = pytest.mark.anyio


async def spec_of(widgets: Collection, **spec: Any) -> Object:
    """What becomes of a spec."""
    made: Object = (await widgets.made(widget("a", **spec)))["spec"]
    return made


DEFAULTS = {"size": 1, "mode": "Fast", "policy": {"retries": 3}}

# --- defaults and pruning --------------------------------------------------------------------------------------------


FILLED: dict[str, tuple[Object, Object]] = {
    "what is missing": ({}, DEFAULTS),
    "what is missing inside": ({"policy": {"owner": "me"}}, DEFAULTS | {"policy": {"owner": "me", "retries": 3}}),
    "what is missing in entries of a list": (
        {"parts": [{"name": "x"}, {"name": "y", "count": 5}]},
        DEFAULTS | {"parts": [{"name": "x", "count": 1}, {"name": "y", "count": 5}]},
    ),
    "a null that may not be": ({"size": None, "title": None}, DEFAULTS),
    "no null that may be": ({"limit": None}, DEFAULTS | {"limit": None}),
    "nothing that was given": ({"size": 0, "mode": "Slow"}, DEFAULTS | {"size": 0, "mode": "Slow"}),
}


@pytest.mark.parametrize("what", FILLED)
async def test_defaults_fill(widgets: Collection, what: str) -> None:
    given, made = FILLED[what]
    assert await spec_of(widgets, **given) == made


async def test_defaults_do_not_make_what_holds_them(widgets: Collection) -> None:
    made = await widgets.made({"apiVersion": GROUP_VERSION, "kind": "Widget", "metadata": {"name": "a"}})
    assert "spec" not in made


PRUNED: dict[str, tuple[Object, Object]] = {
    "unknown fields": ({"unknown": 1}, {}),
    "unknown fields inside": ({"policy": {"x": 1}}, {}),
    "unknown fields of entries": ({"parts": [{"name": "x", "y": 1}]}, {"parts": [{"name": "x", "count": 1}]}),
    "nothing where anything goes": ({"free": {"a": {"b": [1]}}}, {"free": {"a": {"b": [1]}}}),
    "no key of a mapping": ({"notes": {"any": "thing"}}, {"notes": {"any": "thing"}}),
}


@pytest.mark.parametrize("what", PRUNED)
async def test_pruning_takes(widgets: Collection, what: str) -> None:
    given, left = PRUNED[what]
    assert await spec_of(widgets, **given) == DEFAULTS | left


async def test_unknown_fields_beside_the_spec_are_pruned(widgets: Collection) -> None:
    made = await widgets.made({**widget("a"), "other": {"x": 1}})
    assert set(made) == {"apiVersion", "kind", "metadata", "spec"}


async def test_unknown_fields_of_metadata_are_dropped(widgets: Collection) -> None:
    body = widget("a")
    body["metadata"]["unknown"] = 1
    assert "unknown" not in (await widgets.made(body))["metadata"]


async def test_unknown_fields_of_a_status_are_pruned(widgets: Collection) -> None:
    await widgets.made(widget("a"))
    patched = (await widgets.patch("a", {"status": {"phase": "x", "unknown": 1}}, "status")).good()
    assert patched["status"] == {"phase": "x"}


async def test_pruning_is_told_as_a_warning(server: Server, widgets: Collection) -> None:
    answer = await widgets.create(widget("a", unknown=1))
    assert answer.headers["Warning"] == '299 - "unknown field \\"spec.unknown\\""'
    answer = await widgets.create(widget("b", unknown=1), fieldValidation="Ignore")
    assert "Warning" not in answer.headers


# --- validation ------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Object, str, str, str]] = {
    "too large": (
        {"size": 101},
        "FieldValueInvalid",
        "spec.size",
        "Invalid value: 101: spec.size in body should be less than or equal to 100",
    ),
    "of another type": (
        {"limit": "x"},
        "FieldValueTypeInvalid",
        "spec.limit",
        'Invalid value: "string": spec.limit in body must be of type integer: "string"',
    ),
    "no whole number": (
        {"limit": 1.5},
        "FieldValueTypeInvalid",
        "spec.limit",
        'Invalid value: "number": spec.limit in body must be of type integer: "number"',
    ),
    "none of the values": (
        {"mode": "Other"},
        "FieldValueNotSupported",
        "spec.mode",
        'Unsupported value: "Other": supported values: "Fast", "Slow"',
    ),
    "not of the pattern": (
        {"title": "ABC"},
        "FieldValueInvalid",
        "spec.title",
        "Invalid value: \"ABC\": spec.title in body should match '^[a-z]+$'",
    ),
    "too short": (
        {"title": "a"},
        "FieldValueInvalid",
        "spec.title",
        'Invalid value: "a": spec.title in body should be at least 2 chars long',
    ),
    "too long": ({"title": "a" * 11}, "FieldValueTooLong", "spec.title", "Too long: may not be more than 10 bytes"),
    "too many": (
        {"parts": [{"name": str(number)} for number in range(5)]},
        "FieldValueTooMany",
        "spec.parts",
        "Too many: 5: must have at most 4 items",
    ),
    "missing": ({"parts": [{"count": 1}]}, "FieldValueRequired", "spec.parts[0].name", "Required value"),
    "a key given twice": (
        {"parts": [{"name": "x"}, {"name": "x"}]},
        "FieldValueDuplicate",
        "spec.parts[1]",
        'Duplicate value: {"name":"x"}',
    ),
    "a value given twice": ({"tags": ["x", "x"]}, "FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "x"'),
    "neither number nor text": (
        {"amount": True},
        "FieldValueTypeInvalid",
        "spec.amount",
        'Invalid value: "boolean": spec.amount in body must be of type integer,string: "boolean"',
    ),
    "a wrong value in a mapping": (
        {"notes": {"a": 1}},
        "FieldValueTypeInvalid",
        "spec.notes.a",
        'Invalid value: "integer": spec.notes.a in body must be of type string: "integer"',
    ),
    "against a rule": (
        {"size": 1, "smallest": 2},
        "FieldValueInvalid",
        "spec.size",
        "Invalid value: size is below smallest",
    ),
}


@pytest.mark.parametrize("what", WRONG)
async def test_a_custom_object_is_invalid_if_something_is(widgets: Collection, what: str) -> None:
    spec, reason, field, message = WRONG[what]
    refusal = (await widgets.create(widget("a", **spec))).refused(422, "Invalid")
    assert refusal["message"].startswith('Widget.contract.multikueue.dev "a" is invalid: ')
    assert f"{field}: {message}" in refusal["message"]
    details = refusal["details"]
    assert (details["name"], details["group"], details["kind"]) == ("a", "contract.multikueue.dev", "Widget")
    assert {"reason": reason, "message": message, "field": field} in details["causes"]


async def test_one_problem_alone_is_the_message(widgets: Collection) -> None:
    refusal = (await widgets.create(widget("a", size=101))).refused(422, "Invalid")
    assert refusal["message"] == (
        'Widget.contract.multikueue.dev "a" is invalid: spec.size: Invalid value: 101: '
        "spec.size in body should be less than or equal to 100"
    )


async def test_all_problems_are_told(widgets: Collection) -> None:
    refusal = (await widgets.create(widget("a", size=101, title="A"))).refused(422, "Invalid")
    assert refusal["message"].startswith('Widget.contract.multikueue.dev "a" is invalid: [spec.')
    assert {cause["field"] for cause in refusal["details"]["causes"]} == {"spec.size", "spec.title"}


@pytest.mark.parametrize("amount", [5, "1Gi"])
async def test_an_amount_may_be_a_number_or_text(widgets: Collection, amount: Any) -> None:
    assert (await spec_of(widgets, amount=amount))["amount"] == amount


async def test_a_patch_is_validated_too(widgets: Collection) -> None:
    made = await widgets.made(widget("a"))
    (await widgets.patch("a", {"spec": {"size": 101}})).refused(422, "Invalid")
    (await widgets.put({**made, "spec": {"size": 101}})).refused(422, "Invalid")
    (await widgets.apply(widget("a", size=101), force=True)).refused(422, "Invalid")
    assert await widgets.got("a") == made


@pytest.mark.parametrize(
    ("change", "field"),
    [({"status": "Maybe"}, "status"), ({"lastTransitionTime": "yesterday"}, "lastTransitionTime")],
    ids=["enum", "time"],
)
async def test_a_status_is_validated_too(widgets: Collection, change: Object, field: str) -> None:
    await widgets.made(widget("a"))
    conditions = [condition("Ready", "True") | change]
    refusal = (await widgets.patch("a", {"status": {"conditions": conditions}}, "status")).refused(422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == f"status.conditions[0].{field}"


# --- rules that compare with what was --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["patch", "update", "apply"])
async def test_what_may_not_change_does_not(widgets: Collection, how: str) -> None:
    made = await widgets.made(widget("a"))
    writes = {
        "patch": lambda: widgets.patch("a", {"spec": {"mode": "Slow"}}),
        "update": lambda: widgets.put({**made, "spec": {**made["spec"], "mode": "Slow"}}),
        "apply": lambda: widgets.apply(widget("a", mode="Slow"), force=True),
    }
    refusal = (await writes[how]()).refused(422, "Invalid")
    assert refusal["message"] == (
        'Widget.contract.multikueue.dev "a" is invalid: spec.mode: Invalid value: "Slow": mode stays Fast'
    )


async def test_a_rule_on_change_does_not_hold_at_creation(widgets: Collection) -> None:
    assert (await spec_of(widgets, mode="Slow"))["mode"] == "Slow"


async def test_a_rule_names_its_reason(widgets: Collection) -> None:
    await widgets.made(widget("a", smallest=1))
    refusal = (await widgets.patch("a", {"spec": {"smallest": None}})).refused(422, "Invalid")
    assert refusal["details"]["causes"] == [
        {"reason": "FieldValueForbidden", "message": "Forbidden: smallest stays once set", "field": "spec"}
    ]


async def test_a_rule_on_change_does_not_stop_other_changes(widgets: Collection) -> None:
    await widgets.made(widget("a", smallest=1))
    assert (await widgets.patch("a", {"spec": {"smallest": 0, "size": 5}})).good(200)["spec"]["smallest"] == 0


# --- labels, annotations and the like --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["maps", "widgets"])
@pytest.mark.parametrize("labels", [{"a b": "c"}, {"a": "-"}, {"x/y/z": "1"}, {"a": "b" * 64}], ids=str)
async def test_labels_have_a_form(space: Space, kind: str, labels: dict[str, str]) -> None:
    body = {"maps": builders.config_map("a"), "widgets": widget("a")}[kind]
    body["metadata"]["labels"] = labels
    refusal = (await getattr(space, kind).create(body)).refused(422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == "metadata.labels"


async def test_annotations_have_a_form(widgets: Collection) -> None:
    body = widget("a")
    body["metadata"]["annotations"] = {"a b": "c"}
    refusal = (await widgets.create(body)).refused(422, "Invalid")
    assert refusal["details"]["causes"][0]["field"] == "metadata.annotations"


@pytest.mark.parametrize("kind", ["maps", "widgets"])
async def test_a_label_is_text(space: Space, kind: str) -> None:
    body = {"maps": builders.config_map("a"), "widgets": widget("a")}[kind]
    body["metadata"]["labels"] = {"a": 1}
    refusal = (await getattr(space, kind).create(body)).refused(400, "BadRequest")
    name = body["kind"]
    assert refusal["message"].startswith(f'{name} in version "v1" cannot be handled as a {name}: ')


async def test_a_custom_object_must_say_what_it_is(widgets: Collection) -> None:
    (await widgets.create({"metadata": {"name": "a"}})).refused(400, "BadRequest")


# --- definitions -----------------------------------------------------------------------------------------------------


@pytest.fixture
def definitions(server: Server) -> Collection:
    return Collection(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")


@pytest.fixture
def boxes(space: Space) -> Collection:
    return space.of(f"{BOXES_GROUP}/v1", "boxes")


async def test_an_accepted_definition_says_so(definitions: Collection) -> None:
    found = await definitions.got(f"boxes.{BOXES_GROUP}")
    status = found["status"]
    conditions = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
    assert conditions == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    assert status["storedVersions"] == ["v1"]
    assert status["acceptedNames"] == {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}
    assert found["spec"]["conversion"] == {"strategy": "None"}


async def test_an_object_is_read_in_each_version(boxes: Collection, space: Space) -> None:
    made = await boxes.made(box("a", size=1))
    others = space.of(f"{BOXES_GROUP}/v2", "boxes")
    assert await others.got("a") == {**made, "apiVersion": f"{BOXES_GROUP}/v2"}
    assert await others.names() == ["a"]


async def test_what_the_stored_version_does_not_know_is_not_kept(boxes: Collection, space: Space) -> None:
    others = space.of(f"{BOXES_GROUP}/v2", "boxes")
    await others.made(box("a", version="v2", size=1, title="x"))
    assert (await boxes.got("a"))["spec"] == {"size": 1}


async def test_an_object_of_another_version_of_its_kind_is_refused(boxes: Collection) -> None:
    (await boxes.create(box("a", version="v2"))).refused(400, "BadRequest")


async def test_the_life_of_a_definition(server: Server, space: Space, definitions: Collection) -> None:
    group = f"{unique('group')}.multikueue.dev"
    name = f"boxes.{group}"
    await define(server, builders.boxes(group))
    boxes = space.of(f"{group}/v1", "boxes")
    await boxes.made(box("old", group=group, size=9))

    # A change holds at once.
    found = await definitions.got(name)
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["maximum"] = 5
    assert (await definitions.put(found)).good(200)["metadata"]["generation"] == 2

    async def refused() -> bool:
        return (await boxes.create(box(unique("new"), group=group, size=9))).status == 422

    await eventually(refused)

    # What was there stays, and may be changed as long as the change itself is sound.
    (await boxes.patch("old", {"metadata": {"labels": {"x": "y"}}})).good(200)
    (await boxes.patch("old", {"spec": {"size": 10}})).refused(422, "Invalid")

    # A second plural cannot have the kind.
    crates = definition(
        "Box", version("v1", structure()), group=group, plural="crates", singular="crate", listKind="CrateList"
    )
    await definitions.made(crates)

    async def judged() -> dict[str, tuple[str, str]] | None:
        status = (await definitions.got(f"crates.{group}")).get("status", {})
        return {each["type"]: (each["status"], each["reason"]) for each in status.get("conditions") or []} or None

    conditions = await eventually(judged)
    assert conditions["NamesAccepted"] == ("False", "KindConflict")
    assert conditions["Established"] == ("False", "NotAccepted")
    assert (await server.call("GET", f"/apis/{group}/v1/crates")).status == 404

    # With a definition go its objects.
    (await definitions.delete(name)).good(200)
    await definitions.gone(name)

    async def not_served() -> bool:
        return (await boxes.list()).status == 404

    await eventually(not_served)


BROKEN: dict[str, tuple[Object, str]] = {
    "another name": (
        {**definition("Thing", version("v1", structure())), "metadata": {"name": "things"}},
        "metadata.name",
    ),
    "no stored version": (definition("Thing", version("v1", structure(), storage=False)), "spec.versions"),
    "a schema without a type": (
        definition("Thing", version("v1", {"properties": {"spec": {}}})),
        "spec.validation.openAPIV3Schema.properties[spec].type",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
async def test_a_definition_is_refused_for(definitions: Collection, what: str) -> None:
    body, field = BROKEN[what]
    refusal = (await definitions.create(body)).refused(422, "Invalid")
    assert field in [cause["field"] for cause in refusal["details"]["causes"]]


async def test_a_second_definition_of_a_name_exists(definitions: Collection) -> None:
    refusal = (await definitions.create(builders.GADGETS)).refused(409, "AlreadyExists")
    assert refusal["message"] == (
        'customresourcedefinitions.apiextensions.k8s.io "gadgets.contract.multikueue.dev" already exists'
    )
