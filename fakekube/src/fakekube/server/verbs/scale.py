"""The subresource `scale` of custom kinds: desired and actual size, at the paths that the kind declares."""

from __future__ import annotations

from typing import Any

import msgspec

from fakekube.model.bodies import JSON_PATCH, MERGE_PATCH, media_type, parsed, unknown_format
from fakekube.model.refusals import bad_request, invalid, invalid_value, method_not_allowed
from fakekube.model.storage import Version
from fakekube.model.wire import Json, Object, Request, Response
from fakekube.server.patching import patches
from fakekube.server.printers.tables import PLAIN
from fakekube.server.requests.conversion import shown
from fakekube.server.requests.options import write_options
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server
from fakekube.server.verbs.calls import Call
from fakekube.server.verbs.reads import present
from fakekube.server.verbs.writes import change

__all__ = ["scale"]

_decode = msgspec.json.Decoder().decode


async def scale(server: Server, route: Route, request: Request) -> Response:
    """Answer a request for the scale of an object. Raises Refused."""
    if request.method == "GET":
        return _answer(route, present(server, route))
    if request.method not in ("PUT", "PATCH"):
        raise method_not_allowed()
    options = write_options(request, "PatchOptions" if request.method == "PATCH" else "UpdateOptions")
    call = Call(server=server, route=route, request=request, options=options, form=PLAIN)
    content = _content(request)
    done = await change(call, lambda live: _resized(route, live, request, content))
    assert done.status == 200, "a scale is never made"
    return _answer(route, present(server, route)) if not options.dry_run else _answer_of(route, _decode(done.body))


def _content(request: Request) -> Json:
    if request.method == "PUT":
        return parsed(request.body, request.content_type)
    if media_type(request.content_type) not in (MERGE_PATCH, JSON_PATCH):
        raise unknown_format(f"{JSON_PATCH}, {MERGE_PATCH}")
    try:
        return _decode(request.body)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None


def _resized(route: Route, live: Object, request: Request, content: Json) -> Object:
    """The object with the size of the new scale."""
    before = _scale_of(route, live)
    if request.method == "PUT":
        after = content
    elif media_type(request.content_type) == JSON_PATCH:
        after = patches.json_patch(before, content)
    else:
        after = patches.merge_patch(before, content)
    size = (after.get("spec") or {}).get("replicas", 0)
    if not isinstance(size, int) or size < 0:
        problem = invalid_value("spec.replicas", size, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", route.name, [problem])
    assert route.resource.scale is not None, "who has a scale says where"
    metadata = {**live["metadata"], "resourceVersion": after.get("metadata", {}).get("resourceVersion", "")}
    if not metadata["resourceVersion"]:
        metadata = live["metadata"]
    return _with({**live, "metadata": metadata}, route.resource.scale[0].split("."), size)


def _with(item: Object, steps: list[str], value: Json) -> Object:
    step, *rest = steps
    return {**item, step: _with(item.get(step) or {}, rest, value) if rest else value}


def _answer(route: Route, version: Version) -> Response:
    return _answer_of(route, shown(route.resource, version.object))


def _answer_of(route: Route, item: Object) -> Response:
    return Response(body=msgspec.json.encode(_scale_of(route, item)))


def _scale_of(route: Route, item: Object) -> Object:
    assert route.resource.scale is not None, "who has a scale says where"
    wanted, found, selector = (_at(item, path) for path in route.resource.scale)
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata = {name: item["metadata"][name] for name in names if name in item["metadata"]}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": wanted} if wanted else {},
        "status": {"replicas": found or 0} | ({"selector": selector} if selector else {}),
    }


def _at(item: Object, path: str) -> Any:
    """The value at a path; None if it is missing or the path is empty."""
    value: Any = item if path else None
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value
