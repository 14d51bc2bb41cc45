"""Paths into JSON trees, as the declarations of job kinds write them.

`spec.runPolicy.suspend` names a field. After a field, `[*]` stands for each item of a list or each value of an object,
and `[type=Ready]` for the items of a list whose field `type` is `Ready`. An absent path gives nothing and raises
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec

__all__ = [
    "Keys",
    "Place",
    "fields_of",
    "found",
    "keys_of",
    "nested",
    "only",
    "peek",
    "place_of",
    "with_value",
    "without",
]

Tree = dict[str, Any]
Keys = tuple[str, ...]
_Selected = tuple[str, str]
_Step = str | _Selected
Place = tuple[_Step, ...]
"""The keys of one field, or of one list and then which of its items."""

_EACH: _Selected = ("*", "")
_PATH = re.compile(r"[^][.=*]+(\[(\*|[^][.=*]+=[^][]*)\])?(\.[^][.=*]+(\[(\*|[^][.=*]+=[^][]*)\])?)*")
_PART = re.compile(r"([^][.=*]+)(?:\[(?:(\*)|([^][.=*]+)=([^][]*))\])?")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


@lru_cache(maxsize=4096)
def _steps(path: str) -> tuple[_Step, ...]:
    if not _PATH.fullmatch(path):
        raise ValueError(
            f"expected a path such as spec.replicas, items[*].name or conditions[type=Ready].status, got {path!r}"
        )
    steps: list[_Step] = []
    for field, each, key, value in _PART.findall(path):
        steps.append(field)
        if each or key:
            steps.append(_EACH if each else (key, value))
    return tuple(steps)


def keys_of(path: str) -> Keys:
    """The fields of a path that names exactly one; raises ValueError for any other text."""
    steps = _steps(path)
    keys = tuple(step for step in steps if isinstance(step, str))
    if len(keys) < len(steps):
        raise ValueError(f"expected the path of one field, got {path!r}")
    return keys


def place_of(path: str) -> Place:
    """The place of one field or of items that a field of theirs selects; raises ValueError for any other text."""
    *before, last = steps = _steps(path)
    if last is _EACH or not all(isinstance(step, str) for step in before):
        raise ValueError(f"expected the path of one field, or of items such as conditions[type=Ready], got {path!r}")
    return steps


def found(tree: Any, path: str) -> Iterator[Any]:
    """All values at a path, in order, without nulls; raises ValueError if the text is no path."""
    at: Iterable[Any] = (tree,)
    for step in _steps(path):
        at = [item for each in at for item in _follow(each, step)]
    return iter([item for item in at if item is not None])


def only(tree: Any, path: str, default: Any = None) -> Any:
    """The first value at a path, or the default."""
    return next(found(tree, path), default)


def _follow(tree: Any, step: _Step) -> Iterable[Any]:
    if isinstance(step, str):
        return (tree[step],) if isinstance(tree, dict) and step in tree else ()
    items = list(tree.values()) if isinstance(tree, dict) else tree if isinstance(tree, list) else []
    if step is _EACH:
        return items
    key, value = step
    return [item for item in items if isinstance(item, dict) and item.get(key) == value]


# Raw trees: only the objects along the path are decoded, so that everything else stays byte for byte.


def peek(raw: msgspec.Raw, keys: Keys) -> Any:
    """The value of one field; None if it is absent."""
    try:
        for key in keys:
            raw = _fields(raw)[key]
        return msgspec.json.decode(raw)
    except (KeyError, msgspec.ValidationError):
        return None


def without(raw: msgspec.Raw, place: Place) -> msgspec.Raw | Tree:
    """The tree without one field, or the selected items of one list; the same value if the place is absent."""
    fields = fields_of(raw)
    first, rest = place[0], place[1:]
    if fields is None or first not in fields:
        return raw
    name = str(first)
    if not rest:
        return {key: value for key, value in fields.items() if key != name}
    if isinstance(rest[0], str):
        return {**fields, name: without(fields[name], rest)}
    return {**fields, name: _without_items(fields[name], *rest[0])}


def _without_items(raw: msgspec.Raw, key: str, value: str) -> msgspec.Raw | list[msgspec.Raw]:
    try:
        items = _items(raw)
    except msgspec.ValidationError:
        return raw
    return [item for item in items if peek(item, (key,)) != value]


def with_value(raw: msgspec.Raw, keys: Keys, value: Any) -> Tree:
    """The tree with one field set; objects that are missing or null along the path are created."""
    fields = fields_of(raw) or {}
    first, rest = keys[0], keys[1:]
    return {**fields, first: with_value(fields.get(first, msgspec.Raw(b"{}")), rest, value) if rest else value}


def nested(keys: Keys, value: Any) -> Tree:
    """A tree with that one field."""
    for key in reversed(keys):
        value = {key: value}
    tree: Tree = value
    return tree


def fields_of(raw: msgspec.Raw) -> dict[str, msgspec.Raw] | None:
    """The fields of an object, undecoded; None if it is no object."""
    try:
        return _fields(raw)
    except msgspec.ValidationError:
        return None
