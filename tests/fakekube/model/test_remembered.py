"""What is remembered, and of what."""

from __future__ import annotations

from typing import Any

from fakekube.model.remembered import Remembered


def test_equal_objects_have_one_result() -> None:
    asked: list[Any] = []

    def make(source: Any) -> object:
        asked.append(source)
        return object()

    remembered = Remembered(make)
    one, same, other = {"a": 1}, {"a": 1}, {"a": 2}
    assert remembered(one) is remembered(one) is remembered(same)
    assert remembered(other) is not remembered(one)
    assert asked == [one, other]


def test_memory_has_a_bound_and_forgetting_costs_no_more_than_time() -> None:
    remembered = Remembered(lambda source: source["n"])
    assert [remembered({"n": number}) for number in range(3000)] == list(range(3000))
    assert remembered({"n": 0}) == 0
