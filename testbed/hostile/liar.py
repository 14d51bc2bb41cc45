"""An HTTPS proxy before a worker's API server, which passes requests on until a case has it lie."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self

import aiohttp
from aiohttp import web

from testbed.objects import Object
from testbed.plane import ControlPlane
from testbed.ports import free_port

__all__ = ["Change", "Liar", "Lie"]

Lie = Callable[["Liar", web.Request], Awaitable[web.StreamResponse | None]]
"""Answers a request; with None the worker does."""

Change = Callable[[Object], None]
"""Changes an object in place, on its way to the client."""

HOP = ("Host", "Accept-Encoding", "Connection", "Transfer-Encoding", "Content-Length")
LARGEST = 2**24
QUIET = logging.getLogger("testbed.liar")
QUIET.setLevel(logging.CRITICAL)  # cut connections are its purpose


class Liar:
    """The proxy. It belongs to the event loop that made it."""

    def __init__(self, upstream: aiohttp.ClientSession) -> None:
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.told = 0
        """Number of requests answered with the present lie."""
        self._upstream = upstream
        self._lie: Lie | None = None
        self._connections: set[object] = set()

    @classmethod
    @asynccontextmanager
    async def before(cls, plane: ControlPlane, folder: Path) -> AsyncIterator[Self]:
        certificate = plane.identity.authority.issue("liar", "127.0.0.1").write(folder / "liar")
        async with cls.serving(plane.url, plane.ca.decode(), *certificate) as liar:
            yield liar

    @classmethod
    @asynccontextmanager
    async def serving(cls, url: str, ca: str, certificate: Path, key: Path) -> AsyncIterator[Self]:
        """A liar before the server of that URL, by the certificate and key in these files, which the same `ca` issued."""
        trust = ssl.create_default_context(cadata=ca)
        patience = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            url, connector=aiohttp.TCPConnector(ssl=trust, limit=0), timeout=patience, read_bufsize=LARGEST
        ) as upstream:
            liar = cls(upstream)
            tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            tls.load_cert_chain(certificate, key)
            runner = web.ServerRunner(web.Server(liar._answer, logger=QUIET), shutdown_timeout=0.1)  # type: ignore[arg-type]
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", liar.port, ssl_context=tls).start()
            try:
                yield liar
            finally:
                await runner.cleanup()

    def tell(self, lie: Lie | None) -> None:
        """Tell this lie from now on, or the truth (None). Open requests are cut off, so that all clients ask again."""
        self._lie, self.told = lie, 0
        for transport in list(self._connections):
            transport.abort()  # type: ignore[attr-defined]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        self._connections.add(transport)
        try:
            if self._lie is not None and (answer := await self._lie(self, request)) is not None:
                self.told += 1
                return answer
            return await self.pass_on(request)
        finally:
            self._connections.discard(transport)

    async def items_of(self, request: web.Request) -> list[Object]:
        """What a watch is of, as the worker has it."""
        query = {name: value for name, value in request.query.items() if name == "labelSelector"}
        headers = {"Authorization": request.headers["Authorization"]}
        async with self._upstream.get(request.rel_url.with_query(query), headers=headers) as answer:
            items: list[Object] = (await answer.json()).get("items", [])
        return items

    async def pass_on(self, request: web.Request, change: Change | None = None) -> web.StreamResponse:
        """The worker's answer; `change` is applied to each object of a list or a watch."""
        headers = {key: value for key, value in request.headers.items() if key.title() not in HOP}
        body = await request.read()
        async with self._upstream.request(
            request.method, request.rel_url, data=body or None, headers=headers, allow_redirects=False
        ) as answer:
            kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
            if "watch" not in request.query:
                content = await answer.read()
                if change is not None and answer.status == 200:
                    content = _changed_list(content, change)
                return web.Response(status=answer.status, body=content, headers=kind)
            response = web.StreamResponse(status=answer.status, headers=kind)
            await response.prepare(request)
            async for line in answer.content:
                await response.write(_changed_event(line, change) if change is not None else line)
            return response


def _changed_list(content: bytes, change: Change) -> bytes:
    body = json.loads(content)
    for item in body.get("items", ()):
        change(item)
    return json.dumps(body).encode()


def _changed_event(line: bytes, change: Change) -> bytes:
    event = json.loads(line)
    if event["type"] in ("ADDED", "MODIFIED"):
        change(event["object"])
    return json.dumps(event).encode() + b"\n"
