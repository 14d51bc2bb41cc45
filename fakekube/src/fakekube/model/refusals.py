"""Errors of an API server: one function per reason, with Kubernetes' codes, messages and details."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from fakekube.model.resources import Resource
from fakekube.model.wire import Json, Refused

__all__ = [
    "FieldLike",
    "Problem",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "forbidden_value",
    "immutable",
    "invalid",
    "invalid_options",
    "invalid_value",
    "method_not_allowed",
    "modified",
    "not_found",
    "required",
    "too_large",
    "too_large_version",
    "unknown_path",
    "unsupported_value",
]


class FieldLike(Protocol):
    """A problem of one field: `reason` as in a cause (FieldValueInvalid, ...), and the message without the field."""

    @property
    def reason(self) -> str: ...
    @property
    def field(self) -> str: ...
    @property
    def message(self) -> str: ...


class Problem(NamedTuple):
    """A problem of one field."""

    reason: str
    field: str
    message: str


def invalid_value(field: str, value: Json, detail: str) -> Problem:
    return Problem("FieldValueInvalid", field, f"Invalid value: {shown(value)}: {detail}")


def required(field: str, detail: str = "") -> Problem:
    return Problem("FieldValueRequired", field, f"Required value: {detail}" if detail else "Required value")


def forbidden_value(field: str, detail: str) -> Problem:
    return Problem("FieldValueForbidden", field, f"Forbidden: {detail}")


def unsupported_value(field: str, value: Json, supported: Iterable[str]) -> Problem:
    listed = ", ".join(json.dumps(each) for each in supported)
    return Problem("FieldValueNotSupported", field, f"Unsupported value: {shown(value)}: supported values: {listed}")


def immutable(field: str, value: Json) -> Problem:
    return invalid_value(field, value, "field is immutable")


def shown(value: Json) -> str:
    """A value as it appears in an error. A missing value is Go's null."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def not_found(resource: Resource, name: str) -> Refused:
    return Refused(404, "NotFound", f"{_noun(resource)} {_quoted(name)} not found", details=_details(resource, name))


def already_exists(resource: Resource, name: str, *, is_dying: bool = False) -> Refused:
    prefix = "object is being deleted: " if is_dying else ""
    message = f"{prefix}{_noun(resource)} {_quoted(name)} already exists"
    return Refused(409, "AlreadyExists", message, details=_details(resource, name))


def conflict(resource: Resource, name: str, why: str, *, noun: str = "") -> Refused:
    """A 409. `noun` replaces the plural in the message."""
    called = noun or resource.plural
    qualified = f"{called}.{resource.group}" if resource.group else called
    message = f"Operation cannot be fulfilled on {qualified} {_quoted(name)}: {why}"
    return Refused(409, "Conflict", message, details={**_details(resource, name), "kind": called})


def modified(resource: Resource, name: str) -> Refused:
    """The 409 for an outdated resource version."""
    why = "the object has been modified; please apply your changes to the latest version and try again"
    return conflict(resource, name, why)


def forbidden(resource: Resource, name: str, why: str, causes: Iterable[tuple[str, str, str]] = ()) -> Refused:
    who = f"{_noun(resource)} {_quoted(name)}" if name else _noun(resource)
    message = f"{who} is forbidden: {why}"
    return Refused(403, "Forbidden", message, details=_details(resource, name), causes=tuple(causes))


def invalid(group: str, kind: str, name: str, problems: Iterable[FieldLike]) -> Refused:
    found = list(problems)
    texts = list(dict.fromkeys(f"{each.field}: {each.message}" for each in found))
    said = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    details = {key: value for key, value in (("name", name), ("group", group), ("kind", kind)) if value}
    causes = [(each.reason, each.message, each.field) for each in found]
    message = f"{qualified} {_quoted(name)} is invalid: {said}"
    return Refused(422, "Invalid", message, details=details, causes=causes)


def invalid_options(kind: str, problems: Iterable[FieldLike]) -> Refused:
    """The 422 for invalid query parameters or options in the body."""
    return invalid("meta.k8s.io", kind, "", problems)


def bad_request(message: str) -> Refused:
    return Refused(400, "BadRequest", message)


def unknown_path() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def method_not_allowed() -> Refused:
    message = "the server does not allow this method on the requested resource"
    return Refused(405, "MethodNotAllowed", message)


def too_large(limit: int) -> Refused:
    return Refused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def expired(message: str, *, token: str = "") -> Refused:
    """The 410 for an expired version or token. `token` continues the list, without consistency with its first pages."""
    return Refused(410, "Expired", message, metadata={"continue": token} if token else {})


def too_large_version(wanted: int, current: int) -> Refused:
    """The 504 for a resource version that this server has not reached."""
    message = f"Too large resource version: {wanted}, current: {current}"
    causes = [("ResourceVersionTooLarge", "Too large resource version", "")]
    return Refused(504, "Timeout", f"Timeout: {message}", causes=causes, retry_after=1)


def _noun(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def _details(resource: Resource, name: str) -> dict[str, Any]:
    group = {"group": resource.group} if resource.group else {}
    return ({"name": name} if name else {}) | group | {"kind": resource.plural}


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
