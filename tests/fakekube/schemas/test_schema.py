"""What a schema makes of an object, and of its change."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.model.resources import Resource
from fakekube.schemas.schema import FieldProblem, Schema

TEXT = {"type": "string"}
NOT_ALL = (
    "FieldValueInvalid",
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def schema(*rules: dict[str, Any], **fields: Any) -> Schema:
    spec = {"type": "object", "properties": fields}
    return Schema({"type": "object", "properties": {"spec": spec}, "x-kubernetes-validations": list(rules)})


def problems(judge: Schema, new: Any, old: Any = None) -> list[FieldProblem]:
    return judge.problems({"spec": new}, None if old is None else {"spec": old})


def fields(judge: Schema, new: Any, old: Any = None) -> list[str]:
    return [problem.field for problem in problems(judge, new, old)]


def keyed(*keys: str, **item: Any) -> dict[str, Any]:
    items = {"type": "object", "properties": dict.fromkeys(("k", "l", "v"), TEXT), **item}
    return {"type": "array", "items": items, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


FIXED = {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]}
NO_BAD = {"x-kubernetes-validations": [{"rule": "self != 'bad'", "message": "no bad"}]}


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
            ["a", "b", "a", "a"],
            ("spec.f[2]", 'Duplicate value: "a"'),
            id="a set",
        ),
        pytest.param(
            keyed("k"),
            [{"k": "a"}, {"k": "b"}, {"k": "a", "v": "x"}],
            ("spec.f[2]", 'Duplicate value: {"k":"a"}'),
            id="a key",
        ),
        pytest.param(
            keyed("k", "l"),
            [{"k": "a", "l": "b"}, {"k": "a", "l": "c"}, {"k": "a", "l": "b"}],
            ("spec.f[2]", 'Duplicate value: {"k":"a","l":"b"}'),
            id="two keys",
        ),
    ],
)
def test_what_is_there_twice_is_told_once(field: dict[str, Any], value: Any, expected: tuple[str, str]) -> None:
    assert problems(schema(f=field), {"f": value}) == [("FieldValueDuplicate", *expected)]


def test_rules_are_not_asked_of_what_is_no_value_for_them_and_that_is_said() -> None:
    judge = schema(text=TEXT | NO_BAD, number={"type": "integer"})
    assert fields(judge, {"text": "bad", "number": "x"}) == ["spec.number", "<nil>"]
    assert problems(judge, {"text": "bad", "number": "x"})[1] == NOT_ALL


def test_rules_are_asked_beside_problems_that_leave_values_as_they_are() -> None:
    judge = schema(text=TEXT | NO_BAD, number={"type": "integer", "maximum": 10})
    assert fields(judge, {"text": "bad", "number": 11}) == ["spec.number", "spec.text"]


def test_nothing_is_said_of_rules_where_there_are_none() -> None:
    assert fields(schema(number={"type": "integer"}), {"number": "x"}) == ["spec.number"]


def test_rules_hold_in_lists_and_maps_and_at_the_root() -> None:
    root = {"rule": "!has(self.spec.many) || size(self.spec.many) < 2", "message": "too many"}
    map_ = {"type": "object", "additionalProperties": TEXT | NO_BAD}
    judge = schema(root, many={"type": "array", "items": TEXT | NO_BAD}, map=map_)
    assert fields(judge, {"many": ["bad", "x"], "map": {"a-b": "bad"}}) == ["spec.many[0]", "spec.map[a-b]", "<nil>"]


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param({"f": "b"}, {"f": "a"}, ["spec.f"], id="changed"),
        pytest.param({"f": "a"}, {"f": "a"}, [], id="unchanged"),
        pytest.param({}, {"f": "a"}, [], id="gone, and with it its rule"),
        pytest.param({"f": "b"}, {}, [], id="new"),
        pytest.param({"f": "b"}, None, [], id="created"),
    ],
)
def test_a_field_that_is_fixed(new: Any, old: Any, expected: list[str]) -> None:
    assert fields(schema(f=TEXT | FIXED), new, old) == expected


def test_items_are_the_same_by_their_keys_wherever_they_stand() -> None:
    judge = schema(f=keyed("k", **{"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]}))
    old = {"f": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]}
    assert fields(judge, {"f": [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}]}, old) == []
    assert fields(judge, {"f": [{"k": "b", "v": "3"}, {"k": "c", "v": "1"}]}, old) == ["spec.f[0]"]


def test_items_without_keys_have_no_past() -> None:
    judge = schema(f={"type": "array", "items": TEXT | FIXED})
    assert fields(judge, {"f": ["b"]}, {"f": ["a"]}) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param({"type": "integer", "maximum": 1}, 5, id="a limit"),
        pytest.param({"type": "integer"}, "x", id="a type"),
        pytest.param({"type": "object", "required": ["k"], "properties": {"k": TEXT}}, {}, id="a demand"),
        pytest.param(TEXT | NO_BAD, "bad", id="a rule"),
        pytest.param(keyed("k"), [{"k": "a"}, {"k": "a"}], id="a duplicate"),
    ],
)
def test_what_was_wrong_already_is_forgiven_as_long_as_it_stays(field: dict[str, Any], value: Any) -> None:
    judge = schema(f=field, other=TEXT)
    assert fields(judge, {"f": value, "other": "a"}) != []
    assert fields(judge, {"f": value, "other": "b"}, {"f": value, "other": "a"}) == []
    assert fields(judge, {"f": value, "other": "b"}, {"other": "a"}) != []


def test_a_list_without_keys_is_forgiven_as_a_whole() -> None:
    judge = schema(f={"type": "array", "items": {"type": "string", "maxLength": 1}}, other=TEXT)
    assert fields(judge, {"f": ["long"], "other": "b"}, {"f": ["long"], "other": "a"}) == []
    assert fields(judge, {"f": ["long", "x"]}, {"f": ["long"]}) == ["spec.f[0]"]


def test_a_list_that_had_duplicates_may_grow() -> None:
    twice = [{"k": "a"}, {"k": "a"}]
    assert fields(schema(f=keyed("k")), {"f": [*twice, {"k": "b"}]}, {"f": twice}) == []


def test_what_was_wrong_in_an_item_is_forgiven_wherever_it_stands() -> None:
    judge = schema(f=keyed("k", properties={"k": TEXT, "v": {"type": "string", "maxLength": 1}}))
    bad, good = {"k": "a", "v": "long"}, {"k": "b", "v": "x"}
    assert fields(judge, {"f": [good, bad]}, {"f": [bad]}) == []
    assert fields(judge, {"f": [good, {**bad, "v": "longer"}]}, {"f": [bad]}) == ["spec.f[1].v"]


def test_a_rule_that_demands_a_change_is_asked_even_if_nothing_changed() -> None:
    judge = schema(f={"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf", "message": "grow"}]})
    assert fields(judge, {"f": 2}, {"f": 1}) == []
    assert fields(judge, {"f": 1}, {"f": 1}) == ["spec.f"]


def test_a_schema_that_says_nothing_lets_all_pass() -> None:
    judge, obj = Schema({}), {"any": [None]}
    assert judge.prune_and_default(obj) is obj
    assert judge.unknown_fields(obj) == []
    assert judge.problems(obj, None) == []


def test_an_object_is_pruned_and_defaulted_only_if_there_is_something_to_do() -> None:
    judge = schema(f=TEXT | {"default": "d"})
    done = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"f": "y"}}
    assert judge.prune_and_default(done) is done
    assert judge.prune_and_default({"spec": {"g": 1}}) == {"spec": {"f": "d"}}
    assert judge.unknown_fields({"spec": {"g": 1}}) == ["spec.g"]


def resource(schema: dict[str, Any], *, group: str = "g") -> Resource:
    return Resource(
        group=group, version="v1", plural="xs", singular="x", kind="X", namespaced=True, custom=True, schema=schema
    )


def test_resources_of_one_schema_share_what_was_compiled() -> None:
    one, same = ({"type": "object", "properties": {"a": dict(TEXT)}} for _ in range(2))
    assert Schema.of(resource(one)) is Schema.of(resource(same, group="other"))
    assert Schema.of(resource(one)) is not Schema.of(resource({"type": "object"}))
