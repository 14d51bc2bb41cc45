"""What a CustomResourceDefinition or an OpenAPI schema says, as facts that can be compared: one per place and keyword."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["different", "of_definition", "of_schema"]

Facts = dict[str, Any]

_KEYWORDS = (
    "default", "enum", "exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties",
    "maximum", "minItems", "minLength", "minProperties", "minimum", "nullable", "pattern", "type",
    "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
)  # fmt: skip


def different(real: Facts, ours: Facts) -> dict[str, tuple[Any, Any]]:
    """What only one says or both say differently: what the real one says, and what ours does."""
    return {
        fact: (real.get(fact), ours.get(fact))
        for fact in sorted(real.keys() | ours.keys())
        if real.get(fact) != ours.get(fact)
    }


def of_definition(definition: Mapping[str, Any]) -> Facts:
    """`v1beta2 .spec.queueName maxLength` -> 253, and so on; what is not ordered comes sorted."""
    spec = definition["spec"]
    found: Facts = {"scope": spec["scope"]}
    found |= {f"names {field}": _plain(value) for field, value in spec["names"].items()}
    for version in spec["versions"]:
        found |= {f"{version['name']} {key}": value for key, value in _of_version(version)}
    return found


def _of_version(version: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for field in ("served", "storage", "deprecated"):
        yield field, version.get(field, False)
    yield "subresources", sorted(version.get("subresources") or ())
    yield "selectable", sorted(field["jsonPath"] for field in version.get("selectableFields") or ())
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        yield f"column {index}", (column["name"], column["jsonPath"], column["type"], column.get("priority", 0))
    yield from _of_place(version["schema"]["openAPIV3Schema"], "")


def _of_place(schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    if path in (".apiVersion", ".kind", ".metadata"):
        return
    yield path or "root", "there"
    for keyword in _KEYWORDS:
        if keyword in schema:
            yield f"{path} {keyword}", _plain(schema[keyword])
    for name in schema.get("required", ()):
        yield f"{path} required {name}", True
    if schema.get("x-kubernetes-validations"):
        yield f"{path} rules", len(schema["x-kubernetes-validations"])
    for inner, below in _below(schema, path):
        yield from _of_place(inner, below)


def _below(schema: Mapping[str, Any], path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    for name, inner in schema.get("properties", {}).items():
        yield inner, f"{path}.{name}"
    if isinstance(schema.get("items"), Mapping):
        yield schema["items"], f"{path}[]"
    if isinstance(schema.get("additionalProperties"), Mapping):
        yield schema["additionalProperties"], f"{path}{{}}"


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else value


_EXTENSIONS = (
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type", "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
)  # fmt: skip


def of_schema(schema: Mapping[str, Any], components: Mapping[str, Any]) -> Facts:
    """Types and extensions by place, of a schema whose references lead to `components`; where it contains itself it ends."""
    return dict(_of_resolved(schema, components, "", ()))


def _of_resolved(
    schema: Mapping[str, Any], components: Mapping[str, Any], path: str, within: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    whole, names = _resolved(schema, components)
    if set(names) & set(within):
        yield path, "itself"
        return
    kind = _kind_of(whole, names)
    yield path, kind
    for keyword in _EXTENSIONS:
        if keyword in whole:
            yield f"{path} {keyword}", whole[keyword]
    if kind == "anything":
        return
    for inner, below in _below(whole, path):
        yield from _of_resolved(inner, components, below, (*within, *names))


def _resolved(schema: Mapping[str, Any], components: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """A schema with what it refers to, and the names of that."""
    whole, names = dict(schema), []
    while "$ref" in whole or len(whole.get("allOf", ())) == 1:
        (inner,) = whole.pop("allOf", [{}])
        reference: str = whole.pop("$ref", "") or inner["$ref"]
        names.append(reference.rpartition("/")[2])
        whole = {**components[names[-1]], **whole}
    return whole, names


def _kind_of(schema: Mapping[str, Any], names: list[str]) -> str:
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return "number or text"
    if "oneOf" in schema:
        return "quantity"
    if schema.get("x-kubernetes-preserve-unknown-fields") or "FieldsV1" in "".join(names):
        return "anything"
    kind = str(schema.get("type", "anything"))
    return f"{kind} of {schema['format']}" if schema.get("format") in ("byte", "date-time") else kind
