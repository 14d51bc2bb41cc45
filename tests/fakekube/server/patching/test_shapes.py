"""What merges and what is taken whole, by schema, and what is said of an object that does not fit."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.server.patching.shapes import DEDUCED, Shape, problems, shape_of
from tests.fakekube.gadgets import GADGET

SPEC = GADGET["properties"]["spec"]["properties"]


def listed(**more: Any) -> Shape:
    return Shape({"type": "array", "items": {"type": "object"}} | more)


LISTS: dict[str, tuple[dict[str, Any], bool, tuple[str, ...]]] = {
    "a list of nothing said is taken whole": ({}, False, ()),
    "an atomic list": ({"x-kubernetes-list-type": "atomic", "x-kubernetes-patch-strategy": "merge"}, False, ()),
    "a set": ({"x-kubernetes-list-type": "set"}, True, ()),
    "a map by keys, which are sorted": (
        {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["b", "a"]},
        True,
        ("a", "b"),
    ),
    "a list that is patched by a key": (
        {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
        True,
        ("name",),
    ),
    "a list that is patched as a set": ({"x-kubernetes-patch-strategy": "merge,retainKeys"}, True, ()),
    "a list that is replaced by patches": ({"x-kubernetes-patch-strategy": "replace"}, False, ()),
}


@pytest.mark.parametrize("case", LISTS)
def test_a_list_merges_as_its_schema_says(case: str) -> None:
    schema, merges, keys = LISTS[case]
    shape = listed(**schema)
    assert (shape.list_merges, shape.keys) == (merges, keys)


PORTS = Shape(SPEC["ports"])
WORDS = Shape(SPEC["words"])


@pytest.mark.parametrize(
    ("shape", "item", "step"),
    [
        (PORTS, {"number": 80, "protocol": "UDP"}, 'k:{"number":80,"protocol":"UDP"}'),
        (PORTS, {"number": 80}, 'k:{"number":80,"protocol":"TCP"}'),
        (PORTS, {"number": True}, 'k:{"number":true,"protocol":"TCP"}'),
        (PORTS, {"name": "x"}, 'k:{"protocol":"TCP"}'),
        (PORTS, {"number": [1]}, None),
        (PORTS, "x", None),
        (WORDS, "x", 'v:"x"'),
        (WORDS, None, None),
        (WORDS, {"a": 1}, None),
        (listed(**{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}), {"name": "x"}, None),
    ],
    ids=lambda part: "list" if isinstance(part, Shape) else str(part),
)
def test_an_item_is_known_by_its_keys_or_its_value(shape: Shape, item: Any, step: str | None) -> None:
    assert shape.step(item) == step


def test_every_object_has_metadata_of_which_its_schema_says_nothing() -> None:
    metadata = shape_of({"properties": {"metadata": {"type": "object"}}}).field("metadata")
    assert metadata is not None
    owners, finalizers, labels = (metadata.field(name) for name in ("ownerReferences", "finalizers", "labels"))
    assert owners is not None
    assert (owners.keys, owners.item.map_merges) == (("uid",), False)
    assert finalizers is not None
    assert finalizers.list_merges
    assert labels is not None
    assert labels.map_merges


def test_an_object_within_an_object_has_metadata_too() -> None:
    shape = Shape(
        {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}}
    )
    assert shape.declares("metadata")
    assert shape.declares("spec")


def test_what_is_open_is_open_below() -> None:
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    shape = Shape({"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"in": inner}})
    assert shape.field("other") is DEDUCED
    within = shape.field("in")
    assert within is not None
    assert within.field("other") is DEDUCED
    assert Shape(inner).field("other") is None


def test_where_nothing_is_said_maps_merge_and_lists_do_not() -> None:
    assert DEDUCED.map_merges
    assert not DEDUCED.list_merges
    assert DEDUCED.field("a") is DEDUCED
    assert not DEDUCED.item.map_merges


def test_a_schema_may_contain_itself() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["again"] = schema
    shape: Shape | None = Shape(schema)
    for _ in range(5):
        assert shape is not None
        shape = shape.field("again")
    assert shape is not None
    assert shape.map_merges


def gadget(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "x/v1", "kind": "Gadget", "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": spec}


FITTING = gadget(
    color="x",
    size=1,
    weight=1,
    limit="50%",
    note=None,
    options={},
    words=["a"],
    steps=["a", "a"],
    ports=[{"number": 1}, {"number": 1, "protocol": "UDP"}],
    free={"a": [{"b": None}, 1]},
    parts=None,
)

PROBLEMS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": (FITTING, []),
    "an unknown field": (gadget(x=1), [".spec.x: field not declared in schema"]),
    "a number for a text": (gadget(color=1), [".spec.color: expected string, got &value.valueUnstructured{Value:1}"]),
    "a text for a number": (gadget(size="1"), [".spec.size: expected numeric (int or float), got string"]),
    "a truth for a number": (gadget(size=True), [".spec.size: expected numeric (int or float), got bool"]),
    "a map for a scalar": (
        gadget(steps=[{"a": 1}]),
        ['.spec.steps[0]: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":1}}'],
    ),
    "a text for a list": (gadget(words="x"), [".spec.words: expected list, got &{x}"]),
    "a list for a map": (gadget(options=["x"]), [".spec.options: expected map, got &{[x]}"]),
    "two of a kind": (
        gadget(words=["a", "b", "a"], ports=[{"number": 1}, {"number": 1, "protocol": "TCP"}]),
        [
            '.spec.words: duplicate entries for key [="a"]',
            '.spec.ports: duplicate entries for key [number=1,protocol="TCP"]',
        ],
    ),
    "what cannot be in a set": (
        gadget(words=[None], numbers=[[1]]),
        [
            ".spec.words: element 0: associative list without keys has an element that's an explicit null",
            ".spec.numbers: element 0: not supported: associative list with lists as elements",
        ],
    ),
    "items that are no maps": (
        gadget(ports=[None]) | {"status": {"conditions": ["x"]}},
        [
            ".spec.ports: element 0: associative list with keys may not have a null element",
            ".status.conditions: element 0: associative list with keys may not have non-map elements",
        ],
    ),
    "an item without its key": (
        gadget() | {"status": {"conditions": [{"reason": "x"}]}},
        [
            '.status.conditions: element 0: associative list with keys has an element that omits all key fields ["type"] '
            "(and doesn't have default values for any key fields)"
        ],
    ),
    "a truth": (
        {"metadata": {"ownerReferences": [{"uid": "u", "controller": "x"}]}},
        ['.metadata.ownerReferences[uid="u"].controller: expected boolean, got &{x}'],
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_what_does_not_fit_is_told_in_the_words_of_the_real_server(case: str) -> None:
    obj, told = PROBLEMS[case]
    assert problems(obj, shape_of(GADGET)) == told
