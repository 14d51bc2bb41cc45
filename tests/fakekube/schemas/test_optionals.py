"""Optional fields in CEL, said in another way."""

from __future__ import annotations

from typing import Any

import pytest

from fakekube.schemas import cel_library as cel
from fakekube.schemas.optionals import without_optionals

LABEL = "object.metadata.?labels[?'example.com/queue'].orValue('')"
SIZE = "object.?spec.?size.orValue(1)"


def valued(expression: str, **item: Any) -> Any:
    context = cel.Context({"object": item}, cel.STDLIB_FUNCTIONS)
    return cel.compiled(without_optionals(expression)).execute(context)


@pytest.mark.parametrize(
    ("metadata", "value"),
    [
        pytest.param({"labels": {"example.com/queue": "main"}}, "main", id="a label that is there"),
        pytest.param({"labels": {}}, "", id="a label that is not"),
        pytest.param({}, "", id="no labels at all"),
    ],
)
def test_a_label_may_be_there(metadata: dict[str, Any], value: str) -> None:
    assert valued(LABEL, metadata=metadata) == value


@pytest.mark.parametrize(("item", "value"), [({}, 1), ({"spec": {}}, 1), ({"spec": {"size": 2}}, 2)])
def test_any_step_of_a_path_may_be_missing(item: dict[str, Any], value: int) -> None:
    assert valued(SIZE, **item) == value


def test_several_are_said_in_another_way_each() -> None:
    assert valued(f"{SIZE} != 1 || {LABEL} != ''", metadata={"labels": {"example.com/queue": "main"}}) is True
    assert valued(f"{SIZE} != 1 || {LABEL} != ''", metadata={}) is False


@pytest.mark.parametrize("text", ["object.size > 1", "object.size.orValue(1)", "object.?list.map(x, x).orValue([])"])
def test_what_is_none_or_is_too_much_stays_as_it_is(text: str) -> None:
    assert without_optionals(text) == text
