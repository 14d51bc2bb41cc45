"""Sets of fields in the format of `metadata.managedFields` (FieldsV1), and their algebra.

A set is a nested dict whose keys are the steps of a path: `f:NAME` for a field, `k:{...}` for the item of a list with
keys, `v:...` for a value in a set. The node of a member contains `"."`, or is empty if nothing below it is a member;
the empty dict as a whole is the empty set. Sets are immutable: results share unchanged parts.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from fakekube.model.values.golang import json_text
from fakekube.model.wire import Json

__all__ = [
    "MEMBER",
    "Fields",
    "besides",
    "canonical",
    "common",
    "encoded",
    "is_member",
    "member",
    "minus",
    "path_text",
    "paths",
    "union",
]

Fields = dict[str, Any]

MEMBER: Fields = {}
"""The node of a member without members below it."""

_KINDS = "fkvi"
"""The kinds of steps in the order of sets: field, key, value, index."""


def is_member(node: Fields) -> bool:
    return not node or "." in node


def member(node: Fields | None) -> Fields:
    """The node as a member."""
    if not node:
        return MEMBER
    return node if "." in node else {".": MEMBER, **node}


def union(first: Fields, second: Fields) -> Fields:
    """The union of two sets."""
    if not first or not second:
        return first or second
    return _united(first, second)


def _united(first: Fields, second: Fields) -> Fields:
    """The union of two nodes; an empty node is a member here, not the empty set."""
    if first is second:
        return first
    if not first or not second:
        return member(first or second)
    result = first
    for step, node in second.items():
        had = first.get(step)
        now = node if had is None else _united(had, node)
        if now is not had:
            result = dict(first) if result is first else result
            result[step] = now
    return result


def minus(fields: Fields, taken: Fields) -> Fields:
    """The difference of two sets. Members below a removed member stay unless they are removed themselves."""
    result = fields
    for step, node in taken.items():
        had = fields.get(step)
        if had is None or step == ".":
            continue
        left = _rest(had, node)
        if left is had:
            continue
        if result is fields:
            result = dict(fields)
        if left is None:
            del result[step]
        else:
            result[step] = left
    return result


def _rest(node: Fields, taken: Fields) -> Fields | None:
    """The difference of two nodes; None if nothing is left."""
    if not node:
        return None if is_member(taken) else node
    left = minus(node, taken)
    if "." in left and is_member(taken):
        left = {step: below for step, below in left.items() if step != "."}
    if left is node:
        return node
    if not left:
        return None
    return MEMBER if left.keys() == {"."} else left


def besides(fields: Fields, names: Collection[str]) -> Fields:
    """The set without these top-level fields and all members below them."""
    if not any(f"f:{name}" in fields for name in names):
        return fields
    return {step: node for step, node in fields.items() if step[2:] not in names}


def common(first: Fields, second: Fields) -> Fields:
    """The intersection of two sets."""
    result: Fields = {}
    for step, node in first.items():
        other = second.get(step)
        if other is None or step == ".":
            continue
        below = common(node, other) if node and other else {}
        if is_member(node) and is_member(other):
            result[step] = member(below)
        elif below:
            result[step] = below
    return result


def paths(fields: Fields) -> Iterator[tuple[str, ...]]:
    """All members as tuples of steps: a node before those below it, siblings in Kubernetes' order."""
    steps = sorted((step for step in fields if step != "."), key=_rank)
    for step in steps:
        if is_member(fields[step]):
            yield (step,)
    for step in steps:
        for below in paths(fields[step]):
            yield (step, *below)


def _rank(step: str) -> tuple[Any, ...]:
    kind, text = step[0], step[2:]
    if kind == "f":
        return (0, text)
    content = json.loads(text)
    named = sorted(content.items()) if isinstance(content, dict) else [("", content)]
    return (_KINDS.index(kind), [(name, _sortable(value)) for name, value in named])


def _sortable(value: Json) -> tuple[int, Any]:
    """A sort key: numbers before strings before booleans."""
    if isinstance(value, bool):
        return (2, value)
    return (1, value) if isinstance(value, str) else (0, value or 0)


def path_text(path: tuple[str, ...]) -> str:
    """A path in the notation of conflict messages: `.spec.ports[port=80,protocol="TCP"].name`."""
    return "".join(map(_step_text, path))


def _step_text(step: str) -> str:
    kind, text = step[0], step[2:]
    if kind == "f":
        return f".{text}"
    content = json.loads(text)
    if kind == "k":
        return "[" + ",".join(f"{name}={_shown(value)}" for name, value in sorted(content.items())) + "]"
    return f"[={_shown(content)}]" if kind == "v" else f"[{text}]"


def _shown(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=4096, typed=True)
def encoded(kind: str, names: tuple[str, ...] | None, *values: Json) -> str:
    """The step to an item of a list: by the named keys, sorted, or, without names, by the single value itself."""
    content = values[0] if names is None else dict(zip(names, values, strict=True))
    return f"{kind}:{json_text(content)}"


def canonical(fields: Fields) -> Fields:
    """A client's set in canonical form, which makes sets comparable. Steps of unknown kinds are dropped.

    Raises ValueError for a malformed set.
    """
    return _canonical(fields) or {}


def _canonical(node: Fields) -> Fields | None:
    """The canonical node; None if nothing is below it."""
    if not isinstance(node, dict):
        raise ValueError("fields must be objects")
    below: Fields = {}
    for step, child in node.items():
        if step != "." and (name := _canonical_step(step)):
            below[name] = _canonical(child) or MEMBER
    return {".": MEMBER, **below} if below and "." in node else below or None


def _canonical_step(step: str) -> str:
    """The canonical step; empty for an unknown kind."""
    if step[1:2] != ":":
        raise ValueError(f"missing colon: {step}")
    kind, text = step[0], step[2:]
    if kind in "kv":
        return f"{kind}:{json_text(json.loads(text))}"
    return step if kind in _KINDS else ""
