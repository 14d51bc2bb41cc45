"""What changed, what is claimed, how an applied object merges, and what goes away with it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import assume, given

from fakekube.server.patching.fields import path_text, paths
from fakekube.server.patching.merging import changes, claims, merged, names_empty, pruned
from fakekube.server.patching.shapes import shape_of
from tests.fakekube.gadgets import GADGET, OBJECTS, Untouchable, port

Object = dict[str, Any]

SHAPE = shape_of(GADGET)


def texts(fields: dict[str, Any]) -> list[str]:
    return [path_text(path) for path in paths(fields)]


def spec(**fields: Any) -> Object:
    return {"spec": fields}


CHANGES: dict[str, tuple[Object, Object, list[str], list[str]]] = {
    "nothing": (spec(color="a"), spec(color="a"), [], []),
    "a leaf": (spec(color="a"), spec(color="b"), [".spec.color"], []),
    "a first field is there with what holds it": ({}, spec(color="a"), [".spec", ".spec.color"], []),
    "a last field goes alone": (spec(color="a"), spec(), [], [".spec.color"]),
    "what holds a field goes with it": (spec(color="a"), {}, [], [".spec", ".spec.color"]),
    "an entry of a map": (spec(options={"a": "1"}), spec(options={"b": "1"}), [".spec.options.b"], [".spec.options.a"]),
    "an empty map": ({}, spec(options={}), [".spec", ".spec.options"], []),
    "a map that was null": (spec(options=None), spec(options={}), [".spec.options"], []),
    "a null in the place of a map": (spec(options={"a": "1"}), spec(options=None), [], [".spec.options.a"]),
    "a map that is taken whole": (spec(whole={"a": "1"}), spec(whole={"a": "2"}), [".spec.whole"], []),
    "a list that is taken whole": (spec(steps=["a"]), spec(steps=["a", "b"]), [".spec.steps"], []),
    "values of a set": (spec(words=["a", "b"]), spec(words=["b", "c"]), ['.spec.words[="c"]'], ['.spec.words[="a"]']),
    "the order of a set": (spec(words=["a", "b"]), spec(words=["b", "a"]), [], []),
    "a field of an item": (
        spec(ports=[port(1), port(2, name="a")]),
        spec(ports=[port(2, name="b"), port(1)]),
        ['.spec.ports[number=2,protocol="TCP"].name'],
        [],
    ),
    "an item": (
        spec(ports=[port(1)]),
        spec(ports=[port(2)]),
        [
            '.spec.ports[number=2,protocol="TCP"]',
            '.spec.ports[number=2,protocol="TCP"].number',
            '.spec.ports[number=2,protocol="TCP"].protocol',
        ],
        [
            '.spec.ports[number=1,protocol="TCP"]',
            '.spec.ports[number=1,protocol="TCP"].number',
            '.spec.ports[number=1,protocol="TCP"].protocol',
        ],
    ),
    "an item that is there twice is one": (
        spec(words=["a"]),
        spec(words=["a", "a"]),
        ['.spec.words[="a"]'],
        ['.spec.words[="a"]'],
    ),
    "an item that is no longer there twice": (
        spec(words=["a", "a"]),
        spec(words=["a"]),
        ['.spec.words[="a"]'],
        ['.spec.words[="a"]'],
    ),
    "twins that changed": (
        spec(ports=[port(1), port(1, name="a")]),
        spec(ports=[port(1), port(1, name="b")]),
        ['.spec.ports[number=1,protocol="TCP"]'],
        [],
    ),
    "a map in the place of a text": (
        spec(free={"a": "x"}),
        spec(free={"a": {"b": "c"}}),
        [".spec.free.a", ".spec.free.a.b"],
        [],
    ),
    "a text in the place of a map": (
        spec(free={"a": {"b": "c"}}),
        spec(free={"a": "x"}),
        [".spec.free.a"],
        [".spec.free.a.b"],
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_changes_are_told_by_field(case: str) -> None:
    old, new, made, gone = CHANGES[case]
    changed, removed = changes(old, new, SHAPE)
    assert (texts(changed), texts(removed)) == (made, gone)


def test_what_is_shared_is_not_walked() -> None:
    shared = Untouchable(a="b")
    old, new = {"spec": shared, "status": {"phase": "a"}}, {"spec": shared, "status": {"phase": "b"}}
    assert texts(changes(old, new, SHAPE)[0]) == [".status.phase"]


CLAIMS: dict[str, tuple[Object, list[str]]] = {
    "leaves, but not what holds them": (spec(color="a", parts={"left": "x"}), [".spec.color", ".spec.parts.left"]),
    "entries of a map": (spec(options={"a": "1"}), [".spec.options.a"]),
    "entries where nothing is declared, with what holds them": (
        spec(free={"a": {"b": "c"}}),
        [".spec.free.a", ".spec.free.a.b"],
    ),
    "items and their fields": (
        spec(ports=[{"number": 1}]),
        ['.spec.ports[number=1,protocol="TCP"]', '.spec.ports[number=1,protocol="TCP"].number'],
    ),
    "what is taken whole": (spec(whole={"a": "1"}, steps=[]), [".spec.steps", ".spec.whole"]),
    "an empty map and a null": (
        spec(options={}, parts=None, note=None),
        [".spec.note", ".spec.options", ".spec.parts"],
    ),
    "an empty object": (spec(), [".spec"]),
    "an empty list that merges claims nothing": (spec(color="a", words=[]), [".spec.color"]),
    "a twin is claimed once": (spec(words=["a", "a", "b"]), ['.spec.words[="a"]', '.spec.words[="b"]']),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_an_applied_object_claims_what_it_names(case: str) -> None:
    applied, expected = CLAIMS[case]
    assert texts(claims(applied, SHAPE)) == expected


MERGED: dict[str, tuple[Object, Object, Object]] = {
    "fields come together": (spec(color="a", size=1), spec(size=2), spec(color="a", size=2)),
    "a map merges": (spec(options={"a": "1"}), spec(options={"b": "2"}), spec(options={"a": "1", "b": "2"})),
    "a null takes nothing away": (spec(options={"a": "1"}), spec(options=None), spec(options={"a": "1"})),
    "a null takes a list not away": (spec(words=["a"]), spec(words=None), spec(words=["a"])),
    "a null is a value of a scalar": (spec(note="a"), spec(note=None), spec(note=None)),
    "what is whole is replaced": (spec(whole={"a": "1", "b": {}}), spec(whole={"a": "2"}), spec(whole={"a": "2"})),
    "a list is replaced": (spec(steps=["a", "b"]), spec(steps=["b"]), spec(steps=["b"])),
    "sets unite": (spec(words=["b", "a"]), spec(words=["c", "a"]), spec(words=["b", "c", "a"])),
    "items merge by their keys": (
        spec(ports=[port(1, name="x"), port(2)]),
        spec(ports=[{"number": 2, "name": "y"}, {"number": 1, "protocol": "UDP"}]),
        spec(ports=[port(1, name="x"), port(2, name="y"), {"number": 1, "protocol": "UDP"}]),
    ),
    "the applied order counts": (
        spec(ports=[port(1), port(9), port(2), port(8), port(3)]),
        spec(ports=[port(3), port(7), port(1), port(2)]),
        spec(ports=[port(9), port(8), port(3), port(7), port(1), port(2)]),
    ),
    "another type replaces": (spec(free={"a": {"b": "c"}}), spec(free={"a": "x"}), spec(free={"a": "x"})),
    "a twin is replaced by the applied one": (
        spec(ports=[port(1, name="a"), port(1, name="b"), port(2)]),
        spec(ports=[port(1, name="c")]),
        spec(ports=[port(1, name="c"), port(2)]),
    ),
}


@pytest.mark.parametrize("case", MERGED)
def test_an_applied_object_is_laid_over_the_live_one(case: str) -> None:
    live, applied, expected = MERGED[case]
    before = copy.deepcopy((live, applied))
    assert merged(live, applied, SHAPE) == expected
    assert (live, applied) == before


@given(OBJECTS, OBJECTS)
def test_merging_keeps_what_was_there_and_has_all_that_is_applied(live: Object, applied: Object) -> None:
    result = merged(live, applied, SHAPE)
    _, gone = changes(live, result, SHAPE)
    everything = set(paths(changes({}, result, SHAPE)[0]))
    assert gone == {} or all("free" in text for text in texts(gone)), "only another type takes away"
    assert set(paths(claims(applied, SHAPE))) <= everything
    assert merged(result, applied, SHAPE) is result


@given(OBJECTS)
def test_merging_what_is_there_is_the_live_object(live: Object) -> None:
    assert merged(live, copy.deepcopy(live), SHAPE) is live


PRUNED: dict[str, tuple[Object, Object, Object, Object]] = {
    "what nobody owns any more goes": (
        spec(color="a", size=1),
        spec(color="a", size=1),
        spec(color="a"),
        spec(color="a"),
    ),
    "a map that becomes empty goes with its last entry": (
        spec(options={"a": "1"}, color="a"),
        spec(options={"a": "1"}),
        spec(color="a"),
        spec(color="a"),
    ),
    "what others own stays": (
        spec(options={"a": "1", "b": "2"}),
        spec(options={"a": "1"}),
        spec(options={"b": "2"}),
        spec(options={"b": "2"}),
    ),
    "an item goes with what was its applier's": (
        spec(ports=[port(1, name="x"), port(2)]),
        spec(ports=[port(1, name="x"), port(2)]),
        spec(ports=[port(2)]),
        spec(ports=[port(2)]),
    ),
    "what the server added to an item goes with it": (
        spec(ports=[port(1, name="x"), port(2)]),
        spec(ports=[{"number": 1}, port(2)]),
        spec(ports=[port(2)]),
        spec(ports=[port(2)]),
    ),
    "an item in which somebody owns something stays, with that": (
        spec(ports=[port(1, name="x", tags=["a"])]),
        spec(ports=[port(1, tags=["a"])]),
        spec(ports=[port(1, name="x")]),
        spec(ports=[port(1, name="x")]),
    ),
    "a value of a set": (spec(words=["a", "b"]), spec(words=["a"]), spec(words=["b"]), spec(words=["b"])),
    "what was never the applier's stays": (spec(color="a", size=1), spec(color="a"), spec(), spec(size=1)),
}


@pytest.mark.parametrize("case", PRUNED)
def test_what_was_applied_and_is_owned_no_more_goes(case: str) -> None:
    value, last, owned, expected = PRUNED[case]
    before = copy.deepcopy(value)
    assert pruned(value, claims(last, SHAPE), [claims(owned, SHAPE)], SHAPE) == expected
    assert value == before


def filled(value: Any) -> Any:
    """Without the parts that are empty: what `names_empty` asks for is left out, and not waited for."""
    if isinstance(value, dict):
        parts = {name: filled(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not None and part != {}}
    if isinstance(value, list):
        return [part for part in map(filled, value) if part is not None and part != {}]
    return value


@given(OBJECTS, OBJECTS.map(filled))
def test_what_is_owned_is_never_pruned(value: Object, owned: Object) -> None:
    assume(owned)
    assert not names_empty(owned)
    value = merged(value, owned, SHAPE)
    result = pruned(value, claims(value, SHAPE), [claims(owned, SHAPE)], SHAPE)
    assert set(paths(claims(owned, SHAPE))) <= set(paths(changes({}, result, SHAPE)[0]))


@pytest.mark.parametrize("empty", [spec(), spec(note=None), spec(ports=[{"number": 1, "tags": {}}])], ids=str)
def test_an_empty_part_is_found(empty: Object) -> None:
    assert names_empty(empty)


def test_an_empty_list_or_text_or_zero_is_no_empty_part() -> None:
    assert not names_empty(spec(words=[], color="", size=0))
