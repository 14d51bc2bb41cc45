"""JSON patches and merge patches, as kube-apiserver applies and refuses them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.model.wire import Refused
from fakekube.server.patching.patches import json_patch, merge_patch

Object = dict[str, Any]

LIVE: Object = {
    "metadata": {"name": "a", "labels": {"x/y": "1", "t~": "2"}},
    "spec": {"list": [1, {"a": "b"}, 3], "on": True},
}


def operation(op: str, path: str, **more: Any) -> Object:
    return {"op": op, "path": path} | more


PATCHED: dict[str, tuple[list[Object], Object]] = {
    "nothing": ([], LIVE),
    "a new field": ([operation("add", "/spec/new", value={"a": 1})], LIVE | {"spec": LIVE["spec"] | {"new": {"a": 1}}}),
    "a field that is there": (
        [operation("add", "/spec/on", value=False)],
        LIVE | {"spec": LIVE["spec"] | {"on": False}},
    ),
    "an item": (
        [operation("add", "/spec/list/1", value=2)],
        LIVE | {"spec": LIVE["spec"] | {"list": [1, 2, {"a": "b"}, 3]}},
    ),
    "a last item": (
        [operation("add", "/spec/list/-", value=4)],
        LIVE | {"spec": LIVE["spec"] | {"list": [1, {"a": "b"}, 3, 4]}},
    ),
    "a part of an item": (
        [operation("replace", "/spec/list/1/a", value="c")],
        LIVE | {"spec": LIVE["spec"] | {"list": [1, {"a": "c"}, 3]}},
    ),
    "names with a slash and a tilde": (
        [operation("remove", "/metadata/labels/x~1y"), operation("replace", "/metadata/labels/t~0", value="3")],
        LIVE | {"metadata": {"name": "a", "labels": {"t~": "3"}}},
    ),
    "to replace what is not there adds it": (
        [operation("replace", "/spec/new", value=1)],
        LIVE | {"spec": LIVE["spec"] | {"new": 1}},
    ),
    "what is not there passes as null": ([operation("test", "/spec/new", value=None)], LIVE),
    "tests and what they guard": (
        [operation("test", "/metadata", value=LIVE["metadata"]), operation("remove", "/spec/on")],
        LIVE | {"spec": {"list": LIVE["spec"]["list"]}},
    ),
    "a move": (
        [{"op": "move", "from": "/spec/list/1", "path": "/spec/moved"}],
        LIVE | {"spec": {"list": [1, 3], "on": True, "moved": {"a": "b"}}},
    ),
    "a copy is one of its own": (
        [{"op": "copy", "from": "/metadata/labels", "path": "/spec/copy"}, operation("add", "/spec/copy/n", value="9")],
        LIVE | {"spec": LIVE["spec"] | {"copy": {"x/y": "1", "t~": "2", "n": "9"}}},
    ),
    "another whole": ([operation("replace", "", value={"kind": "x"})], {"kind": "x"}),
}


@pytest.mark.parametrize("case", PATCHED)
def test_operations_make_another_object(case: str) -> None:
    operations, expected = PATCHED[case]
    before = copy.deepcopy((LIVE, operations))
    assert json_patch(LIVE, operations) == expected
    assert (LIVE, operations) == before


def test_what_operations_leave_alone_is_shared() -> None:
    patched = json_patch(LIVE, [operation("add", "/spec/on", value=False)])
    assert patched["metadata"] is LIVE["metadata"]
    assert patched["spec"]["list"] is LIVE["spec"]["list"]
    assert json_patch(LIVE, []) is LIVE


def test_what_is_patched_in_is_not_the_clients() -> None:
    value: Object = {"a": {}}
    patched = json_patch({}, [operation("add", "/x", value=value), operation("add", "/x/a/b", value=1)])
    assert (patched, value) == ({"x": {"a": {"b": 1}}}, {"a": {}})


UNPROCESSABLE: dict[str, Object] = {
    "a failing test": operation("test", "/metadata/name", value="b"),
    "a test that takes one for true": operation("test", "/spec/on", value=1),
    "a test of what is not there": operation("test", "/spec/new", value="x"),
    "a test without a value": {"op": "test", "path": "/spec/on"},
    "removing what is not there": operation("remove", "/spec/new"),
    "a way that leads nowhere": operation("add", "/a/b/c", value=1),
    "a way through a scalar": operation("add", "/spec/on/x", value=1),
    "an index beyond the end": operation("add", "/spec/list/7", value=1),
    "replacing an item beyond the end": operation("replace", "/spec/list/3", value=1),
    "an index that is none": operation("add", "/spec/list/x", value=1),
    "copying what is not there": {"op": "copy", "from": "/spec/new", "path": "/spec/x"},
    "moving from nowhere": {"op": "move", "path": "/spec/x"},
    "an unknown operation": operation("increase", "/spec/on"),
    "no operation": {"path": "/spec/on"},
    "no path": {"op": "remove"},
    "a path without a slash": operation("remove", "spec"),
    "an object that becomes a list": operation("replace", "", value=[]),
}


@pytest.mark.parametrize("case", UNPROCESSABLE)
def test_an_operation_that_does_not_apply_is_unprocessable(case: str) -> None:
    before = copy.deepcopy(LIVE)
    with pytest.raises(Refused) as raised:
        json_patch(LIVE, [operation("add", "/spec/first", value=1), UNPROCESSABLE[case]])
    message = "the server rejected our request due to an error in our request"
    assert (raised.value.code, raised.value.reason, raised.value.message) == (422, "Invalid", message)
    assert before == LIVE


OPERATION = "json: cannot unmarshal {} into Go {}"
UNREADABLE: dict[str, tuple[Any, str]] = {
    "an object": ({}, OPERATION.format("object", "value of type []handlers.jsonPatchOp")),
    "a number in a list": ([1], OPERATION.format("number", "value of type handlers.jsonPatchOp")),
    "a path that is a number": (
        [{"op": "add", "path": 1}],
        OPERATION.format("number", "struct field jsonPatchOp.path of type string"),
    ),
    "a source that is a list": (
        [{"op": "copy", "path": "/a", "from": []}],
        OPERATION.format("array", "struct field jsonPatchOp.from of type string"),
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_is_no_list_of_operations_is_a_bad_request(case: str) -> None:
    operations, message = UNREADABLE[case]
    with pytest.raises(Refused) as raised:
        json_patch(LIVE, operations)
    assert (raised.value.code, raised.value.reason) == (400, "BadRequest")
    assert raised.value.message == f"error decoding patch: {message}"


def test_ten_thousand_operations_are_enough() -> None:
    test = operation("test", "/spec/on", value=True)
    assert json_patch(LIVE, [test] * 10_000) == LIVE
    with pytest.raises(Refused) as raised:
        json_patch(LIVE, [test] * 10_001)
    assert (raised.value.code, raised.value.reason) == (413, "RequestEntityTooLarge")
    assert raised.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


MERGED: list[tuple[Object, Object, Object]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({"e": None}, {"e": None}, {}),
    ({"a": "b"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    # Beyond the RFC: kube-apiserver takes nulls also from maps in lists.
    ({}, {"a": [{"b": None, "c": [None, {"d": None}]}]}, {"a": [{"c": [None, {}]}]}),
    ({"a": {"b": 1}}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
]


@pytest.mark.parametrize(("obj", "patch", "expected"), MERGED, ids=str)
def test_a_merge_patch_merges(obj: Object, patch: Object, expected: Object) -> None:
    before = copy.deepcopy((obj, patch))
    assert merge_patch(obj, patch) == expected
    assert (obj, patch) == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


def rfc_7386(target: Any, patch: Any) -> Any:
    """The pseudo code of the RFC."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = rfc_7386(result.get(name), value)
    return result


