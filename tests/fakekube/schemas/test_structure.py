"""What is wrong with an object, in kube-apiserver's words: as a real one said them when it was asked the same."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.schemas.structure import Structure, render_path

TEXT = {"type": "string"}


def schema(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}


def told(field: dict[str, Any], value: Any) -> list[tuple[str, str, str]]:
    """Reason, field and message of each problem of an object whose `spec.f` is so declared and has that value."""
    found = Structure(schema(f=field)).problems({"metadata": {"name": "x"}, "spec": {"f": value}})
    return [(problem.reason, problem.field, problem.message) for problem, _ in found]


INVALID, WRONG_TYPE = "FieldValueInvalid", "FieldValueTypeInvalid"


@pytest.mark.parametrize(
    ("field", "value", "reason", "message"),
    [
        (
            {"type": "boolean"},
            "x",
            WRONG_TYPE,
            'Invalid value: "string": spec.f in body must be of type boolean: "string"',
        ),
        (TEXT, 3, WRONG_TYPE, 'Invalid value: "integer": spec.f in body must be of type string: "integer"'),
        (
            {"type": "integer"},
            1.5,
            WRONG_TYPE,
            'Invalid value: "number": spec.f in body must be of type integer: "number"',
        ),
        (
            {"type": "integer"},
            True,
            WRONG_TYPE,
            'Invalid value: "boolean": spec.f in body must be of type integer: "boolean"',
        ),
        ({"type": "object"}, [], WRONG_TYPE, 'Invalid value: "array": spec.f in body must be of type object: "array"'),
        (
            {"type": "array", "items": TEXT},
            {},
            WRONG_TYPE,
            'Invalid value: "object": spec.f in body must be of type array: "object"',
        ),
        (
            {"type": "string", "format": "date-time"},
            "now",
            WRONG_TYPE,
            'Invalid value: "now": spec.f in body must be of type date-time: "now"',
        ),
        (
            {"type": "string", "format": "date-time"},
            "2026-01-01",
            WRONG_TYPE,
            'Invalid value: "2026-01-01": spec.f in body must be of type date-time: "2026-01-01"',
        ),
        (
            {"type": "string", "format": "duration"},
            "x",
            WRONG_TYPE,
            'Invalid value: "x": spec.f in body must be of type duration: "x"',
        ),
        (
            {"type": "string", "format": "byte"},
            "*",
            WRONG_TYPE,
            'Invalid value: "*": spec.f in body must be of type byte: "*"',
        ),
        (
            {"type": "string", "format": "uri"},
            "::",
            WRONG_TYPE,
            'Invalid value: "::": spec.f in body must be of type uri: "::"',
        ),
        ({"type": "string", "maxLength": 5}, "abcdef", "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
        (
            {"type": "string", "minLength": 2},
            "a",
            INVALID,
            'Invalid value: "a": spec.f in body should be at least 2 chars long',
        ),
        (
            {"type": "string", "pattern": "^[a-z]+$"},
            "A1",
            INVALID,
            "Invalid value: \"A1\": spec.f in body should match '^[a-z]+$'",
        ),
        (
            {"type": "string", "enum": ["A", "B"]},
            "C",
            "FieldValueNotSupported",
            'Unsupported value: "C": supported values: "A", "B"',
        ),
        (
            {"type": "integer", "maximum": 10},
            11,
            INVALID,
            "Invalid value: 11: spec.f in body should be less than or equal to 10",
        ),
        (
            {"type": "integer", "minimum": 0},
            -1,
            INVALID,
            "Invalid value: -1: spec.f in body should be greater than or equal to 0",
        ),
        (
            {"type": "number", "minimum": 0.5, "exclusiveMinimum": True},
            0.5,
            INVALID,
            "Invalid value: 0.5: spec.f in body should be greater than 0.5",
        ),
        (
            {"type": "array", "items": TEXT, "maxItems": 2},
            ["a"] * 3,
            "FieldValueTooMany",
            "Too many: 3: must have at most 2 items",
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 1},
            [],
            INVALID,
            "Invalid value: 0: spec.f in body should have at least 1 items",
        ),
        (
            {"type": "object", "additionalProperties": TEXT, "maxProperties": 1},
            {"a": "", "b": ""},
            "FieldValueTooMany",
            "Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
            {},
            INVALID,
            "Invalid value: 0: spec.f in body should have at least 1 properties",
        ),
    ],
)
def test_a_problem_is_told_as_the_real_server_tells_it(
    field: dict[str, Any], value: Any, reason: str, message: str
) -> None:
    assert told(field, value) == [(reason, "spec.f", message)]


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ({"type": "array", "items": {"type": "string", "maxLength": 1}}, ["a", "bb"], "spec.f[1]"),
        ({"type": "object", "additionalProperties": TEXT}, {"a.b/c": 1}, "spec.f.a.b/c"),
        ({"type": "object", "required": ["a"], "properties": {"a": TEXT}}, {}, "spec.f.a"),
        ({"type": "array", "items": TEXT}, [None], "spec.f[0]"),
    ],
)
def test_a_problem_names_its_field(field: dict[str, Any], value: Any, place: str) -> None:
    assert [each[1] for each in told(field, value)] == [place]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "integer", "format": "int32"}, 2**40),
        ({"type": "string", "format": "date-time"}, "2026-01-01T00:00:00.123456+02:00"),
        ({"type": "string", "format": "duration"}, "1h30m"),
        ({"type": "string", "format": "nobody-knows"}, "x"),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "nullable": True, "enum": ["A"]}, None),
        ({"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}, 5),
        ({"x-kubernetes-int-or-string": True, "pattern": "^[0-9]+$"}, "5"),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"x": [1, {"y": None}]}),
    ],
)
def test_what_is_valid_is_not_a_problem(field: dict[str, Any], value: Any) -> None:
    assert told(field, value) == []


EITHER = {"properties": {"a": TEXT, "b": TEXT}, "type": "object"}
CHOICES = [{"required": ["a"]}, {"required": ["b"]}]


def test_a_junction_is_told_of_the_root_with_what_its_first_branch_misses() -> None:
    words = '"spec.f" must validate at least one schema (anyOf)'
    assert told(EITHER | {"anyOf": CHOICES}, {}) == [
        (INVALID, "<nil>", f'Invalid value: "": {words}'),
        ("FieldValueRequired", "spec.f.a", "Required value"),
    ]


def test_one_of_two_is_not_both() -> None:
    words = '"spec.f" must validate one and only one schema (oneOf). Found 2 valid alternatives'
    assert told(EITHER | {"oneOf": CHOICES}, {"a": "", "b": ""}) == [(INVALID, "<nil>", f'Invalid value: "": {words}')]


def test_what_must_not_be_is_told_of_the_root() -> None:
    words = '"spec.f" must not validate the schema (not)'
    assert told(EITHER | {"not": {"required": ["a"]}}, {"a": ""}) == [(INVALID, "<nil>", f'Invalid value: "": {words}')]


def test_a_number_or_text_that_is_neither_is_told_three_times() -> None:
    field = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert [(reason, place) for reason, place, _ in told(field, True)] == [
        (WRONG_TYPE, "spec.f"),
        (INVALID, "<nil>"),
        (WRONG_TYPE, "spec.f"),
    ]


def test_an_embedded_object_says_what_it_is() -> None:
    field = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    assert [place for _, place, _ in told(field, {"a": 1})] == ["spec.f.apiVersion", "spec.f.kind"]
    assert told(field, {"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "b"}}}) == []


def test_metadata_is_judged_by_what_metadata_is_and_by_the_schema() -> None:
    own = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}}
    structure = Structure({"type": "object", "properties": {"metadata": own}})
    assert [each.problem.field for each in structure.problems({"metadata": {"name": "long", "labels": {"a": 1}}})] == [
        "metadata.labels.a",
        "metadata.name",
    ]


@pytest.mark.parametrize(
    ("spec", "accepted"),
    [
        pytest.param({"known": "a", "given": "b"}, True, id="all is there and known"),
        pytest.param({"known": "a", "given": "b", "more": 1}, False, id="something is unknown"),
        pytest.param({"known": "a"}, False, id="a default is missing"),
        pytest.param({"known": None, "given": "b"}, False, id="a null is to be dropped"),
        pytest.param({"known": 1, "given": "b"}, False, id="a type is wrong"),
    ],
)
def test_an_object_is_accepted_if_there_is_nothing_to_do(spec: dict[str, Any], accepted: bool) -> None:
    structure = Structure(schema(known=TEXT, given=TEXT | {"default": "d"}))
    assert structure.accepts({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}) is accepted


def test_a_path_is_rendered_as_go_renders_it() -> None:
    assert render_path(("spec", "podSets", 0, "name")) == "spec.podSets[0].name"
    assert render_path(()) == "<nil>"
