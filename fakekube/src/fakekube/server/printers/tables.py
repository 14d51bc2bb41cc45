"""Answers in the form that the client accepts: objects, a Table for `kubectl get`, or metadata only.

`wanted` parses the Accept header, `one` and `many` convert an answer, `Lines` converts the lines of a watch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from fakekube.builtins.columns import BUILT_IN, CREATED_AT, NAME, Cell, since
from fakekube.model.resources import Column, Resource
from fakekube.model.wire import JSON, Json, Object, Refused
from fakekube.server.printers import jsonpath

__all__ = ["PLAIN", "Form", "Lines", "many", "one", "partial", "partial_list", "table", "wanted"]

YAML = "application/yaml"

_MEDIA = {"application/json": JSON, "application/yaml": YAML, "*/*": JSON, "application/*": JSON}
_TABLE, _PARTIAL, _PARTIAL_LIST = "Table", "PartialObjectMetadata", "PartialObjectMetadataList"
_KINDS = frozenset({_TABLE, _PARTIAL, _PARTIAL_LIST})


class Form(NamedTuple):
    """The form of an answer: media type, and target kind (empty for the object itself)."""

    media: str = JSON
    kind: str = ""
    version: str = "v1"

    @property
    def api_version(self) -> str:
        return f"meta.k8s.io/{self.version}"


PLAIN = Form()


@lru_cache(maxsize=1024)
def wanted(accept: str) -> Form:
    """The best supported form in an Accept header; PLAIN itself for JSON. Raises Refused (406) without any."""
    if not accept:
        return PLAIN
    clauses = [_Clause.parse(text) for text in accept.split(",")]
    for clause in sorted(clauses, key=lambda clause: -clause.quality):  # stable sort: header order among equals
        if form := clause.form():
            return PLAIN if form == PLAIN else form  # PLAIN itself, for comparisons by identity
    raise Refused(406, "NotAcceptable", f"only the following media types are accepted: {JSON}, {YAML}")


class _Clause(NamedTuple):
    """One alternative in an Accept header."""

    media: str
    parameters: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> _Clause:
        media, *parameters = (part.strip() for part in text.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        return cls(media.lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs})

    @property
    def quality(self) -> float:
        try:
            return float(self.parameters.get("q", "1"))
        except ValueError:
            return 0

    def form(self) -> Form | None:
        media, kind = _MEDIA.get(self.media), self.parameters.get("as", "")
        if media is None or not self.quality:
            return None
        if not kind:
            return Form(media)
        group, version = self.parameters.get("g"), self.parameters.get("v", "")
        if kind not in _KINDS or group != "meta.k8s.io" or version not in ("v1", "v1beta1"):
            return None
        return Form(media, kind, version)


def table(
    resource: Resource,
    items: Iterable[Object],
    *,
    now: datetime,
    list_metadata: Mapping[str, Any],
    include: str = "Metadata",
    headers: bool = True,
    version: str = "v1",
) -> Object:
    """A Table of the items. `include` is the query parameter includeObject: the object in each row besides its
    cells."""
    cells = _cells(resource)
    return {
        "kind": _TABLE,
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(list_metadata),
        "columnDefinitions": _definitions(cells) if headers else None,
        "rows": [
            {"cells": [cell.value(item, now) for cell in cells], "object": _carried(item, include, version)}
            for item in items
        ],
    }


def partial(item: Object, version: str = "v1") -> Object:
    """The object's metadata as PartialObjectMetadata."""
    return {"kind": _PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": item.get("metadata", {})}


def partial_list(items: Iterable[Object], *, list_metadata: Mapping[str, Any], version: str = "v1") -> Object:
    return {
        "kind": _PARTIAL_LIST,
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(list_metadata),
        "items": [partial(item, version) for item in items],
    }


def one(resource: Resource, item: Object, form: Form, *, now: datetime, include: str = "") -> Object:
    """One object in the form. Raises Refused (406) for a form of lists."""
    if form.kind == _TABLE:
        metadata = {"resourceVersion": item["metadata"].get("resourceVersion", "")}
        return table(resource, [item], now=now, list_metadata=metadata, include=_include(include), version=form.version)
    if form.kind == _PARTIAL_LIST:
        raise _unfit(form, f"is not a list ({resource.kind})")
    return partial(item, form.version) if form.kind else item


def many(
    resource: Resource,
    items: Sequence[Object],
    form: Form,
    *,
    now: datetime,
    list_metadata: Mapping[str, Any],
    include: str = "",
) -> Object:
    """A list in the form. Raises Refused (406) for a form of single objects."""
    if form.kind == _TABLE:
        return table(
            resource, items, now=now, list_metadata=list_metadata, include=_include(include), version=form.version
        )
    if form.kind == _PARTIAL:
        raise _unfit(form, f"is a list ({resource.list_kind})")
    if form.kind == _PARTIAL_LIST:
        return partial_list(items, list_metadata=list_metadata, version=form.version)
    return {
        "kind": resource.list_kind,
        "apiVersion": resource.api_version,
        "metadata": dict(list_metadata),
        "items": list(items),
    }


class Lines:
    """The objects of one watch in the form. Only the first Table has column definitions."""

    def __init__(self, resource: Resource, form: Form, *, include: str = "") -> None:
        if form.kind == _PARTIAL_LIST:
            raise _unfit(form, f"is not a list ({resource.kind})")
        self._resource, self._form, self._include = resource, form, _include(include)
        self._headers = True

    def object(self, kind: str, item: Object, now: datetime) -> Object:
        """The object of one line; `kind` is the line's type (ADDED, BOOKMARK, ...)."""
        if kind == "ERROR" or not self._form.kind:
            return item
        if self._form.kind == _PARTIAL:
            return partial(item, self._form.version)
        made = table(
            self._resource,
            () if kind == "BOOKMARK" else (item,),
            now=now,
            list_metadata={"resourceVersion": item["metadata"].get("resourceVersion", "")},
            include=self._include,
            headers=self._headers,
            version=self._form.version,
        )
        self._headers = False
        return made if kind != "BOOKMARK" else {**made, "rows": [self._bookmark(item)]}

    def _bookmark(self, item: Object) -> Object:
        """The row of a bookmark, whose object has no values for cells."""
        return {"cells": [""] * len(_cells(self._resource)), "object": partial(item, self._form.version)}


def _unfit(form: Form, why: str) -> Refused:
    return Refused(406, "NotAcceptable", f"you requested {form.kind}, but the requested object {why}")


def _include(asked: str) -> str:
    if asked not in ("", "None", "Metadata", "Object"):
        raise Refused(400, "BadRequest", f'unrecognized includeObject value: "{asked}"')
    return asked or "Metadata"


def _carried(item: Object, include: str, version: str) -> Object | None:
    if include == "None":
        return None
    return item if include == "Object" else partial(item, version)


def _definitions(cells: tuple[Cell, ...]) -> list[Object]:
    return [
        {
            "name": cell.name,
            "type": cell.type,
            "format": cell.format,
            "description": cell.description,
            "priority": cell.priority,
        }
        for cell in cells
    ]


_CUSTOM_AGE = Column("Age", ".metadata.creationTimestamp", type="date")


def _cells(resource: Resource) -> tuple[Cell, ...]:
    if resource.custom or resource.columns:
        return _custom(resource.columns)
    return BUILT_IN.get(resource.storage, (NAME, CREATED_AT))


@lru_cache(maxsize=1024)
def _custom(columns: tuple[Column, ...]) -> tuple[Cell, ...]:
    """Cells for a definition's printer columns; by default the age."""
    return (NAME, *(_cell(column) for column in columns or (_CUSTOM_AGE,)))


def _cell(column: Column) -> Cell:
    description = column.description or f"Custom resource definition column (in JSONPath format): {column.path}"
    try:
        find = jsonpath.compiled(column.path)
    except jsonpath.Unreadable:
        find = _nowhere  # as kube-apiserver, which reports the error in the definition's status and shows nothing
    shown = _SHOWN.get(column.type, _nothing)

    def value(item: Object, now: datetime) -> Json:
        found = find(item)
        return shown(found[0], now) if found and found[0] is not None else None

    return Cell(column.name, value, column.type, column.priority, column.format, description)


def _nowhere(_value: Any) -> list[Any]:
    return []


def _nothing(_value: Any, _now: datetime) -> Json:
    return None


def _string(value: Any, _now: datetime) -> Json:
    return jsonpath.printed(value)


def _integer(value: Any, _now: datetime) -> Json:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(value: Any, _now: datetime) -> Json:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _now: datetime) -> Json:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> Json:
    return since(value, now) if isinstance(value, str) else None


_SHOWN = {"string": _string, "integer": _integer, "number": _number, "boolean": _boolean, "date": _date}
