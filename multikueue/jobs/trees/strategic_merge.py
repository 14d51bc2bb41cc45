"""Strategic merge patches of pod templates, as Kubernetes merges them."""

from __future__ import annotations

from collections import deque
from typing import Any

__all__ = ["merged"]

Tree = dict[str, Any]

_MERGE_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
}
"""The merge key of each list in a pod that an override merges. All other lists are replaced."""


def merged(tree: Tree, patch: Tree) -> Tree:
    """The tree after a strategic merge patch. Overrides delete nothing and have no directives, so neither is
    supported."""
    return tree | {key: _merged_value(tree.get(key), value, key) for key, value in patch.items()}


def _merged_value(ours: Any, theirs: Any, key: str) -> Any:
    if isinstance(theirs, dict):
        return merged(ours if isinstance(ours, dict) else {}, theirs)
    if key in _MERGE_KEYS and _are_trees(ours) and _are_trees(theirs):
        return _merged_list(ours, theirs, _MERGE_KEYS[key])
    return theirs


def _are_trees(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _merged_list(ours: list[Tree], theirs: list[Tree], key: str) -> list[Tree]:
    """In Kubernetes' order: the patch's items, each after those of ours that stood before it."""
    place, known = {each.get(key): n for n, each in enumerate(ours)}, {each.get(key): each for each in ours}
    named = {each.get(key) for each in theirs}
    left, found = deque(each for each in ours if each.get(key) not in named), []
    for each in theirs:
        while left and place[left[0].get(key)] < place.get(each.get(key), 0):
            found.append(left.popleft())
        found.append(merged(known.get(each.get(key), {}), each))
    return [*found, *left]
