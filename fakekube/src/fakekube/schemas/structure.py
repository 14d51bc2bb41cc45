"""Types, limits, enums and formats of a structural schema, checked with JSON Schema, in kube-apiserver's words.

A schema compiles to two validators. The strict one accepts only valid objects without anything to prune or default: one
call in Rust, a few microseconds, and enough for nearly all writes of controllers. The plain one finds the problems of
the other objects.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jsonschema_rs

from fakekube.model.refusals import Problem as FieldProblem
from fakekube.model.refusals import shown
from fakekube.model.values.quantities import is_quantity
from fakekube.model.wire import Json, Object

__all__ = [
    "OBJECT_META",
    "QUANTITY_FORMAT",
    "Found",
    "Path",
    "Structure",
    "is_embedded",
    "keeps_unknown",
    "render_path",
]

Path = tuple[str | int, ...]
"""A path in an object: field names and indexes."""

Schema = Mapping[str, Any]


class Found(NamedTuple):
    """A problem, and the path of the value it concerns: the surrounding object for a missing field."""

    problem: FieldProblem
    path: Path


_NULL = {"type": "null"}
_TEXT = {"type": "string"}
_FLAG = {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_TIME = {"type": "string", "format": "date-time"}

OBJECT_META: Schema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _TEXT),
        "generation": {"type": "integer"},
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _TIME),
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "finalizers": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "ownerReferences": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["apiVersion", "kind", "name", "uid"],
                "properties": {
                    **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _TEXT),
                    **dict.fromkeys(("controller", "blockOwnerDeletion"), _FLAG),
                },
            },
        },
        "managedFields": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    },
}
"""The fields of metadata, at the root and in embedded objects. A schema may only narrow them."""


def is_embedded(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def keeps_unknown(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def render_path(path: Path) -> str:
    """A path in text: `spec.podSets[0].name`; `<nil>` for the root, as for a nil field path in Go."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text[1:] if text else "<nil>"


class Structure:
    """The validators of one schema, compiled at first use."""

    def __init__(self, openapi: Schema) -> None:
        self._openapi = openapi

    def accepts(self, obj: Object) -> bool:
        """Whether the object is valid, without unknown fields and missing defaults."""
        return self._strict.is_valid(obj)

    def problems(self, obj: Object) -> list[Found]:
        """Problems of the object; unknown fields and missing defaults are none."""
        if self._plain.is_valid(obj):
            return []
        return [found for error in self._plain.iter_errors(obj) for found in _worded(error)]

    @cached_property
    def _strict(self) -> jsonschema_rs.Validator:
        return _validator(_translated(self._openapi, strict=True))

    @cached_property
    def _plain(self) -> jsonschema_rs.Validator:
        return _validator(_translated(self._openapi, strict=False))


