from __future__ import annotations

import copy
from typing import Any

import pytest

from multikueue.jobs.trees.strategic_merge import merged

Tree = dict[str, Any]


def env(names: str, value: str) -> list[Tree]:
    return [{"name": name, "value": value} for name in names]


@pytest.mark.parametrize(
    ("names", "expected"),
    [("C", "CAB"), ("B", "AB"), ("BC", "ABC"), ("CB", "CAB"), ("BA", "BA"), ("", "AB")],
)
def test_lists_are_merged_in_the_order_of_kubernetes(names: str, expected: str) -> None:
    found = merged({"env": env("AB", "old")}, {"env": env(names, "new")})["env"]
    assert "".join(each["name"] for each in found) == expected
    assert {each["name"] for each in found if each["value"] == "new"} == set(names)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        pytest.param({"a": 1, "b": 2}, {"b": 3}, {"a": 1, "b": 3}, id="the later word counts"),
        pytest.param({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}, id="objects are merged"),
        pytest.param({"a": [1]}, {"a": {"y": 2}}, {"a": {"y": 2}}, id="but not with what is none"),
        pytest.param({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}, id="other lists are replaced"),
        pytest.param(
            {"volumeMounts": [{"mountPath": "/a", "name": "v"}]},
            {"volumeMounts": [{"mountPath": "/a", "readOnly": True}]},
            {"volumeMounts": [{"mountPath": "/a", "name": "v", "readOnly": True}]},
            id="what is alike by its key is one",
        ),
    ],
)
def test_the_tree_after_a_patch(ours: Tree, theirs: Tree, expected: Tree) -> None:
    before = copy.deepcopy((ours, theirs))
    assert merged(ours, theirs) == expected
    assert (ours, theirs) == before
