"""The merge rules of a kind for server-side apply: which maps and lists merge, by which keys, and which are atomic.

They come from an OpenAPI v3 schema with Kubernetes' extensions. Shapes are created at first use, so a schema may be
large or refer to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fakekube.model.remembered import Remembered
from fakekube.model.values.golang import literal, shown, type_name
from fakekube.model.wire import Json, Object
from fakekube.server.patching.fields import encoded, path_text

__all__ = ["DEDUCED", "Shape", "problems", "shape_of"]

Schema = Mapping[str, Any]

_STRING: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_BOOLEAN: Schema = {"type": "boolean"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}

OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink"), _STRING),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _INTEGER),
        **dict.fromkeys(("labels", "annotations"), _STRINGS),
        "finalizers": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _STRING),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), _BOOLEAN),
                },
            },
        },
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "additionalProperties": True, "x-kubernetes-map-type": "atomic"},
            "x-kubernetes-list-type": "atomic",
        },
    },
}
"""The metadata of any object, which schemas of custom kinds leave out."""

_EVERY_OBJECT: Schema = {"apiVersion": _STRING, "kind": _STRING, "metadata": OBJECT_META}


class Shape:
    """The types of values at a place of a kind, and how they merge.

    `scalar` is the permitted scalar type (`untyped` for any, empty for none). `is_map` and `is_list` permit maps and
    lists. A map or list that merges is not atomic: its parts have owners of their own.
    """

    __slots__ = ("_children", "_open", "_schema", "is_list", "is_map", "keys", "list_merges", "map_merges", "scalar")

    def __init__(self, schema: Schema, *, open_: bool = False, whole: bool = False) -> None:
        """`open_` permits unknown fields, here and below. `whole` marks an object with metadata of its own."""
        type_ = schema.get("type", "")
        if whole or schema.get("x-kubernetes-embedded-resource") is True:
            schema = {**schema, "properties": {**schema.get("properties", {}), **_EVERY_OBJECT}}
        self._schema = schema
        self._open = open_ or schema.get("x-kubernetes-preserve-unknown-fields") is True
        self._children: dict[str, Shape | None] = {}
        self.is_map = type_ in ("", "object")
        self.is_list = type_ in ("", "array")
        self.scalar = _scalar(type_, schema.get("format", ""))
        self.map_merges = self.is_map and schema.get("x-kubernetes-map-type") != "atomic"
        self.list_merges, self.keys = _list_kind(schema) if self.is_list else (False, ())

    @property
    def _properties(self) -> Schema:
        found: Schema = self._schema.get("properties", {})
        return found

    def declares(self, name: str) -> bool:
        return name in self._properties

    def field(self, name: str) -> Shape | None:
        """The shape of a field of the map; None for an unknown field."""
        try:
            return self._children[name]
        except KeyError:
            made = self._children[name] = self._field(name)
            return made

    def _field(self, name: str) -> Shape | None:
        if name in self._properties:
            return Shape(self._properties[name], open_=self._open)
        others = self._schema.get("additionalProperties")
        if isinstance(others, Mapping):
            return Shape(others, open_=self._open)
        if others is None:
            others = self._open or not self._properties
        return DEDUCED if others else None

    @property
    def item(self) -> Shape:
        """The shape of the list's items."""
        found = self._children.get("[]")  # no field has this name
        if found is None:
            items = self._schema.get("items")
            found = self._children["[]"] = Shape(items, open_=self._open) if items is not None else UNTYPED
        return found

    def step(self, item: Json) -> str | None:
        """The step to an item of a list that merges; None for an item without one."""
        try:
            if not self.keys:
                return None if item is None else encoded("v", None, item)
            if len(self.keys) == 1 and self.keys[0] in item:
                return encoded("k", self.keys, item[self.keys[0]])
            return self._keyed(item) if isinstance(item, dict) else None
        except TypeError:  # a container in the place of a scalar cannot be looked up, nor a scalar be looked into
            return None

    def _keyed(self, item: Object) -> str | None:
        values = {key: item[key] if key in item else self._default(key) for key in self.keys}
        known = tuple(key for key in self.keys if key in item or values[key] is not None)
        return encoded("k", known, *(values[key] for key in known)) if known else None

    def _default(self, key: str) -> Json:
        """The default of a key that an item leaves out."""
        return self._schema.get("items", {}).get("properties", {}).get(key, {}).get("default")


