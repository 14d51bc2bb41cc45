"""A short notation for CustomResourceDefinitions.

`of` derives a schema from a msgspec type. Keyword arguments add, field by field, what the type lacks: limits, list
keys, defaults, rules, and fields that the type leaves out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

__all__ = [
    "LABEL", "QUALIFIED", "SUBDOMAIN", "UNTYPED", "Kind", "Schema", "Version", "array", "column", "conditions",
    "defined", "flag", "number", "of", "quantities", "quantity", "record", "rule", "table", "text", "time",
]  # fmt: skip

Schema = dict[str, Any]

LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

UNTYPED: Schema = {"x-kubernetes-preserve-unknown-fields": True}
"""A value of any type, stored unpruned."""


def _said(**keywords: Any) -> Schema:
    return {name: value for name, value in keywords.items() if value is not None}


def text(
    longest: int | None = None,
    pattern: str | None = None,
    *,
    shortest: int | None = None,
    one_of: Sequence[str] | None = None,
    default: str | None = None,
    rules: Sequence[Schema] | None = None,
) -> Schema:
    said = _said(maxLength=longest, minLength=shortest, pattern=pattern, default=default)
    return {"type": "string"} | said | _said(enum=one_of and list(one_of)) | _ruled(rules)


def time() -> Schema:
    return {"type": "string", "format": "date-time"}


def number(least: int | None = None, most: int | None = None, *, bits: int = 32, default: int | None = None) -> Schema:
    """An integer; `bits=0` for one without a format."""
    size = _said(format=f"int{bits}" if bits else None)
    return {"type": "integer"} | size | _said(minimum=least, maximum=most, default=default)


def flag(*, default: bool | None = None) -> Schema:
    return {"type": "boolean"} | _said(default=default)


def quantity() -> Schema:
    return {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY, "x-kubernetes-int-or-string": True}


def quantities(most: int | None = None) -> Schema:
    return table(quantity(), most=most)


def table(values: Schema, *, most: int | None = None, atomic: bool = False) -> Schema:
    """A map with any keys."""
    whole = "atomic" if atomic else None
    said = _said(maxProperties=most)
    return {"type": "object", "additionalProperties": values} | said | _map_type(whole)


def _map_type(type_: str | None) -> Schema:
    return {"x-kubernetes-map-type": type_} if type_ else {}


def array(
    items: Schema | None = None,
    *,
    keys: Sequence[str] = (),
    kind: Literal["atomic", "set", "map", ""] = "",
    most: int | None = None,
    least: int | None = None,
    rules: Sequence[Schema] | None = None,
) -> Schema:
    """A list: a map with keys, otherwise of `kind`, or without list type. Without `items` the type gives the items."""
    list_type = "map" if keys else kind
    said: Schema = {"type": "array"} | _said(items=items, maxItems=most, minItems=least)
    said |= {"x-kubernetes-list-type": list_type} if list_type else {}
    return said | ({"x-kubernetes-list-map-keys": list(keys)} if keys else {}) | _ruled(rules)


def record(
    fields: Mapping[str, Schema] | None = None,
    /,
    *,
    needs: Sequence[str] = (),
    rules: Sequence[Schema] | None = None,
    atomic: bool = False,
    default: Any = None,
    **more: Schema,
) -> Schema:
    """An object with these fields; `fields` takes names that are no keywords."""
    properties = {**(fields or {}), **more}
    made: Schema = {"type": "object", "properties": properties} if properties else {"type": "object"}
    made |= {"required": sorted(needs)} if needs else {}
    return made | _map_type("atomic" if atomic else None) | _ruled(rules) | _said(default=default)


def rule(
    condition: str, message: str, *, reason: str | None = None, field_path: str | None = None, optional: bool = False
) -> Schema:
    """A rule in CEL. `optional` makes `oldSelf` optional, so that the rule also runs on create."""
    said = _said(rule=condition, message=message, reason=reason, fieldPath=field_path)
    return said | ({"optionalOldSelf": True} if optional else {})


def _ruled(rules: Sequence[Schema] | None) -> Schema:
    return {"x-kubernetes-validations": list(rules)} if rules else {}


def of(
    model: type[msgspec.Struct],
    *,
    needs: Sequence[str] = (),
    rules: Sequence[Schema] | None = None,
    default: Any = None,
    **said: Schema | None,
) -> Schema:
    """The schema of a msgspec type. Keywords add to the schema of a field; None removes the field."""
    hints = get_type_hints(model)
    own = {info.encode_name: hints[info.name] for info in msgspec.structs.fields(model)}
    names = [name for name in {**own, **said} if said.get(name, {}) is not None]
    properties = {name: _joined(own.get(name), said.get(name) or {}) for name in names}
    return record(properties, needs=needs, rules=rules, default=default)


def _joined(hint: Any, said: Schema) -> Schema:
    """A field's type merged with its additions. A complete addition, or one of another type, replaces the type."""
    if hint is None or said.keys() & {"properties", "items", "additionalProperties", *UNTYPED, "anyOf"}:
        return said
    typed = _typed(hint)
    return said if said.get("type", typed.get("type")) != typed.get("type") else typed | said