def _validator(schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft202012Validator(
        schema, validate_formats=True, formats=_FORMATS, pattern_options=jsonschema_rs.RegexOptions(), offline=True
    )


# Keywords with equal meaning in OpenAPI and JSON Schema.
_SHARED = (
    "maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties",
    "maximum", "minimum", "multipleOf",
)  # fmt: skip


def _translated(schema: Schema, *, strict: bool, root: bool = True) -> dict[str, Any]:
    """A JSON Schema for a schema in Kubernetes' dialect of OpenAPI v3."""
    made: dict[str, Any] = {key: schema[key] for key in _SHARED if key in schema}
    made |= _types(schema) | _bounds(schema)
    if not (strict and schema.get("x-kubernetes-int-or-string")):  # where the junction repeats the type
        made |= _junctions(schema)
    if "enum" in schema:
        made["enum"] = [*schema["enum"], *([None] if schema.get("nullable") else [])]
    if schema.get("format") in _FORMATS or schema.get("format") in _KNOWN_FORMATS:
        made["format"] = schema["format"]
    if "items" in schema:
        made["items"] = _translated(schema["items"], strict=strict, root=False)
    return made | _members(schema, strict=strict, root=root)


def _types(schema: Schema) -> dict[str, Any]:
    if schema.get("x-kubernetes-int-or-string"):
        types = ["integer", "string"]
    elif "type" in schema:
        types = [schema["type"]]
    else:
        return {} if schema.get("nullable") else {"not": _NULL}
    return {"type": [*types, "null"] if schema.get("nullable") else types}


def _bounds(schema: Schema) -> dict[str, Any]:
    """Exclusive bounds: a flag beside the bound in OpenAPI, the bound itself in JSON Schema."""
    bounds = {}
    if schema.get("exclusiveMinimum"):
        bounds["exclusiveMinimum"] = schema["minimum"]
    if schema.get("exclusiveMaximum"):
        bounds["exclusiveMaximum"] = schema["maximum"]
    return bounds


def _junctions(schema: Schema) -> dict[str, Any]:
    """anyOf and the like, which add conditions; fields are declared outside of them."""
    found: dict[str, Any] = {
        key: [_translated({"nullable": True, **each}, strict=False, root=False) for each in schema[key]]
        for key in ("anyOf", "oneOf", "allOf")
        if key in schema
    }
    if "not" in schema:  # replaces the one that forbids null
        found["not"] = _translated({"nullable": True, **schema["not"]}, strict=False, root=False)
    return found


def _members(schema: Schema, *, strict: bool, root: bool) -> dict[str, Any]:
    """Properties, required fields and additional fields."""
    properties = {name: _translated(each, strict=strict, root=False) for name, each in _properties(schema).items()}
    required = list(schema.get("required", ()))
    if is_embedded(schema) and not root:
        required += [name for name in ("apiVersion", "kind") if name not in required]
    if strict:
        required += [name for name, each in _properties(schema).items() if "default" in each and name not in required]
    if root or is_embedded(schema):
        properties = {"apiVersion": _TEXT, "kind": _TEXT} | properties
        properties["metadata"] = _metadata(schema, strict=strict)
    made: dict[str, Any] = {"properties": properties} if properties else {}
    if required:
        made["required"] = required
    return made | _others(schema, strict=strict)


def _properties(schema: Schema) -> Mapping[str, Schema]:
    properties: Mapping[str, Schema] = schema.get("properties", {})
    return properties


def _metadata(schema: Schema, *, strict: bool) -> dict[str, Any]:
    general = _translated(OBJECT_META, strict=strict, root=False)
    own = _properties(schema).get("metadata", {})
    if not own.get("properties"):
        return general
    return general | {"allOf": [_translated(own, strict=False, root=False)]}


def _others(schema: Schema, *, strict: bool) -> dict[str, Any]:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        return {"additionalProperties": _translated(additional, strict=strict, root=False)}
    if not strict or additional is True or keeps_unknown(schema):
        return {}
    return {"additionalProperties": False} if schema.get("type") == "object" else {}


def _is_duration(text: str) -> bool:
    return re.fullmatch(r"[-+]?0|[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+", text) is not None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


QUANTITY_FORMAT = "fakekube-quantity"
"""The format of quantities of built-in kinds, which Go's types refuse to decode otherwise."""

_FORMATS: dict[str, Callable[..., bool]] = {
    "duration": _is_duration,
    "byte": _is_base64,
    "uri": _is_uri,
    QUANTITY_FORMAT: is_quantity,
}
"""Formats that differ from JSON Schema's."""

_KNOWN_FORMATS = frozenset({"date-time", "date", "uuid", "ipv4", "ipv6", "email", "hostname"})


def _worded(error: jsonschema_rs.ValidationError) -> Iterator[Found]:
    path: Path = tuple(error.instance_path)
    keyword, details = error.kind.name, error.kind.as_dict()
    if keyword in _JUNCTION_WORDS:
        yield from _worded_junction(error, path)
        return
    if keyword == "required":
        path = (*path, details["property"])
    field = render_path(path)
    reason, text = _WORDS.get(keyword, _words_of_others)(field, error.instance, details)
    if keyword == "not":
        field = "<nil>"
    yield Found(FieldProblem(reason, field, text), path[:-1] if keyword == "required" else path)


_Words = tuple[str, str]


def _words_of_type(field: str, value: Json, details: Mapping[str, Any]) -> _Words:
    kind = _type_name(value)
    types = ",".join(each for each in details["types"] if each != "null")
    return "FieldValueTypeInvalid", f'Invalid value: "{kind}": {field} in body must be of type {types}: "{kind}"'


def _words_of_not(field: str, _value: Json, details: Mapping[str, Any]) -> _Words:
    if details["schema"] == _NULL:
        return "FieldValueTypeInvalid", f'Invalid value: "null": {field} in body must not be null'
    return "FieldValueInvalid", f'Invalid value: "": "{field}" must not validate the schema (not)'


def _words_of_format(field: str, value: Json, details: Mapping[str, Any]) -> _Words:
    text = f"Invalid value: {shown(value)}: {field} in body must be of type {details['format']}: {shown(value)}"
    return "FieldValueTypeInvalid", text


def _words_of_enum(_field: str, value: Json, details: Mapping[str, Any]) -> _Words:
    options = ", ".join(shown(each) for each in details["options"] if each is not None)
    return "FieldValueNotSupported", f"Unsupported value: {shown(value)}: supported values: {options}"


def _words_of_too_many(_field: str, value: Json, details: Mapping[str, Any]) -> _Words:
    limit = details["limit"]
    unit = "item" if limit == 1 else "items"
    return "FieldValueTooMany", f"Too many: {len(value)}: must have at most {limit} {unit}"


def _words_of_too_long(_field: str, _value: Json, details: Mapping[str, Any]) -> _Words:
    limit = details["limit"]
    return "FieldValueTooLong", f"Too long: may not be more than {limit} {'byte' if limit == 1 else 'bytes'}"


def _words_of_pattern(field: str, value: Json, details: Mapping[str, Any]) -> _Words:
    text = f"Invalid value: {shown(value)}: {field} in body should match '{details['pattern']}'"
    return "FieldValueInvalid", text


def _words_of_limit(demand: str, measure: Callable[[Any], Any] = lambda value: value) -> Callable[..., _Words]:
    def words(field: str, value: Json, details: Mapping[str, Any]) -> _Words:
        limit = details.get("limit", details.get("multiple_of"))
        return (
            "FieldValueInvalid",
            f"Invalid value: {shown(measure(value))}: {field} in body should {demand.format(limit)}",
        )

    return words


def _words_of_others(field: str, value: Json, _details: Mapping[str, Any]) -> _Words:
    return "FieldValueInvalid", f"Invalid value: {shown(value)}: {field} in body is not as the schema demands"


_WORDS: Mapping[str, Callable[[str, Json, Mapping[str, Any]], _Words]] = {
    "type": _words_of_type,
    "not": _words_of_not,
    "required": lambda _field, _value, _details: ("FieldValueRequired", "Required value"),
    "enum": _words_of_enum,
    "format": _words_of_format,
    "pattern": _words_of_pattern,
    "maxLength": _words_of_too_long,
    "maxItems": _words_of_too_many,
    "maxProperties": _words_of_too_many,
    "minLength": _words_of_limit("be at least {} chars long"),
    "minItems": _words_of_limit("have at least {} items", len),
    "minProperties": _words_of_limit("have at least {} properties", len),
    "maximum": _words_of_limit("be less than or equal to {}"),
    "minimum": _words_of_limit("be greater than or equal to {}"),
    "exclusiveMaximum": _words_of_limit("be less than {}"),
    "exclusiveMinimum": _words_of_limit("be greater than {}"),
    "multipleOf": _words_of_limit("be a multiple of {}"),
}

_JUNCTION_WORDS: Mapping[str, str] = {
    "anyOf": "must validate at least one schema (anyOf)",
    "oneOf": "must validate one and only one schema (oneOf). Found none valid",
}


def _worded_junction(error: jsonschema_rs.ValidationError, path: Path) -> Iterator[Found]:
    """The problem of a junction, reported at the root, and the problems of its first branch."""
    branches = error.kind.as_dict()["context"]
    words = _JUNCTION_WORDS[error.kind.name]
    passed = sum(not branch for branch in branches)
    if error.kind.name == "oneOf" and passed:
        words = f"must validate one and only one schema (oneOf). Found {passed} valid alternatives"
    yield Found(FieldProblem("FieldValueInvalid", "<nil>", f'Invalid value: "": "{render_path(path)}" {words}'), path)
    if not passed:
        yield from (found for inner in branches[0] for found in _worded(inner))


def _type_name(value: Json) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {dict: "object", list: "array", str: "string", int: "integer", float: "number", type(None): "null"}
    return names[type(value)]