def _scalar(type_: str, format_: str) -> str:
    match type_:
        case "integer" | "number":
            return "numeric"
        case "string":
            return "string" if format_ in ("", "byte") else "untyped"
        case "boolean":
            return "boolean"
        case "":
            return "untyped"
    return ""


def _list_kind(schema: Schema) -> tuple[bool, tuple[str, ...]]:
    """Whether a list merges, and the sorted keys of its items; a set has none."""
    match schema.get("x-kubernetes-list-type"):
        case "map":
            return True, tuple(sorted(schema["x-kubernetes-list-map-keys"]))
        case "set":
            return True, ()
        case "atomic":
            return False, ()
    # Built-in kinds without list types for apply use their patch strategy.
    if schema.get("x-kubernetes-patch-strategy") in ("merge", "merge,retainKeys"):
        key = schema.get("x-kubernetes-patch-merge-key")
        return True, (key,) if key else ()
    return False, ()


DEDUCED = Shape({})
"""The shape of values without a schema: maps merge, lists do not."""

UNTYPED = Shape({"x-kubernetes-map-type": "atomic"})

shape_of: Remembered[Shape] = Remembered(lambda schema: Shape(schema, whole=True))
"""The shape of a kind's objects, from its schema."""


def problems(value: Object, shape: Shape) -> list[str]:
    """The misfits of an applied object, in kube-apiserver's words: `.spec.x: field not declared ...`."""
    return [f"{path}: {text}" if path else text for path, text in _problems(value, shape)]


def _problems(value: Json, shape: Shape) -> list[tuple[str, str]]:
    if value is None:
        return []
    if isinstance(value, dict) and shape.is_map:
        return _map_problems(value, shape)
    if isinstance(value, list) and shape.is_list:
        return _list_problems(value, shape)
    if shape.is_map and not (shape.scalar and _is_scalar(value)):
        return [("", f"expected map, got &{{{shown(value)}}}")]
    if shape.scalar:
        return _scalar_problems(value, shape.scalar)
    return [("", f"expected list, got &{{{shown(value)}}}")]


def _map_problems(value: Object, shape: Shape) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for name, part in value.items():
        place = shape.field(name)
        if place is None:
            return [*found, (f".{name}", "field not declared in schema")]
        found += [(f".{name}{path}", text) for path, text in _problems(part, place)]
    return found


def _list_problems(value: Sequence[Json], shape: Shape) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        where = f"[{index}]"
        if shape.list_merges:
            step = shape.step(item)
            if step is None:
                return [*found, ("", f"element {index}: {_no_step(item, shape.keys)}")]
            where = path_text((step,))
            if step in seen:
                found.append(("", f"duplicate entries for key {where}"))
            seen.add(step)
        found += [(f"{where}{path}", text) for path, text in _problems(item, shape.item)]
    return found


def _no_step(item: Json, keys: Sequence[str]) -> str:
    if not keys:
        what = "an explicit null" if item is None else "a map type" if isinstance(item, dict) else ""
        if what:
            return f"associative list without keys has an element that's {what}"
        return "not supported: associative list with lists as elements"
    if item is None:
        return "associative list with keys may not have a null element"
    if not isinstance(item, dict):
        return "associative list with keys may not have non-map elements"
    listed = " ".join(f'"{key}"' for key in keys)
    return (
        f"associative list with keys has an element that omits all key fields [{listed}] "
        "(and doesn't have default values for any key fields)"
    )


def _is_scalar(value: Json) -> bool:
    return not isinstance(value, dict | list)


def _scalar_problems(value: Json, kind: str) -> list[tuple[str, str]]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match kind:
        case "numeric" if not is_number:
            return [("", f"expected numeric (int or float), got {type_name(value)}")]
        case "string" if not isinstance(value, str):
            return [("", f"expected string, got &value.valueUnstructured{{Value:{literal(value)}}}")]
        case "boolean" if not isinstance(value, bool):
            return [("", f"expected boolean, got &{{{shown(value)}}}")]
        case "untyped" if not _is_scalar(value):
            return [("", f"expected any scalar, got &{{{shown(value)}}}")]
    return []
