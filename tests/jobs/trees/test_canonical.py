from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from multikueue.api.values.canonical import canonical
from multikueue.jobs.trees.canonical import is_pruned_copy, merge_patch
from tests.api.values.trees import OBJECTS


@pytest.mark.parametrize(
    ("copy", "verdict"),
    [
        pytest.param({"image": "i", "env": [{"name": "A", "valueFrom": {"new": 1}}], "newer": 1}, True, id="the same"),
        pytest.param(
            {"image": "i", "env": [{"name": "A", "valueFrom": {"new": 1}}]}, True, id="an unknown field pruned"
        ),
        pytest.param({"image": "i", "env": [{"name": "A"}], "newer": 1}, True, id="an unknown field pruned deep down"),
        pytest.param({"image": "i", "newer": 1}, False, id="a field that all know is missing"),
        pytest.param({"image": "i", "env": [], "newer": 1}, False, id="a list is shorter"),
        pytest.param({"image": "j", "env": [{"name": "A"}]}, False, id="another value"),
        pytest.param({"image": "i", "env": [{"name": "A"}], "more": 1}, False, id="a field that the original lacks"),
    ],
)
def test_pruned_copy(copy: Any, verdict: bool) -> None:
    original = {"image": "i", "env": [{"name": "A", "valueFrom": {"new": 1}}], "newer": 1}
    assert is_pruned_copy(copy, original) is verdict


@pytest.mark.parametrize("side", ["copy", "original"])
def test_no_resource_is_ever_pruned(side: str) -> None:
    more, fewer = {"resources": {"requests": {"cpu": 1, "gpu": 1}}}, {"resources": {"requests": {"cpu": 1}}}
    copy, original = (more, fewer) if side == "copy" else (fewer, more)
    assert not is_pruned_copy(copy, original)


@given(tree=OBJECTS)
def test_every_tree_is_a_copy_of_itself(tree: dict[str, Any]) -> None:
    assert is_pruned_copy(canonical(tree), canonical(tree))


@given(old=OBJECTS, new=OBJECTS)
def test_merge_patch_leads_from_old_to_new(old: dict[str, Any], new: dict[str, Any]) -> None:
    old, new = _without_nulls(old), _without_nulls(new)
    assert _apply(old, merge_patch(old, new)) == new


@given(tree=OBJECTS)
def test_merge_patch_of_no_change_is_empty(tree: dict[str, Any]) -> None:
    assert merge_patch(tree, tree) == {}


def _apply(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _apply(result.get(key), value)
    return result


def _without_nulls(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _without_nulls(value) for key, value in tree.items() if value is not None}
    return tree
