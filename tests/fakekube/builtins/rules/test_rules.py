"""What kinds have in common."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.builtins.rules.rules import PLAIN, custom, without_nulls
from tests.fakekube.front_ends import NAMESPACES, PODS, TOYS, resource


@pytest.mark.parametrize(
    ("value", "left"),
    [
        ({"a": None, "b": 1}, {"b": 1}),
        ({"a": {"b": None}}, {"a": {}}),
        ({"a": []}, {}),
        ({"a": [{"b": None}, 2]}, {"a": [{}, 2]}),
        ([None, 1], [None, 1]),
    ],
)
def test_nulls_and_empty_lists_are_forgotten(value: Any, left: Any) -> None:
    assert without_nulls(value) == left


def test_what_has_none_is_not_copied() -> None:
    value = {"a": {"b": [1, {"c": "d"}]}, "e": ""}
    assert without_nulls(value) is value
    mixed = {**value, "n": None}
    assert without_nulls(mixed)["a"] is value["a"]


def test_a_generation_of_a_custom_kind_is_all_but_metadata_and_status() -> None:
    whole = custom(TOYS)
    plain = custom(resource("games", "Game", "example.com", custom=True))
    old: dict[str, Any] = {"kind": "Toy", "metadata": {}, "spec": {"a": 1}, "status": {"b": 1}}
    for change, with_status, without_status in (
        ({"metadata": {"x": "y"}}, False, False),
        ({"status": {"b": 2}}, False, True),
        ({"spec": {"a": 2}}, True, True),
        ({"other": 1}, True, True),
    ):
        assert whole.differs({**old, **change}, old) == with_status
        assert plain.differs({**old, **change}, old) == without_status
    assert whole.differs({key: value for key, value in old.items() if key != "spec"}, old)


def test_a_generation_of_a_built_in_kind_is_its_spec() -> None:
    assert PLAIN.differs({"spec": 1}, {"spec": 2})
    assert not PLAIN.differs({"data": 1}, {"data": 2})


def test_fields_that_cannot_be_asked_for() -> None:
    assert (
        PLAIN.unknown_field(PODS, "x")
        == '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    assert PLAIN.unknown_field(NAMESPACES, "x") == '"x" is not a known field selector: only "metadata.name"'
    assert custom(TOYS).unknown_field(TOYS, "x") == "field label not supported: x"


@pytest.mark.parametrize(
    ("metadata", "done"),
    [
        ({}, True),
        ({"finalizers": ["x"]}, False),
        ({"deletionGracePeriodSeconds": 0}, True),
        ({"deletionGracePeriodSeconds": 5}, False),
    ],
)
def test_a_dying_object_goes_when_nothing_holds_it(metadata: dict[str, Any], done: bool) -> None:
    assert PLAIN.is_done({"metadata": metadata}) == done
