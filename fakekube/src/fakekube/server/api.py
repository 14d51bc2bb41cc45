"""The API server: from a request to an answer or a watch."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from fakekube.model.refusals import bad_request, method_not_allowed, not_found, unknown_path
from fakekube.model.resources import Registry
from fakekube.model.storage import Storage
from fakekube.model.wire import Refused, Request, Response, Watch
from fakekube.server.admission.admission import Admission
from fakekube.server.printers import discovery, openapi
from fakekube.server.requests.options import is_true
from fakekube.server.requests.routes import Route, Router
from fakekube.server.server import LoopScheduler, Scheduler, Server, Virtual
from fakekube.server.verbs import deletion, patching, reads, subresources, writes
from fakekube.server.verbs.scale import scale
from fakekube.server.verbs.subresources import Subresource
from fakekube.server.verbs.watches import Watches

__all__ = ["Api"]

_TEXT = "text/plain; charset=utf-8"
_HEALTH = frozenset({"/healthz", "/livez", "/readyz"})

_Write = Callable[[Server, Route, Request], Awaitable[Response | Watch]]
_OF_MANY: Mapping[str, tuple[str, _Write]] = {
    "POST": ("create", writes.create),
    "DELETE": ("deletecollection", deletion.delete_many),
}
_OF_ONE: Mapping[str, tuple[str, _Write]] = {
    "PUT": ("update", writes.update),
    "PATCH": ("patch", patching.patch),
    "DELETE": ("delete", deletion.delete),
}


class Api:
    """Answers requests from a registry and a storage.

    Without admission webhooks `handle` never waits: it returns at its first step. `virtual` has kinds that are answered
    instead of stored, by (group, plural); `subresources` has handlers by `Resource.storage` and subresource.
    """

    def __init__(
        self,
        registry: Registry,
        storage: Storage,
        *,
        now: Callable[[], datetime],
        rng: random.Random,
        scheduler: Scheduler | None = None,
        admission: Admission | None = None,
        managed_fields: bool = True,
        virtual: Mapping[tuple[str, str], Virtual] | None = None,
        subresources: Mapping[tuple[str, str], Subresource] | None = None,
    ) -> None:
        self.server = Server(
            registry=registry,
            storage=storage,
            now=now,
            rng=rng,
            scheduler=scheduler or LoopScheduler(),
            admission=admission,
            managed_fields=managed_fields,
            virtual=virtual or {},
        )
        self.watches = Watches(self.server)
        self.router = Router(registry)
        self._subresources = {**_SUBRESOURCES, **(subresources or {})}

    async def handle(self, request: Request) -> Response | Watch:
        """Answer a request. A refusal is an answer too."""
        try:
            route = self.router.find(request.path)
            if route is None:
                return self._elsewhere(request)
            if request.method == "GET":
                return await self._read(route, request)
            return await self._write(route, request)
        except Refused as refusal:
            return refusal.response()

    async def _read(self, route: Route, request: Request) -> Response | Watch:
        if route.name:
            if route.subresource and not _has_status(route):
                return await self._special(route, request)
            _check(route, "get")
            return reads.get(self.server, route, request)
        if is_true(request.query.get("watch")):
            _check(route, "watch")
            return self.watches.open(route, request)
        _check(route, "list")
        return reads.list_(self.server, route, request)

    async def _write(self, route: Route, request: Request) -> Response | Watch:
        if route.subresource and not _has_status(route):
            return await self._special(route, request)
        verb, write = (_OF_ONE if route.name else _OF_MANY).get(request.method, ("", None))
        if write is None or (route.subresource and verb == "delete"):
            raise _unsupported(route, request.method)
        _check(route, verb)
        if not route.name and route.resource.namespaced and not route.namespace:
            raise unknown_path() if route.resource.custom else method_not_allowed()
        virtual = self.server.virtual.get((route.resource.group, route.resource.plural))
        if virtual is not None:
            return subresources.answered(route, request, virtual)
        return await write(self.server, route, request)

    async def _special(self, route: Route, request: Request) -> Response | Watch:
        if route.subresource not in route.resource.subresources:
            raise not_found(route.resource, route.name)
        if route.subresource == "scale" and route.resource.scale is not None:
            return await scale(self.server, route, request)
        handler = self._subresources.get((route.resource.storage, route.subresource))
        if handler is None:
            raise unknown_path()
        return await handler(self.server, route, request)

    def _elsewhere(self, request: Request) -> Response:
        """The answer to a request for no resource."""
        if request.path in _HEALTH:
            return Response(body=b"ok", content_type=_TEXT)
        registry = self.server.registry
        answer = discovery.answer(registry, request) or openapi.answer(registry, request)
        if answer is not None:
            return answer
        match request.path.strip("/").split("/"):
            case ["api", _, *_]:
                raise unknown_path()
            case ["apis", group, version, _, *_] if any(
                (each.group, each.version) == (group, version) for each in registry
            ):
                raise unknown_path()
        return Response(status=404, body=b"404 page not found\n", content_type=_TEXT)


_SUBRESOURCES: Mapping[tuple[str, str], Subresource] = {
    ("namespaces.", "finalize"): subresources.finalize,
    ("pods.", "log"): subresources.log,
}


def _has_status(route: Route) -> bool:
    """Whether the request is for the status subresource of a kind that has one."""
    return route.is_status and route.subresource in route.resource.subresources


def _unsupported(route: Route, method: str) -> Refused:
    """The error for a method that a resource does not support; custom kinds have messages of their own."""
    if not route.resource.custom:
        return method_not_allowed()
    if not route.name and method in _OF_ONE:
        return bad_request("name must be provided")
    noun = f"{route.resource.plural}.{route.resource.group}"
    verb = "create" if method == "POST" else ""
    details = {"group": route.resource.group, "kind": route.resource.plural}
    message = f'{verb} is not supported on resources of kind "{noun}"'
    return Refused(405, "MethodNotAllowed", message, details=details)


def _check(route: Route, verb: str) -> None:
    if verb not in route.resource.verbs:
        raise method_not_allowed()
