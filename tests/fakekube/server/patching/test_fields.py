"""Sets of fields are sets of paths, however deep they nest and however they are written."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakekube.server.patching.fields import (
    Fields,
    besides,
    canonical,
    common,
    encoded,
    is_member,
    member,
    minus,
    path_text,
    paths,
    union,
)

Path = tuple[str, ...]

STEPS = st.sampled_from(["f:a", "f:b", "f:c", 'k:{"name":"x"}', 'k:{"name":"y"}', "v:1", 'v:"z"'])
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(tuple)
SETS = st.sets(PATHS, max_size=8)


def fields_of(members: set[Path]) -> Fields:
    """The set of these paths, made the slow way."""
    result: dict[str, Any] = {}
    for path in sorted(members):
        node = result
        for step in path:
            node = node.setdefault(step, {})
        node["."] = {}
    return _without_needless_dots(result)


def _without_needless_dots(node: dict[str, Any]) -> dict[str, Any]:
    if node.keys() == {"."}:
        return {}
    return {step: child if step == "." else _without_needless_dots(child) for step, child in node.items()}


@given(SETS)
def test_a_set_holds_its_paths(members: set[Path]) -> None:
    assert set(paths(fields_of(members))) == members


@given(SETS, SETS)
def test_sets_are_calculated_with_as_sets_of_paths(first: set[Path], second: set[Path]) -> None:
    one, other = fields_of(first), fields_of(second)
    before = copy.deepcopy((one, other))
    assert union(one, other) == fields_of(first | second)
    assert minus(one, other) == fields_of(first - second)
    assert common(one, other) == fields_of(first & second)
    assert (one, other) == before


@given(SETS.filter(bool))
def test_what_does_not_change_is_the_same_object(members: set[Path]) -> None:
    fields = fields_of(members)
    assert union(fields, {}) is fields
    assert minus(fields, {}) is fields
    assert minus(fields, {"f:other": {}}) is fields
    assert besides(fields, ["other"]) is fields


@given(SETS)
def test_without_a_name_nothing_below_it_is_left(members: set[Path]) -> None:
    assert besides(fields_of(members), ["a", "b"]) == fields_of({p for p in members if p[0] not in ("f:a", "f:b")})


@given(SETS)
def test_a_set_in_its_canonical_form_stays_as_it_is(members: set[Path]) -> None:
    assert canonical(fields_of(members)) == fields_of(members)


CANONICAL: dict[str, tuple[Fields, Fields]] = {
    "blanks in keys": (
        {"f:a": {'k: {"x": "1",  "b" : 2}': {}, 'v: "y"': {}}},
        {"f:a": {'k:{"b":2,"x":"1"}': {}, 'v:"y"': {}}},
    ),
    "what is special in HTML": ({'v:"<"': {}}, {'v:"\\u003c"': {}}),
    "a dot alone": ({"f:a": {".": {}}}, {"f:a": {}}),
    "an unknown kind of step": ({"f:a": {"x:1": {}}, "z:2": {}}, {"f:a": {}}),
    "a dot on top": ({".": {}, "f:a": {}}, {".": {}, "f:a": {}}),
}


@pytest.mark.parametrize("case", CANONICAL)
def test_what_a_client_wrote_is_made_canonical(case: str) -> None:
    given_, expected = CANONICAL[case]
    assert canonical(given_) == expected


@pytest.mark.parametrize("wrong", [{"a": {}}, {"f:a": 1}, {"k:{": {}}, {"": {}}], ids=str)
def test_what_is_no_set_is_refused(wrong: Fields) -> None:
    with pytest.raises(ValueError):
        canonical(wrong)


def test_paths_come_members_first_and_sorted_by_value() -> None:
    fields = {
        "f:ports": {'k:{"n":443}': {}, 'k:{"n":80}': {"f:x": {}}, 'k:{"n":"80"}': {}},
        "f:b": {".": {}, "f:inner": {}},
        "f:set": {"v:10": {}, "v:2": {}, "v:true": {}, 'v:"a"': {}},
        "f:a": {},
    }
    assert [path_text(path) for path in paths(fields)] == [
        *(".a", ".b", ".b.inner"),
        *(".ports[n=443]", '.ports[n="80"]', ".ports[n=80].x"),
        *(".set[=2]", ".set[=10]", '.set[="a"]', ".set[=true]"),
    ]


def test_a_step_to_an_item_names_its_keys() -> None:
    assert encoded("k", ("a", "b"), 1, "x") == 'k:{"a":1,"b":"x"}'
    assert path_text(("f:l", encoded("k", ("a", "b"), 1, "x"), "i:3")) == '.l[a=1,b="x"][3]'
    assert encoded("v", None, True) == "v:true"
    assert encoded("v", None, 1) == "v:1"


def test_a_node_becomes_a_member_once() -> None:
    inner: Fields = {"f:a": {}}
    assert not is_member(inner)
    assert is_member(member(inner))
    assert member(member(inner)) is not None
    once = member(inner)
    assert member(once) is once
    assert member(None) == {}