_SCALARS: Mapping[Any, Schema] = {str: text(), int: number(), bool: flag(), datetime: time()}


def _typed(hint: Any) -> Schema:
    if hint in _SCALARS:
        return dict(_SCALARS[hint])
    if get_origin(hint) is Literal:
        return text(one_of=get_args(hint))
    if get_origin(hint) in (UnionType, Union):
        return _typed_union([each for each in get_args(hint) if each not in (type(None), msgspec.UnsetType)])
    if get_origin(hint) is tuple:
        return array(_typed(get_args(hint)[0]))
    if get_origin(hint) is dict:
        return table(_typed(get_args(hint)[1]))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return of(hint)
    raise TypeError(f"{hint} says nothing of what is in it: declare it")


def _typed_union(options: Sequence[Any]) -> Schema:
    return quantity() if set(options) == {str, int, float} else _typed(options[0])


def _condition() -> Schema:
    """metav1.Condition, with Kubernetes' limits."""
    return record(
        needs=("lastTransitionTime", "message", "reason", "status", "type"),
        type=text(316, QUALIFIED),
        status=text(one_of=("True", "False", "Unknown")),
        reason=text(1024, "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", shortest=1),
        message=text(32768),
        lastTransitionTime=time(),
        observedGeneration=number(0, bits=64),
    )


def conditions(most: int | None = None, *, keyed: bool = True) -> Schema:
    return array(_condition(), keys=("type",) if keyed else (), most=most)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version of a kind. `schema` covers all fields except apiVersion, kind and metadata."""

    name: str
    schema: Schema
    columns: tuple[Schema, ...] = ()
    storage: bool = False
    status: bool = True
    deprecated: bool = False
    selectable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind and its names, as in a CustomResourceDefinition."""

    group: str
    kind: str
    plural: str
    versions: tuple[Version, ...]
    namespaced: bool = False
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)


def column(name: str, path: str, kind: str = "string", *, priority: int = 0) -> Schema:
    return {"name": name, "type": kind, "jsonPath": path} | ({"priority": priority} if priority else {})


def defined(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind."""
    names: dict[str, Any] = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural}
    names["singular"] = kind.kind.lower()
    names |= {"shortNames": list(kind.short_names)} if kind.short_names else {}
    names |= {"categories": list(kind.categories)} if kind.categories else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"}
        | ({"annotations": dict(kind.annotations)} if kind.annotations else {}),
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(version) for version in kind.versions],
        },
    }


def _version(version: Version) -> Schema:
    made: Schema = {"name": version.name, "served": True, "storage": version.storage}
    if version.deprecated:
        made["deprecated"] = True
    if version.columns:
        made["additionalPrinterColumns"] = list(version.columns)
    if version.selectable:
        made["selectableFields"] = [{"jsonPath": path} for path in version.selectable]
    if version.status:
        made["subresources"] = {"status": {}}
    return made | {"schema": {"openAPIV3Schema": _rooted(version.schema)}}


def _rooted(schema: Schema) -> Schema:
    general = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
    return schema | {"properties": general | schema.get("properties", {})}
