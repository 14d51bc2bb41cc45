from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from multikueue.api.values.canonical import MOST_LEVELS, canonical, terse
from tests.api.values.trees import OBJECTS


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": None, "b": [], "c": {}, "d": {"e": None}}, {}, id="null, empty and absent are one"),
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1000m"}}, id="quantities by value"),
        pytest.param({"limits": {"memory": "1Gi"}}, {"limits": {"memory": 1073741824}}, id="quantities as numbers"),
        pytest.param({"l": [{"a": None}]}, {"l": [{}]}, id="inside lists"),
    ],
)
def test_same_meaning(one: Any, other: Any) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"a": False}, {}, id="false is said"),
        pytest.param({"a": 0}, {}, id="zero is said"),
        pytest.param({"requests": {"cpu": "1"}}, {"requests": {"cpu": "1001m"}}, id="other quantities"),
        pytest.param({"requests": {"cpu": "much"}}, {"requests": {"cpu": "1"}}, id="what is no quantity"),
        pytest.param({"l": [1, 2]}, {"l": [2, 1]}, id="order counts"),
    ],
)
def test_other_meaning(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


@given(tree=OBJECTS)
def test_canonical_twice_is_canonical(tree: dict[str, Any]) -> None:
    assert canonical(canonical(tree)) == canonical(tree)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param({"readOnly": False, "value": "", "n": 0}, {}, id="zeros"),
        pytest.param({"a": {"b": False}, "l": [{"c": ""}]}, {"l": [{}]}, id="what is empty without them"),
        pytest.param({"limits": {"cpu": "0.5"}}, {"limits": {"cpu": "500m"}}, id="quantities"),
    ],
)
def test_what_a_go_program_writes_means_the_same(one: Any, other: Any) -> None:
    assert terse(one) == terse(other)


def test_a_true_word_stays() -> None:
    assert terse({"a": True, "b": 1, "c": "x"}) == {"a": True, "b": 1, "c": "x"}


def _nested(levels: int) -> Any:
    tree: Any = "x"
    for level in range(levels):
        tree = [tree] if level % 2 else {"a": tree}
    return tree


def test_a_tree_is_compared_up_to_so_many_levels_whatever_the_interpreter_could_take() -> None:
    assert canonical(_nested(MOST_LEVELS)) == _nested(MOST_LEVELS)
    with pytest.raises(RecursionError):
        canonical(_nested(MOST_LEVELS + 1))