def without_lists(value: Any) -> Any:
    """Lists without what is in them: there the server does otherwise."""
    if isinstance(value, dict):
        return {name: without_lists(part) for name, part in value.items()}
    return [] if isinstance(value, list) else value


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_is_that_of_the_rfc(obj: Object, patch: Object) -> None:
    obj, patch = without_lists(obj), without_lists(patch)
    assert merge_patch(obj, patch) == rfc_7386(obj, patch)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_again_changes_nothing(obj: Object, patch: Object) -> None:
    patch = without_lists(patch)
    once = merge_patch(obj, patch)
    assert merge_patch(once, patch) == once


@given(OBJECTS)
def test_an_empty_merge_patch_is_the_object(obj: Object) -> None:
    assert merge_patch(obj, {}) is obj


def test_what_a_merge_patch_leaves_alone_is_shared() -> None:
    patched = merge_patch(LIVE, {"spec": {"on": False}, "metadata": {"labels": {"none": None}}})
    assert patched["metadata"] is LIVE["metadata"]
    assert patched["spec"]["list"] is LIVE["spec"]["list"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (None, "Invalid JSON Patch"),
        ([], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
    ],
    ids=["null", "a list", "a text"],
)
def test_a_merge_patch_that_is_no_object_is_a_bad_request(patch: Any, message: str) -> None:
    with pytest.raises(Refused) as raised:
        merge_patch(LIVE, patch)
    assert (raised.value.code, raised.value.reason, raised.value.message) == (400, "BadRequest", message)
