"""Strategic merge patches: lists by keys and as sets, and directives."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.model.wire import Refused
from fakekube.server.patching.patches import strategic_merge

Object = dict[str, Any]

STRING = {"type": "string"}


def by_name(**fields: Any) -> Object:
    items = {"type": "object", "properties": {"name": STRING, "value": STRING} | fields}
    how = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
    return {"type": "array", "items": items} | how


SCHEMA: Object = {
    "type": "object",
    "properties": {
        "items": by_name(inner=by_name(), map={"type": "object", "additionalProperties": STRING}),
        "volumes": by_name() | {"x-kubernetes-patch-strategy": "merge,retainKeys"},
        "set": {"type": "array", "items": STRING, "x-kubernetes-patch-strategy": "merge"},
        "list": {"type": "array", "items": STRING},
        "keyless": {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-strategy": "merge"},
        "map": {"type": "object", "additionalProperties": STRING},
        "whole": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
        "union": {
            "type": "object",
            "x-kubernetes-patch-strategy": "retainKeys",
            "properties": {"a": STRING, "b": STRING},
        },
    },
}


def named(*names: str, **more: Any) -> list[Object]:
    return [{"name": name} | more for name in names]


PATCHED: dict[str, tuple[Object, Object, Object]] = {
    "a map merges": ({"map": {"a": "1", "b": "2"}}, {"map": {"b": None, "c": "3"}}, {"map": {"a": "1", "c": "3"}}),
    "a map that is to be replaced": ({"whole": {"a": "1"}}, {"whole": {"b": "2"}}, {"whole": {"b": "2"}}),
    "a map is deleted": ({"map": {"a": "1"}}, {"map": {"$patch": "delete"}}, {"map": {}}),
    "a map is replaced": ({"map": {"a": "1"}}, {"map": {"$patch": "replace", "b": "2"}}, {"map": {"b": "2"}}),
    "all is replaced": ({"map": {"a": "1"}}, {"$patch": "replace", "list": ["a"]}, {"list": ["a"]}),
    "only some keys stay": (
        {"union": {"a": "1", "b": "2"}},
        {"union": {"$retainKeys": ["b"], "b": "3"}},
        {"union": {"b": "3"}},
    ),
    "a retained key that the patch leaves alone": (
        {"union": {"a": "1", "b": "2"}},
        {"union": {"$retainKeys": ["b"]}},
        {"union": {"b": "2"}},
    ),
    "a list is replaced": ({"list": ["a", "b"]}, {"list": ["c"]}, {"list": ["c"]}),
    "an unknown list is replaced": ({"x": ["a", "b"]}, {"x": ["c"]}, {"x": ["c"]}),
    "a set unites, the new in front": ({"set": ["a", "b"]}, {"set": ["c"]}, {"set": ["c", "a", "b"]}),
    "a set has each value once": ({"set": ["a", "b"]}, {"set": ["b", "a", "c"]}, {"set": ["b", "a", "c"]}),
    "values of a set go": ({"set": ["a", "b", "c"]}, {"$deleteFromPrimitiveList/set": ["a", "c"]}, {"set": ["b"]}),
    "values of any list go": ({"list": ["a", "b"]}, {"$deleteFromPrimitiveList/list": ["a"]}, {"list": ["b"]}),
    "values of no list": ({}, {"$deleteFromPrimitiveList/set": ["a"]}, {}),
    "a set in a given order": (
        {"set": ["a", "b", "z"]},
        {"set": ["c"], "$setElementOrder/set": ["c", "b", "a"]},
        {"set": ["c", "b", "a", "z"]},
    ),
    "items merge, the named in front": (
        {"items": named("a", "b", value="1")},
        {"items": [{"name": "b", "value": "2"}, {"name": "c"}]},
        {"items": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}, {"name": "c"}]},
    ),
    "a new item comes first": ({"items": named("a")}, {"items": named("b")}, {"items": named("b", "a")}),
    "items within items merge": (
        {"items": [{"name": "a", "inner": named("x", "y", value="1")}]},
        {"items": [{"name": "a", "inner": [{"name": "y", "value": "2"}]}]},
        {"items": [{"name": "a", "inner": [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]}]},
    ),
    "an item goes": ({"items": named("a", "b")}, {"items": [{"name": "a", "$patch": "delete"}]}, {"items": named("b")}),
    "an item that is not there goes": (
        {"items": named("a")},
        {"items": [{"name": "b", "$patch": "delete"}]},
        {"items": named("a")},
    ),
    "all items are replaced": (
        {"items": named("a", "b")},
        {"items": [*named("c"), {"$patch": "replace"}]},
        {"items": named("c")},
    ),
    "items in a given order": (
        {"items": named("a", "b", "z")},
        {"items": named("c"), "$setElementOrder/items": named("b", "c", "a")},
        {"items": named("b", "c", "a", "z")},
    ),
    "an order alone": (
        {"items": named("a", "b", "z")},
        {"$setElementOrder/items": named("b", "a")},
        {"items": named("b", "a", "z")},
    ),
    "an order of new items": ({}, {"items": named("b"), "$setElementOrder/items": named("b")}, {"items": named("b")}),
    "an order of what is not there": ({"list": ["a"]}, {"$setElementOrder/items": named("b")}, {"list": ["a"]}),
    "an order with a deletion": (
        {"items": named("a", "b")},
        {"items": [{"name": "a", "$patch": "delete"}], "$setElementOrder/items": named("b")},
        {"items": named("b")},
    ),
    "an order of a list that is replaced": (
        {"list": ["a", "b"]},
        {"list": ["c", "d"], "$setElementOrder/list": ["c", "d"]},
        {"list": ["c", "d"]},
    ),
    "items that retain some keys": (
        {"volumes": [{"name": "v", "value": "1"}]},
        {"volumes": [{"$retainKeys": ["name", "b"], "name": "v", "b": "2"}]},
        {"volumes": [{"name": "v", "b": "2"}]},
    ),
    "what is new has neither nulls nor directives": (
        {},
        {
            "map": {"a": None, "b": "1"},
            "items": [{"name": "a", "x": None, "$retainKeys": ["name"]}],
            "gone": {"$patch": "delete"},
        },
        {"map": {"b": "1"}, "items": named("a")},
    ),
    "another type replaces": ({"map": {"a": "1"}}, {"map": "x"}, {"map": "x"}),
    "a directive in the place of a scalar": ({"map": "x"}, {"map": {"$patch": "delete"}}, {}),
    "two empty lists": ({"items": []}, {"items": []}, {"items": []}),
    "items that share a key are merged with the first": (
        {"items": [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]},
        {"items": [{"name": "a", "value": "3"}]},
        {"items": [{"name": "a", "value": "3"}, {"name": "a", "value": "2"}]},
    ),
}


@pytest.mark.parametrize("case", PATCHED)
def test_a_strategic_patch_merges(case: str) -> None:
    obj, patch, expected = PATCHED[case]
    before = copy.deepcopy((obj, patch))
    assert strategic_merge(obj, patch, SCHEMA) == expected
    assert (obj, patch) == before


BAD_REQUESTS: dict[str, tuple[Any, str]] = {
    "a list": ([], "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    "a key that is set but not retained": (
        {"union": {"$retainKeys": ["a"], "b": "1"}},
        "invalid patch format of retainKeys",
    ),
    "retained keys that are no list": ({"union": {"$retainKeys": "a"}}, "invalid patch format of retainKeys"),
}


@pytest.mark.parametrize("case", BAD_REQUESTS)
def test_a_patch_of_the_wrong_form_is_a_bad_request(case: str) -> None:
    patch, message = BAD_REQUESTS[case]
    with pytest.raises(Refused) as raised:
        strategic_merge({"union": {"a": "1"}}, patch, SCHEMA)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)


FAILING: dict[str, tuple[Object, str]] = {
    "an unknown directive": ({"map": {"$patch": "x"}}, "unknown patch type: x in map: map[$patch:x]"),
    "an unknown directive of an item": ({"items": [{"$patch": "x"}]}, "unknown patch type: x in map: map[$patch:x]"),
    "an item that merges": ({"items": [{"$patch": "merge"}]}, "merging lists cannot yet be specified in the patch"),
    "an item without its key": (
        {"items": [{"value": "1"}]},
        "map: map[value:1] does not contain declared merge key: name",
    ),
    "an item without its key that is to go": (
        {"items": [{"$patch": "delete"}]},
        "map: map[$patch:delete] does not contain declared merge key: name",
    ),
    "a list without a key": ({"keyless": [{"a": 1}]}, "cannot merge lists without merge key for struct"),
    "items of two types": ({"set": ["b", 1]}, "list element types are not identical: [[a] [b 1]]"),
    "an order that is none": ({"$setElementOrder/set": "a"}, "expected a []interface {}, but received a string"),
    "another order than the given": (
        {"set": ["b", "a"], "$setElementOrder/set": ["a", "b"]},
        "The order in patch list:\n[b a]\n doesn't match $setElementOrder list:\n[a b]\n",
    ),
    "an item that is not in the order": (
        {"items": named("b"), "$setElementOrder/items": named("a")},
        "The order in patch list:\n[map[name:b]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    ),
    "an order of scalars for items": (
        {"items": named("a"), "$setElementOrder/items": ["a"]},
        "expected a map[string]interface {}, but received a string",
    ),
    "an order of nothing": (
        {"empty": [], "$setElementOrder/empty": []},
        "no elements in any of the given slices",
    ),
}


@pytest.mark.parametrize("case", FAILING)
def test_a_patch_that_does_not_fit_the_kind_fails_as_in_the_real_server(case: str) -> None:
    patch, message = FAILING[case]
    live = {"items": named("a"), "set": ["a"], "keyless": [{"a": 1}], "map": {}, "empty": []}
    with pytest.raises(Refused) as raised:
        strategic_merge(live, patch, SCHEMA)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (500, "", message)


def test_a_list_of_lists_is_unprocessable() -> None:
    with pytest.raises(Refused) as raised:
        strategic_merge({"set": [["a"]]}, {"set": [["a"]]}, SCHEMA)
    assert raised.value.code == 422


NAMES = st.sampled_from("abcd")
ITEMS = st.lists(NAMES, unique=True, max_size=4).map(lambda names: [{"name": name, "value": name} for name in names])
LIVES = st.fixed_dictionaries(
    {}, optional={"items": ITEMS, "set": st.lists(NAMES, unique=True), "map": st.dictionaries(NAMES, NAMES)}
)


@given(LIVES, LIVES)
def test_without_directives_nothing_goes_and_all_is_there(live: Object, patch: Object) -> None:
    before = copy.deepcopy((live, patch))
    merged = strategic_merge(live, patch, SCHEMA)
    assert (live, patch) == before
    for field in ("set", "map"):
        assert set(merged.get(field, ())) == {*live.get(field, ()), *patch.get(field, ())}
    names = [item["name"] for item in merged.get("items", [])]
    assert len(names) == len(set(names))
    assert set(names) == {item["name"] for item in [*live.get("items", []), *patch.get("items", [])]}
    assert strategic_merge(merged, patch, SCHEMA) == merged


@given(LIVES, st.permutations("abcd"))
def test_a_whole_order_is_the_order(live: Object, order: list[str]) -> None:
    ordered = strategic_merge(live, {"$setElementOrder/set": order}, SCHEMA) if live.get("set") else live
    assert ordered.get("set", []) == [name for name in order if name in live.get("set", [])]


@given(LIVES)
def test_an_empty_patch_is_the_object(live: Object) -> None:
    assert strategic_merge(live, {}, SCHEMA) is live


def test_what_a_patch_leaves_alone_is_shared() -> None:
    live: Object = {"items": named("a", "b"), "map": {"a": "1"}}
    patched = strategic_merge(live, {"items": [{"name": "b", "value": "2"}]}, SCHEMA)
    assert patched["map"] is live["map"]
    assert patched["items"][0] is live["items"][0]
