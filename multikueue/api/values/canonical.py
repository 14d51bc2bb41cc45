"""Canonical JSON trees: two trees that mean the same to Kubernetes become equal.

The same thing is written in several ways: null, empty and absent; `1`, `1000m` and `1.0`. They differ between two API
servers, between a job and the pod template inside its Workload, and between what we write and what a Go program writes
back.
"""

from __future__ import annotations

from typing import Any

from multikueue.api.values.quantity import parse
from multikueue.errors import InvalidObject

__all__ = ["QUANTITIES", "canonical", "terse"]

QUANTITIES = ("requests", "limits", "overhead")
"""The fields whose values are quantities."""


def canonical(tree: Any) -> Any:
    """The tree without null and empty parts, and with quantities of resources as nano-units."""
    if isinstance(tree, dict):
        pairs = ((key, _canonical_field(key, value)) for key, value in tree.items())
        return {key: value for key, value in pairs if not _is_empty(value)}
    if isinstance(tree, list):
        return [canonical(value) for value in tree]
    return tree


def terse(tree: Any) -> Any:
    """The canonical tree without what a Go program omits when it writes an object again: false, zero, empty text."""
    return _without_zeros(canonical(tree))


def _without_zeros(tree: Any) -> Any:
    if isinstance(tree, dict):
        pairs = ((key, _without_zeros(value)) for key, value in tree.items())
        return {key: value for key, value in pairs if value not in (0, "", {}, [])}
    return [_without_zeros(value) for value in tree] if isinstance(tree, list) else tree


def _canonical_field(key: str, value: Any) -> Any:
    if key in QUANTITIES and isinstance(value, dict):
        return {name: _nanos(amount) for name, amount in value.items() if amount is not None}
    return canonical(value)


def _nanos(amount: Any) -> Any:
    """Equal for two texts that Kubernetes reads as the same amount, also for two beyond its largest one."""
    try:
        return parse(amount)
    except InvalidObject:
        return amount


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict | list) and not value)
