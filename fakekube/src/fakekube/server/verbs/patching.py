"""Patches: the types that a resource accepts, and their application to the live object."""

from __future__ import annotations

from typing import Any

import msgspec

from fakekube.model import metadata
from fakekube.model.bodies import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    check_size,
    media_type,
    parsed_yaml,
    unknown_format,
)
from fakekube.model.refusals import (
    bad_request,
    immutable,
    invalid,
    invalid_options,
    invalid_value,
    modified,
    not_found,
    required,
)
from fakekube.model.resources import Resource
from fakekube.model.values.golang import json_kind
from fakekube.model.wire import Json, Object, Refused, Request, Response
from fakekube.server.patching import managed, patches
from fakekube.server.printers.tables import wanted
from fakekube.server.requests.options import write_options
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server
from fakekube.server.verbs.calls import Call
from fakekube.server.verbs.places import placed
from fakekube.server.verbs.writes import Make, change, make

__all__ = ["patch"]

_decode = msgspec.json.Decoder().decode


async def patch(server: Server, route: Route, request: Request) -> Response:
    options = write_options(request, "PatchOptions")
    call = Call(server=server, route=route, request=request, options=options, form=wanted(request.accept))
    kind = media_type(request.content_type)
    if kind == APPLY_PATCH:
        return await _apply(call)
    laid = _laid(kind, route.resource, request)
    return await change(call, lambda live: _patched(call, laid(live), live))


def _laid(kind: str, resource: Resource, request: Request) -> Make:
    """The function of a patch of this type. Raises Refused: 400, 415."""
    if kind not in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH) or (kind == STRATEGIC_PATCH and resource.custom):
        accepted = (JSON_PATCH, MERGE_PATCH, *(() if resource.custom else (STRATEGIC_PATCH,)), APPLY_PATCH)
        raise unknown_format(", ".join(accepted))
    content = _content(request.body)
    if kind == JSON_PATCH:
        return lambda live: patches.json_patch(live, content)
    if not isinstance(content, dict):
        wrong = f"json: cannot unmarshal {json_kind(content)} into Go value of type map[string]interface {{}}"
        raise bad_request(wrong if kind == STRATEGIC_PATCH else f"error decoding patch: {wrong}")
    if kind == MERGE_PATCH:
        return lambda live: patches.merge_patch(live, content)
    return lambda live: patches.strategic_merge(live, content, resource.schema)


def _content(body: bytes) -> Json:
    check_size(body)
    try:
        return _decode(body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None


def _patched(call: Call, item: Object, live: Object) -> Object:
    """A patched live object, decoded and checked like an object in a request."""
    item = _typed(item, call.resource, call.route.name)
    try:
        decoded = call.decoded(item, live)
    except Refused as error:
        raise _unfit(item, error) from None
    call.check_name(decoded)
    return placed(call.route, decoded)


def _unfit(item: Object, error: Refused) -> Refused:
    """The error for an undecodable result, which is an error in the patch."""
    if error.code != 400 or "strict decoding error" in error.message:
        return error
    return invalid("", "", "", [invalid_value("patch", msgspec.json.encode(item).decode(), error.message)])


def _typed(item: Object, resource: Resource, name: str) -> Object:
    """The patched object. Raises Refused (422) if kind or version changed."""
    kind, version = item.get("kind"), item.get("apiVersion")
    if kind == resource.kind and version == resource.api_version:
        return item
    if not resource.custom:
        why = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        raise invalid("", "", "", [invalid_value("patch", msgspec.json.encode(item).decode(), why)])
    if kind != resource.kind:
        problem = invalid_value("kind", kind, f"must be {resource.kind}")
        raise invalid(resource.group, str(kind or ""), name, [problem])
    group = str(version or "").rpartition("/")[0]
    raise invalid(group, resource.kind, name, [invalid_value("apiVersion", version, f"must be {resource.api_version}")])


async def _apply(call: Call) -> Response:
    """Server-side apply. Creates a missing object."""
    if not call.options.manager:
        raise invalid_options("PatchOptions", [required("fieldManager", "is required for apply patch")])
    given = _applied_object(call)
    # An empty resource version differs from a missing one.
    unversioned = given["metadata"].get("resourceVersion") == ""
    applied = _applicable(call, given)
    if call.server.storage.get(call.resource.storage, call.route.key) is None:
        return await _apply_new(call, applied)
    version = applied["metadata"].get("resourceVersion")

    def made(live: Object) -> Object:
        if version and version != live["metadata"]["resourceVersion"]:
            raise modified(call.resource, call.route.name)
        result = _applied(call, live, applied)
        if result is live and not unversioned:
            return live
        read = placed(call.route, _converted(call, result, live))
        return {**read, "metadata": {**read["metadata"], "resourceVersion": ""}} if unversioned else read

    return await change(call, made, tracked=True)


def _applied_object(call: Call) -> Object:
    check_size(call.request.body)
    applied = parsed_yaml(call.request.body)
    if not isinstance(applied, dict):
        raise bad_request(f"error decoding YAML: json: cannot unmarshal {json_kind(applied)} into an object")
    if applied.get("kind") != call.resource.kind:
        group, _, version = str(applied.get("apiVersion", "")).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={applied.get('kind', '')}")
    if not isinstance(applied.get("metadata"), dict):
        applied = {**applied, "metadata": {}}
    call.check_name(applied)
    return applied


async def _apply_new(call: Call, applied: Object) -> Response:
    if call.route.subresource:
        raise not_found(call.resource, call.route.name)
    given: dict[str, Any] = {**applied["metadata"], "name": call.route.name}
    given.pop("resourceVersion", None)
    if uid := given.get("uid"):
        raise invalid(call.resource.group, call.resource.kind, call.route.name, [immutable("metadata.uid", uid)] * 2)
    item = _applied(call, None, {**applied, "metadata": given})
    return await make(call, placed(call.route, _converted(call, item)), tracked=True)


def _applicable(call: Call, given: Object) -> Object:
    """The applied object with metadata of the right types. Raises Refused: 400 for another namespace, 500."""
    if unknown := metadata.unknown_fields(given):
        raise _untyped(call, f".{unknown[0]}: field not declared in schema")
    try:
        applied = metadata.cleaned(given, call.resource)
    except Refused as error:
        raise _untyped(call, error.message) from None
    placed(call.route, applied)
    return applied


def _untyped(call: Call, why: str) -> Refused:
    return Refused(500, "", f"failed to create typed patch object ({_named(call)}): {why}")


def _converted(call: Call, item: Object, live: Object | None = None) -> Object:
    """The decoded result of an apply. Raises Refused: 500, as an undecodable result is the server's error here."""
    try:
        return call.decoded(item, live)
    except Refused as error:
        if error.code != 400 or call.resource.custom:
            raise
        what = f"failed to convert new object ({_named(call)}) to proper version: "
        raise Refused(500, "", f"{what}unable to convert unstructured object: {error.message}") from None


def _named(call: Call) -> str:
    group_version = f"{call.resource.group}/{call.resource.version}"
    return f"/{call.route.name}; {group_version}, Kind={call.resource.kind}"


def _applied(call: Call, live: Object | None, applied: Object) -> Object:
    return managed.apply(
        live,
        applied,
        manager=call.options.manager,
        force=call.options.force,
        api_version=call.resource.api_version,
        subresource=call.route.subresource,
        schema=call.resource.schema,
        now=call.server.now(),
        resets=call.resets,
    )
