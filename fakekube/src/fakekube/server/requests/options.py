"""Options of requests, in the query or, for deletions, in the body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from fakekube.model.bodies import APPLY_PATCH, parsed
from fakekube.model.refusals import (
    Problem,
    bad_request,
    forbidden_value,
    invalid_options,
    invalid_value,
    unsupported_value,
)
from fakekube.model.wire import Refused, Request

__all__ = [
    "DeleteOptions",
    "ListOptions",
    "WriteOptions",
    "delete_options",
    "is_true",
    "list_options",
    "resource_version",
    "write_options",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a create, update or patch. `manager` owns the fields, `force` takes them from other owners."""

    dry_run: bool = False
    manager: str = ""
    validation: str = ""
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """Options of a deletion. `policy` is Background, Foreground or Orphan, or empty for the kind's default."""

    dry_run: bool = False
    policy: str = ""
    grace: int | None = None
    uid: str | None = None
    resource_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """Options of a list or a watch."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    version: str = ""
    match: str = ""
    timeout: int = 0
    bookmarks: bool = False
    initial_events: bool | None = None
    include: str = ""


def is_true(value: str | None) -> bool:
    """A boolean of a query as Go parses it: any text but these words is true."""
    return value is not None and value.lower() not in ("false", "0")


def _integer(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None


def resource_version(value: str) -> int:
    """A resource version as a number; 0 for an empty one. Raises Refused with kube-apiserver's peculiar 500."""
    if not value.isascii() or not value.isdigit():
        if not value:
            return 0
        raise Refused(500, "", f'resourceVersion: Invalid value: "{value}": {_unparsable(value)}')
    return int(value)


def _unparsable(value: str) -> str:
    return f'strconv.ParseUint: parsing "{value}": invalid syntax'


_NO_OPTIONS = WriteOptions()


