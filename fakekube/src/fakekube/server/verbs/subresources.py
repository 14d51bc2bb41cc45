"""Subresources that are not part of the object, and kinds that are answered instead of stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from fakekube.model.bodies import body_object
from fakekube.model.refusals import method_not_allowed
from fakekube.model.wire import Request, Response, Watch
from fakekube.server.printers.tables import wanted
from fakekube.server.requests import answers
from fakekube.server.requests.routes import Route
from fakekube.server.server import Server, Virtual
from fakekube.server.verbs.reads import present

__all__ = ["Subresource", "answered", "finalize", "log"]

Subresource = Callable[[Server, Route, Request], Awaitable[Response | Watch]]
"""Answers all requests to one subresource of a kind, by a stream of lines if it is one. Raises Refused."""


def answered(route: Route, request: Request, virtual: Virtual) -> Response:
    """The answer to a create of an object that is not stored."""
    item = {"metadata": {}, **body_object(request, route.resource)}
    return Response(status=201, body=msgspec.json.encode(virtual(item, request)))


async def finalize(server: Server, route: Route, request: Request) -> Response:
    """Replace the finalizers in a namespace's spec. A terminating namespace is removed with its last finalizer."""
    if request.method != "PUT":
        raise method_not_allowed()
    wanted_ = body_object(request, route.resource).get("spec") or {}
    current = present(server, route)
    finalizers = {"finalizers": wanted_["finalizers"]} if wanted_.get("finalizers") else {}
    new = {**current.object, "spec": finalizers}
    kept = route.resource.storage
    form, now = wanted(request.accept), server.now()
    if "deletionTimestamp" in new["metadata"] and server.rules(route.resource).is_done(new):
        server.storage.remove(kept, current.key, new)
        return answers.item(route.resource, new, form, now=now)
    if new == current.object:
        return answers.item(route.resource, current, form, now=now)
    return answers.item(route.resource, server.storage.put(kept, current.key, new), form, now=now)


async def log(server: Server, route: Route, request: Request) -> Response:
    """The log of a pod: a fixed text, as no containers run here."""
    if request.method != "GET":
        raise method_not_allowed()
    pod = present(server, route).object
    text = f"fakekube runs no containers: pod {pod['metadata']['name']} has nothing to say.\n"
    return Response(body=text.encode(), content_type="text/plain")
