"""What goes and what comes when an object is stored."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from fakekube.schemas.pruning import Pruner

TEXT = {"type": "string"}
OPEN = {"x-kubernetes-preserve-unknown-fields": True}


def pruner(**fields: Any) -> Pruner:
    return Pruner({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}})


def stored(value: dict[str, Any], /, **fields: Any) -> Any:
    """The spec as it is stored; what is given is not changed."""
    obj = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": value}
    before = deepcopy(obj)
    made = pruner(**fields).prune_and_default(obj)
    assert obj == before
    return made["spec"]


@pytest.mark.parametrize(
    ("fields", "given", "kept"),
    [
        pytest.param({"a": TEXT}, {"a": "x", "b": 1}, {"a": "x"}, id="unknown fields go"),
        pytest.param(
            {"a": {"type": "object"} | OPEN},
            {"a": {"x": {"y": None}}},
            {"a": {"x": {"y": None}}},
            id="an open object keeps all",
        ),
        pytest.param({"a": OPEN}, {"a": {"x": [1]}}, {"a": {"x": [1]}}, id="an open place keeps all"),
        pytest.param(
            {"a": {"type": "object", "properties": {"k": {"type": "object", "properties": {"x": TEXT}}}} | OPEN},
            {"a": {"u": 1, "k": {"x": "", "u": 1}}},
            {"a": {"u": 1, "k": {"x": ""}}},
            id="what an open object knows is pruned inside",
        ),
        pytest.param({"a": {"type": "object"}}, {"a": {"x": 1}}, {"a": {}}, id="an object without fields has none"),
        pytest.param(
            {"a": {"type": "object", "additionalProperties": TEXT}},
            {"a": {"x": "y"}},
            {"a": {"x": "y"}},
            id="a map keeps its keys",
        ),
        pytest.param(
            {"a": {"type": "array", "items": {"type": "object", "properties": {"x": TEXT}}}},
            {"a": [{"x": "", "y": 1}]},
            {"a": [{"x": ""}]},
            id="items are pruned",
        ),
        pytest.param({"a": TEXT}, {"a": None}, {}, id="a null that may not be goes"),
        pytest.param({"a": TEXT | {"nullable": True}}, {"a": None}, {"a": None}, id="a null that may be stays"),
        pytest.param({"a": TEXT | {"default": "d"}}, {"a": None}, {"a": "d"}, id="a null makes room for a default"),
        pytest.param(
            {"a": TEXT | {"default": "d", "nullable": True}},
            {"a": None},
            {"a": None},
            id="a null that may be is not defaulted",
        ),
        pytest.param(
            {"a": {"type": "array", "items": TEXT}},
            {"a": [None]},
            {"a": [None]},
            id="a null in a list is for validation",
        ),
        pytest.param({"a": TEXT | {"default": "d"}}, {}, {"a": "d"}, id="a default comes"),
        pytest.param(
            {"a": {"type": "object", "default": {}, "properties": {"x": TEXT | {"default": "d"}}}},
            {},
            {"a": {"x": "d"}},
            id="a default has its own defaults",
        ),
        pytest.param(
            {"a": {"type": "object", "properties": {"x": TEXT | {"default": "d"}}}},
            {},
            {},
            id="no object comes for a default in it",
        ),
        pytest.param(
            {
                "a": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"x": {"type": "integer", "default": 1}}},
                }
            },
            {"a": [{}, {"x": 2}]},
            {"a": [{"x": 1}, {"x": 2}]},
            id="items are defaulted",
        ),
    ],
)
def test_what_is_stored(fields: dict[str, Any], given: dict[str, Any], kept: dict[str, Any]) -> None:
    assert stored(given, **fields) == kept


def test_an_embedded_object_keeps_what_each_object_has() -> None:
    field = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"spec": {"type": "object"} | OPEN},
    }
    given = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a", "nonsense": 1}, "spec": {"b": 1}, "more": 1}
    kept = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"}, "spec": {"b": 1}}
    assert stored({"a": given}, a=field) == {"a": kept}


def test_a_default_is_not_shared_between_objects() -> None:
    made = pruner(a={"type": "object", "default": {"x": ["y"]}} | OPEN)
    one, other = (made.prune_and_default({"spec": {}}) for _ in range(2))
    assert one["spec"]["a"] is not other["spec"]["a"]


def test_what_did_not_change_is_the_very_same() -> None:
    fields = {"a": TEXT, "b": {"type": "object", "properties": {"x": TEXT}}}
    obj = {"spec": {"a": "x", "b": {"x": "y"}}}
    assert pruner(**fields).prune_and_default(obj) is obj
    odd = {"spec": {"b": obj["spec"]["b"], "c": 1}}
    assert pruner(**fields).prune_and_default(odd)["spec"]["b"] is obj["spec"]["b"]


def test_unknown_fields_are_told_those_of_metadata_first() -> None:
    item = {"type": "object", "properties": {"k": TEXT}}
    judge = pruner(deep={"type": "object", "properties": {"x": TEXT}}, list={"type": "array", "items": item})
    obj = {
        "spec": {"zoo": 1, "deep": {"bar": 2}, "list": [{"k": ""}, {"zz": 1}]},
        "extra": 1,
        "metadata": {"name": "x", "zzz": 1},
    }
    assert judge.unknown_fields(obj) == ["metadata.zzz", "extra", "spec.deep.bar", "spec.list[1].zz", "spec.zoo"]
