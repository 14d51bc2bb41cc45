"""A worker's API server over HTTP, as far as a connection needs one: tokens that are good, lists, watches that stay open.

Not fakekube, for these tests are about what goes over sockets: a token per request of each connection while credentials
change, a server that accepts and never answers, watches that end on a version that is forgotten.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web

from tests.kube.server import event, refuses, says, serving


@dataclass
class WorkerServer:
    """`asked` lists what came in, as token, method and path; a watch is `WATCH`. `lacks` are kinds it does not have, `shows`
    the namespaces that may be looked at (None: all, also at once). `uid` is that of its kube-system, which may not be read
    where that is empty."""

    tokens: set[str] = field(default_factory=lambda: {"one"})
    objects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    hangs: bool = False
    lacks: set[str] = field(default_factory=set)
    shows: set[str] | None = None
    uid: str = ""
    url: str = ""
    _news: anyio.Event = field(default_factory=anyio.Event)
    _is_over: bool = False
    _gone: list[dict[str, Any]] = field(default_factory=list)
    version: int = 100

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        watch = request.query.get("watch") == "true"
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.append((token, "WATCH" if watch else request.method, request.path))
        if self.hangs:
            await anyio.sleep_forever()
        if token not in self.tokens:
            return await refuses(401, "Unauthorized")(request)
        plural = request.path.rsplit("/", 1)[-1]
        if plural in self.lacks:
            return await refuses(404, "NotFound")(request)
        if plural == "kube-system":
            answer = says({"metadata": {"name": plural, "uid": self.uid}}) if self.uid else refuses(403, "Forbidden")
            return await answer(request)
        if request.path == "/api":
            return await says({})(request)
        namespace = request.path.partition("/namespaces/")[2].partition("/")[0]
        if self.shows is not None and namespace not in self.shows:
            return await refuses(403, "Forbidden")(request)
        if watch:
            return await self._watch(request, plural)
        items = [o for o in self.objects.get(plural, []) if namespace in ("", o["metadata"]["namespace"])]
        return await says({"metadata": {"resourceVersion": str(self.version)}, "items": items})(request)

    async def _watch(self, request: web.BaseRequest, plural: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await self._news.wait()
        if self._is_over:
            await response.write(json.dumps(event("ERROR", {"kind": "Status", "code": 410})).encode() + b"\n")
            return response
        for body in self._gone:
            if body["kind"].lower() + "s" == plural:
                await response.write(json.dumps(event("DELETED", body)).encode() + b"\n")
        await anyio.sleep_forever()
        raise AssertionError

    def put(self, kind: str, name: str, uid: str, *, namespace: str = "team") -> None:
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.version)}
        self.objects.setdefault(kind.lower() + "s", []).append({"kind": kind, "metadata": metadata, "spec": {}})

    def drop(self, kind: str, name: str) -> None:
        """It is deleted, and those who watch are told."""
        self.version += 1
        plural = kind.lower() + "s"
        found = [body for body in self.objects[plural] if body["metadata"]["name"] == name]
        self.objects[plural] = [body for body in self.objects[plural] if body not in found]
        self._gone += [body | {"metadata": body["metadata"] | {"resourceVersion": str(self.version)}} for body in found]
        self._news.set()

    def restart(self) -> None:
        """Watches end, and who watched has to list again."""
        before, self._news = self._news, anyio.Event()
        self._is_over = True
        before.set()

    def uses(self, token: str) -> list[str]:
        """What was asked with a token: methods and plurals."""
        return [f"{method} {path.rsplit('/', 1)[-1]}" for used, method, path in self.asked if used == token]


@asynccontextmanager
async def worker_server(*tokens: str, uid: str = "") -> AsyncIterator[WorkerServer]:
    server = WorkerServer(set(tokens or ("one",)), uid=uid)
    async with serving(server) as server.url:
        yield server
