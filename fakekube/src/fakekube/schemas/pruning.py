"""Pruning of unknown fields and defaulting, in one walk over the object.

Rules as in kube-apiserver 1.37: a null where none is allowed counts as absent, in objects but not in lists; then
defaults are set, including defaults inside of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from fakekube.model.wire import Json, Object
from fakekube.schemas.structure import OBJECT_META, Path, is_embedded, keeps_unknown, render_path

__all__ = ["Pruner"]

Schema = Mapping[str, Any]


class Pruner:
    """Prunes and defaults by one schema. Results share unchanged parts."""

    def __init__(self, openapi: Schema) -> None:
        self._root = _Node(openapi, root=True)

    def prune_and_default(self, obj: Object) -> Object:
        """The object as stored; the same object if nothing changes."""
        done: Object = _walk(self._root, obj, (), None, defaults=True)
        return done

    def unknown_fields(self, obj: Object) -> list[str]:
        """The paths of unknown fields: of metadata first, then sorted, as in kube-apiserver's warnings."""
        unknown: list[Path] = []
        _walk(self._root, obj, (), unknown, defaults=False)
        return [
            render_path(path) for path in sorted(unknown, key=lambda path: (path[0] != "metadata", render_path(path)))
        ]


class _Node:
    """The walk's rules at one place of the schema."""

    __slots__ = ("defaults", "idle", "items", "nullable", "others", "properties")

    def __init__(self, schema: Schema, *, root: bool = False) -> None:
        self.nullable: bool = bool(schema.get("nullable"))
        properties: dict[str, Schema] = dict(schema.get("properties", {}))
        if root or is_embedded(schema):
            properties |= {"apiVersion": {}, "kind": {}, "metadata": OBJECT_META}
        self.defaults = [(name, each["default"]) for name, each in properties.items() if "default" in each]
        self.properties = {name: _Node(each) for name, each in properties.items()}
        self.items = _Node(schema["items"]) if isinstance(schema.get("items"), Mapping) else None
        additional = schema.get("additionalProperties")
        self.others: _Node | bool = (
            _Node(additional) if isinstance(additional, Mapping) else additional is True or _is_open(schema)
        )
        self.idle = self.others is True and not self.properties and self.items is None
        """Whether nothing below is ever changed."""


def _is_open(schema: Schema) -> bool:
    """Whether unknown fields stay: the schema keeps them, or says nothing of fields."""
    says = "properties" in schema or schema.get("type") == "object"
    return keeps_unknown(schema) or not says


def _walk(node: _Node, value: Json, path: Path, unknown: list[Path] | None, *, defaults: bool) -> Json:
    if isinstance(value, dict):
        return _walk_object(node, value, path, unknown, defaults=defaults)
    if isinstance(value, list) and node.items is not None:
        return _walk_list(node.items, value, path, unknown, defaults=defaults)
    return value


def _walk_object(node: _Node, value: Object, path: Path, unknown: list[Path] | None, *, defaults: bool) -> Object:
    made: Object | None = None
    for name, inner in value.items():
        child = node.properties.get(name, node.others)
        if child is True:
            continue
        kept: Json = inner
        if child is False:
            if unknown is not None:
                unknown.append((*path, name))
        elif inner is not None:
            kept = inner if child.idle else _walk(child, inner, (*path, name), unknown, defaults=defaults)
            if kept is inner:
                continue
        elif child.nullable:
            continue
        made = dict(value) if made is None else made
        if child is False or inner is None:
            del made[name]
        else:
            made[name] = kept
    return _with_defaults(node, value if made is None else made, fresh=made is not None) if defaults else made or value


def _with_defaults(node: _Node, value: Object, *, fresh: bool) -> Object:
    """The object with missing defaults; `fresh` if the walk may change it in place."""
    missing = [(name, default) for name, default in node.defaults if name not in value]
    if not missing:
        return value
    made = value if fresh else dict(value)
    for name, default in missing:
        made[name] = _walk(node.properties[name], deepcopy(default), (), None, defaults=True)
    return made


def _walk_list(node: _Node, value: list[Json], path: Path, unknown: list[Path] | None, *, defaults: bool) -> list[Json]:
    if node.idle:
        return value
    made = [_walk(node, each, (*path, index), unknown, defaults=defaults) for index, each in enumerate(value)]
    return value if all(new is old for new, old in zip(made, value, strict=True)) else made
