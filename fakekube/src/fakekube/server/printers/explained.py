"""Schemas of built-in kinds for OpenAPI documents: split into parts that refer to each other, with descriptions.

The schemas for validation are whole and without descriptions; here they are split along the library's models.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from fakekube.builtins.builtin_schemas import model_of, schema_of
from fakekube.builtins.models import descriptions_of, fields_of
from fakekube.model.resources import Resource

__all__ = ["META", "PREFIX", "explained", "object_meta"]

Schema = Mapping[str, Any]

PREFIX = "#/components/schemas/"
"""The prefix of references."""

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
"""The package of the types that all kinds share."""

_OF_META = frozenset(
    {"LabelSelector", "LabelSelectorRequirement", "ManagedFieldsEntry", "ObjectMeta", "OwnerReference"}
)

_MODEL = re.compile(
    r"(?:list\[|dict\(str, )*(?P<model>[A-Za-z]*?V(?P<version>\d+(?:(?:alpha|beta)\d+)?)(?P<kind>\w+))[\])]*"
)
_WRAPPED = ("items", "additionalProperties")


def explained(resource: Resource) -> tuple[Schema, dict[str, Schema]]:
    """The schema of a kind, and its parts by name; the unchanged schema if the library has no model of the kind."""
    parts: dict[str, Schema] = {}
    if not resource.schema:
        return resource.schema, parts
    try:
        schema = _described(resource.schema, model_of(resource.group, resource.version, resource.kind), parts)
    except LookupError:
        return resource.schema, parts
    return {"description": f"{resource.kind} of {resource.api_version}.", **schema}, parts


@cache
def object_meta() -> Mapping[str, Schema]:
    """The parts for the metadata of all objects: ObjectMeta and its references."""
    parts: dict[str, Schema] = {}
    _field(schema_of("", "v1", "ConfigMap")["properties"]["metadata"], "V1ObjectMeta", "", parts)
    return parts


def _described(schema: Schema, model: str, parts: dict[str, Schema]) -> Schema:
    """The schema of a model, with descriptions, and with references for fields that are models."""
    declared, told = fields_of(model), descriptions_of(model)
    properties = {
        name: _field(field, declared.get(name, ""), told.get(name, ""), parts)
        for name, field in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def _field(schema: Schema, declared: str, description: str, parts: dict[str, Schema]) -> Schema:
    said = {"description": description} if description else {}
    match = _MODEL.fullmatch(declared)
    if match is None:
        return {**schema, **said}
    if "properties" in schema:
        reference = {key: value for key, value in schema.items() if key.startswith("x-kubernetes-patch")}
        return {**reference, **said, "allOf": [{"$ref": _part(schema, match, parts)}]}
    for key in _WRAPPED:
        if "properties" in schema.get(key, {}):
            return {**schema, **said, key: {"$ref": _part(schema[key], match, parts)}}
    return {**schema, **said}


def _part(schema: Schema, match: re.Match[str], parts: dict[str, Schema]) -> str:
    """The reference to the part of a model, which is created if it is new."""
    kind = match["kind"]
    name = f"{META}.{kind}" if kind in _OF_META else f"io.k8s.api.v{match['version']}.{kind}"
    if name not in parts:
        parts[name] = {}  # ends the recursion of a model that contains itself
        parts[name] = _described(schema, match["model"], parts)
    return f"{PREFIX}{name}"
