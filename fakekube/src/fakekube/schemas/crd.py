"""CustomResourceDefinitions: validation, defaults, status, and the resources that they define.

The server stores a definition with its defaults (`defaulted`) if it has no `problems`. The status that controllers of a
real cluster write is there at once (`accepted`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from fakekube.model.metadata import timestamp
from fakekube.model.refusals import Problem as FieldProblem
from fakekube.model.refusals import invalid_value, required, unsupported_value
from fakekube.model.remembered import Remembered
from fakekube.model.resources import Column, Resource
from fakekube.model.wire import Object
from fakekube.schemas import cel_library as cel
from fakekube.schemas.schema import Schema

__all__ = ["accepted", "defaulted", "problems", "resources_of"]

_AGE = Column("Age", ".metadata.creationTimestamp", "date")
"""The printer column of a kind that declares none."""


def resources_of(crd: Object) -> tuple[Resource, ...]:
    """The resources of a kind: one per served version, the storage version first."""
    versions = sorted(crd["spec"]["versions"], key=lambda version: not version["storage"])
    return tuple(_resource(crd["spec"], version) for version in versions if version["served"])


def _resource(spec: Object, version: Object) -> Resource:
    names = _names(spec)
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        singular=names["singular"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        subresources=frozenset(version.get("subresources") or ()),
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        columns=tuple(_columns(version)),
        selectable=tuple(field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ()),
        scale=_scale((version.get("subresources") or {}).get("scale")),
    )


def _scale(scale: Object | None) -> tuple[str, str, str] | None:
    if scale is None:
        return None
    paths = (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
    wanted, found, selector = (path.removeprefix(".") for path in paths)
    return wanted, found, selector


def _columns(version: Object) -> Iterator[Column]:
    declared = version.get("additionalPrinterColumns")
    if not declared:
        yield _AGE
        return
    for column in declared:
        yield Column(
            column["name"],
            column["jsonPath"],
            column["type"],
            priority=column.get("priority", 0),
            format=column.get("format", ""),
            description=column.get("description", ""),
        )


def _names(spec: Object) -> Object:
    names: Object = spec.get("names") or {}
    kind = names.get("kind", "")
    if not kind:
        return names
    return {
        **names,
        "singular": names.get("singular") or kind.lower(),
        "listKind": names.get("listKind") or f"{kind}List",
    }


def defaulted(crd: Object) -> Object:
    """The definition with defaults: singular and list kind, conversion, and false flags of versions."""
    spec = crd.get("spec") or {}
    versions = [{"served": False, "storage": False, **version} for version in spec.get("versions") or ()]
    filled = {
        **spec,
        "names": _names(spec),
        "versions": versions,
        "conversion": spec.get("conversion") or {"strategy": "None"},
    }
    return crd if filled == spec else {**crd, "spec": filled}


def accepted(crd: Object, now: datetime, others: Iterable[Object] = ()) -> Object:
    """The definition with an updated status: names accepted and established, or in conflict with other definitions."""
    spec, old = crd["spec"], crd.get("status") or {}
    clash = _clash(spec, others)
    names = ("NamesAccepted", "True", "NoConflicts", "no conflicts found")
    established = ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
    if clash is not None:
        names = ("NamesAccepted", "False", *clash)
        established = ("Established", "False", "NotAccepted", "not all names are accepted")
    storage = [version["name"] for version in spec["versions"] if version["storage"]]
    stored = list(dict.fromkeys([*(old.get("storedVersions") or ()), *storage]))
    status = {
        "conditions": [_condition(each, old, now) for each in (names, established)],
        "acceptedNames": {"plural": "", "kind": ""} if clash else _names(spec),
        "storedVersions": stored,
    }
    return {**crd, "status": status}


def _condition(wanted: tuple[str, ...], old: Object, now: datetime) -> Object:
    type_, status, reason, message = wanted
    before = next((each for each in old.get("conditions") or () if each["type"] == type_), None)
    if before is not None and before["status"] == status:
        return {**before, "reason": reason, "message": message}
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": timestamp(now),
        "reason": reason,
        "message": message,
    }


_CLASHES = (("plural", "Plural"), ("singular", "Singular"), ("kind", "Kind"), ("listKind", "ListKind"))


def _clash(spec: Object, others: Iterable[Object]) -> tuple[str, str] | None:
    """Reason and message of the last name that another definition of the group uses."""
    mine, found = _names(spec), None
    taken: set[str] = set()
    for other in others:
        if other["spec"]["group"] == spec["group"] and other["spec"]["names"]["plural"] != mine["plural"]:
            theirs = _names(other["spec"])
            taken |= {theirs[field] for field, _ in _CLASHES} | set(theirs.get("shortNames") or ())
    for field, word in _CLASHES:
        if mine[field] in taken:
            found = f"{word}Conflict", f'"{mine[field]}" is already in use'
    return found


def problems(crd: Object) -> list[FieldProblem]:
    """Problems of a definition that has its defaults."""
    return [*_of_names(crd), *_of_versions(crd["spec"]), *_checked(crd["spec"])]


def _of_names(crd: Object) -> Iterator[FieldProblem]:
    spec, name = crd["spec"], crd["metadata"].get("name", "")
    names = spec["names"]
    if name != f"{names.get('plural', '')}.{spec.get('group', '')}":
        yield invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    for field in ("group", "scope"):
        if not spec.get(field):
            yield required(f"spec.{field}")
    if spec.get("scope") and spec["scope"] not in _SCOPES:
        yield unsupported_value("spec.scope", spec["scope"], _SCOPES)
    for field in ("plural", "singular", "kind", "listKind"):
        yield from _of_name(names.get(field, ""), f"spec.names.{field}", mixed=field.lower().endswith("kind"))


def _of_name(name: str, field: str, *, mixed: bool) -> Iterator[FieldProblem]:
    if not name:
        yield required(field)
    elif not _LABEL(name.lower() if mixed else name):
        said = f"may have mixed case, but should otherwise match: {_NO_LABEL}" if mixed else _NO_LABEL
        yield invalid_value(field, name, said)


_SCOPES = ("Cluster", "Namespaced")
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?").fullmatch
_NO_LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


def _of_versions(spec: Object) -> Iterator[FieldProblem]:
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        if not _LABEL(version.get("name", "")):
            yield invalid_value(f"spec.versions[{index}].name", version.get("name", ""), _NO_LABEL)
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid_value("spec.versions", _told(versions), "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid_value("spec.versions", _told(versions), "must have exactly one version marked as storage version")


def _told(versions: Sequence[Object]) -> list[str]:
    return [version.get("name", "") for version in versions]


def _of_schemas(spec: Mapping[str, Any]) -> Iterator[FieldProblem]:
    schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in spec.get("versions") or []]
    shared = all(schema == schemas[0] for schema in schemas)  # a shared schema is reported at the field of v1beta1
    for index, schema in enumerate(schemas[:1] if shared else schemas):
        if schema is None:
            yield required(f"spec.versions[{index}].schema.openAPIV3Schema")
            continue
        where = "spec.validation.openAPIV3Schema" if shared else f"spec.versions[{index}].schema.openAPIV3Schema"
        if schema.get("type") != "object":
            yield invalid_value(f"{where}.type", schema.get("type", ""), "must be object at the root")
        yield from _of_schema(schema, where, root=True)


_checked = Remembered(lambda spec: tuple(_of_schemas(spec)))
"""Cached, as it compiles all rules and validates all defaults, and most clusters have the same definitions."""


def _of_schema(schema: Mapping[str, Any], where: str, *, root: bool = False) -> Iterator[FieldProblem]:
    """Problems of a schema: parts that are not structural, invalid rules and invalid defaults."""
    free = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not root and not schema.get("type") and not free:
        yield required(f"{where}.type", "must not be empty for specified object fields")
    if schema.get("type") == "array" and not schema.get("items"):
        yield required(f"{where}.items", "must be specified")
    if schema.get("properties") and schema.get("additionalProperties"):
        said = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield FieldProblem("FieldValueForbidden", f"{where}.additionalProperties", said)
    yield from _of_keys(schema, where)
    yield from _of_rules(schema, where)
    yield from _of_default(schema, where)
    for inner, path in _below(schema, where):
        yield from _of_schema(inner, path)


def _below(schema: Mapping[str, Any], where: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    for name, inner in schema.get("properties", {}).items():
        yield inner, f"{where}.properties[{name}]"
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), Mapping):
            yield schema[keyword], f"{where}.{keyword}"


def _of_keys(schema: Mapping[str, Any], where: str) -> Iterator[FieldProblem]:
    if schema.get("x-kubernetes-list-type") != "map":
        return
    field, keys = f"{where}.x-kubernetes-list-map-keys", schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        yield required(field, "must not be empty if x-kubernetes-list-type is map")
    elif not set(keys) <= schema.get("items", {}).get("properties", {}).keys():
        yield invalid_value(field, keys, "entries must all be names of item properties")


def _of_rules(schema: Mapping[str, Any], where: str) -> Iterator[FieldProblem]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        try:
            cel.compiled(rule["rule"])
        except ValueError as error:
            field = f"{where}.x-kubernetes-validations[{index}].rule"
            yield invalid_value(field, rule, f"compilation failed: {error}")


def _of_default(schema: Mapping[str, Any], where: str) -> Iterator[FieldProblem]:
    if "default" not in schema:
        return
    inside = Schema({"type": "object", "properties": {"default": {**schema, "x-kubernetes-validations": []}}})
    for problem in inside.problems({"default": schema["default"]}, None):
        yield FieldProblem(problem.reason, f"{where}.default", problem.message.replace("default in body", " in body"))