def write_options(request: Request, kind: str) -> WriteOptions:
    """The options of a create, update or patch; `kind` is CreateOptions, UpdateOptions or PatchOptions. Raises Refused
    (422)."""
    query = request.query
    if not query:
        return _NO_OPTIONS
    manager, validation = query.get("fieldManager", ""), query.get("fieldValidation", "")
    dry_run = query.get("dryRun", "")
    problems = [*_dry_run_problems([dry_run] if dry_run else []), *_manager_problems(manager)]
    if validation not in ("", "Ignore", "Strict", "Warn"):
        problems.append(unsupported_value("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if "force" in query and request.content_type != APPLY_PATCH:
        problems.append(forbidden_value("force", "may not be specified for non-apply patch"))
    if problems:
        raise invalid_options(kind, problems)
    return WriteOptions(
        dry_run=bool(dry_run), manager=manager, validation=validation, force=is_true(query.get("force"))
    )


def _dry_run_problems(values: Sequence[str]) -> list[Problem]:
    if not values or set(values) == {"All"}:
        return []
    return [unsupported_value("dryRun", list(values), ["All"])]


def _manager_problems(manager: str) -> list[Problem]:
    if len(manager.encode()) > 128:
        return [Problem("FieldValueTooLong", "fieldManager", "Too long: may not be more than 128 bytes")]
    for index, sign in enumerate(manager):
        if not sign.isprintable():
            escaped = manager.encode("unicode_escape").decode()
            message = f'Invalid value: "{escaped}": invalid character U+{ord(sign):04X} (at position {index})'
            return [Problem("FieldValueInvalid", "fieldManager", message)]
    return []


_POLICIES = ("Foreground", "Background", "Orphan")


class _Preconditions(msgspec.Struct, rename="camel"):
    uid: str | None = None
    resource_version: str | None = None


class _Deletion(msgspec.Struct, rename="camel"):
    kind: str = "DeleteOptions"
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    grace_period_seconds: int | None = None
    dry_run: list[str] | None = None
    preconditions: _Preconditions | None = None


def delete_options(request: Request) -> DeleteOptions:
    """The options of a deletion, from the body, or from the query without a body. Raises Refused (400, 422)."""
    given = _deletion_in_body(request) if request.body else _deletion_in_query(request.query)
    problems = _dry_run_problems(given.dry_run or [])
    policy = given.propagation_policy
    if given.orphan_dependents is not None and policy is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        problems.append(invalid_value("propagationPolicy", policy, detail))
    elif policy is not None and policy not in _POLICIES:
        problems.append(unsupported_value("propagationPolicy", policy, [*_POLICIES, "nil"]))
    if problems:
        raise invalid_options("DeleteOptions", problems)
    if given.orphan_dependents is not None:
        policy = "Orphan" if given.orphan_dependents else "Background"
    wanted = given.preconditions or _Preconditions()
    return DeleteOptions(
        dry_run=bool(given.dry_run),
        policy=policy or "",
        grace=given.grace_period_seconds,
        uid=wanted.uid,
        resource_version=wanted.resource_version,
    )


def _deletion_in_body(request: Request) -> _Deletion:
    body = parsed(request.body, request.content_type)
    try:
        given = msgspec.convert(body, _Deletion)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions cannot be read: {error}") from None
    if given.kind != "DeleteOptions":
        raise bad_request(
            f'no kind "{given.kind}" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"'
        )
    return given


def _deletion_in_query(query: Mapping[str, str]) -> _Deletion:
    return _Deletion(
        propagation_policy=query.get("propagationPolicy"),
        orphan_dependents=is_true(query["orphanDependents"]) if "orphanDependents" in query else None,
        grace_period_seconds=_integer(query["gracePeriodSeconds"]) if "gracePeriodSeconds" in query else None,
        dry_run=[query["dryRun"]] if query.get("dryRun") else None,
    )


_NO_SELECTION = ListOptions()


def list_options(query: Mapping[str, str], *, watch: bool) -> ListOptions:
    """The options of a list or a watch. Raises Refused (400, 422)."""
    if not query:
        return _NO_SELECTION
    options = ListOptions(
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        limit=max(0, _integer(query.get("limit") or "0")),
        token=query.get("continue", ""),
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        timeout=max(0, _integer(query.get("timeoutSeconds") or "0")),
        bookmarks=is_true(query.get("allowWatchBookmarks")),
        initial_events=is_true(query["sendInitialEvents"]) if query.get("sendInitialEvents") else None,
        include=query.get("includeObject", ""),
    )
    if problems := _watch_problems(options) if watch else _list_problems(options):
        raise invalid_options("ListOptions", problems)
    return options


_MATCH = "resourceVersionMatch"


def _list_problems(options: ListOptions) -> list[Problem]:
    problems = []
    if options.match:
        if not options.version:
            problems.append(forbidden_value(_MATCH, f"{_MATCH} is forbidden unless resourceVersion is provided"))
        if options.token:
            problems.append(forbidden_value(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
        if options.match not in ("Exact", "NotOlderThan"):
            problems.append(unsupported_value(_MATCH, options.match, ["Exact", "NotOlderThan", ""]))
        if options.match == "Exact" and options.version == "0":
            problems.append(forbidden_value(_MATCH, f'{_MATCH} "exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        problems.append(forbidden_value("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


def _watch_problems(options: ListOptions) -> list[Problem]:
    problems = []
    if options.initial_events is not None and options.match != "NotOlderThan":
        problems.append(forbidden_value(_MATCH, f"sendInitialEvents requires setting {_MATCH} to NotOlderThan"))
    if options.match:
        if options.initial_events is None:
            detail = f"{_MATCH} is forbidden for watch unless sendInitialEvents is provided"
            problems.append(forbidden_value(_MATCH, detail))
        if options.match != "NotOlderThan":
            problems.append(unsupported_value(_MATCH, options.match, ["NotOlderThan"]))
    # kube-apiserver reports the other field too.
    if options.token:
        problems.append(forbidden_value(_MATCH, f"{_MATCH} is forbidden when continue is provided"))
    return problems
