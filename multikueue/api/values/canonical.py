"""Canonical JSON trees: two trees that mean the same to Kubernetes become equal.

The same thing is written in several ways: null, empty and absent; `1`, `1000m` and `1.0`. They differ between two API
servers, between a job and the pod template inside its Workload, and between what we write and what a Go program writes
back.
"""

from __future__ import annotations

from typing import Any

from multikueue.api.values.quantity import parse
from multikueue.errors import InvalidObject

__all__ = ["MOST_LEVELS", "QUANTITIES", "canonical", "terse"]

QUANTITIES = ("requests", "limits", "overhead")
"""The fields whose values are quantities."""

MOST_LEVELS = 200
"""Of a tree to be compared; a Pod has some ten. What looks at it afterwards takes more frames of Python per level."""


def canonical(tree: Any, _left: int = MOST_LEVELS) -> Any:
    """The tree without null and empty parts, and with quantities of resources as nano-units. Raises RecursionError for one
    of more than MOST_LEVELS."""
    if not _left:
        raise RecursionError(f"more than {MOST_LEVELS} levels")
    if isinstance(tree, dict):
        found = {}
        for key, value in tree.items():
            if isinstance(value, dict) and key in QUANTITIES:
                value = {name: _nanos(amount) for name, amount in value.items() if amount is not None}
            elif isinstance(value, dict | list):
                value = canonical(value, _left - 1)
            if value is not None and value != {} and value != []:
                found[key] = value
        return found
    if isinstance(tree, list):
        return [canonical(value, _left - 1) if isinstance(value, dict | list) else value for value in tree]
    return tree


def terse(tree: Any) -> Any:
    """The canonical tree without what a Go program omits when it writes an object again: false, zero, empty text."""
    return _without_zeros(canonical(tree))


def _without_zeros(tree: Any) -> Any:
    if isinstance(tree, dict):
        pairs = ((key, _without_zeros(value)) for key, value in tree.items())
        return {key: value for key, value in pairs if value not in (0, "", {}, [])}
    return [_without_zeros(value) for value in tree] if isinstance(tree, list) else tree


def _nanos(amount: Any) -> Any:
    """Equal for two texts that Kubernetes reads as the same amount, also for two beyond its largest one."""
    try:
        return parse(amount)
    except InvalidObject:
        return amount
