"""An HTTPS server for one API on a loopback port: tokens, client certificates, watches, and audit events.

    async with FrontEnd(authorization, users, authority=authority) as front_end:
        print(front_end.url, front_end.kubeconfig("admin"))

Request bodies are JSON, YAML or protobuf; answers are JSON or YAML, large ones compressed. A watch is written at the
pace of its reader; the API decides when a slow reader loses it.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from fakekube.front_end import audit
from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.protobuf import PROTOBUF, decoded
from fakekube.front_end.users import Users, kubeconfig
from fakekube.model.bodies import BODY_LIMIT
from fakekube.model.refusals import too_large
from fakekube.model.wire import JSON, Object, Refused, Request, Response, User, Watch

__all__ = ["FrontEnd"]

_WORTH_COMPRESSING = 128 * 2**10
_PIECE = 256 * 2**10
"""Bytes of a watch that are written at once, before the write waits for its reader."""

_GRACE_SECONDS = 1.0

_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_STORE_SECONDS = 0.003
"""Seconds between a write request and its effect, as of a store. A client that disconnects in this time, for example
because its request was delayed on the way, has changed nothing."""


class FrontEnd:
    """Serves one API on one port, as an asynchronous context manager."""

    def __init__(
        self,
        authorization: AuthorizationFilter,
        users: Users,
        *,
        authority: Authority,
        now: Callable[[], datetime],
        name: str = "fakekube",
        host: str = "127.0.0.1",
        port: int = 0,
        record: audit.Record | None = None,
    ) -> None:
        self.name, self.host, self.port = name, host, port
        self._authorization, self._users, self._authority = authorization, users, authority
        self._now, self._record = now, record
        self._watches: set[Watch] = set()
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    @property
    def ca(self) -> bytes:
        """The certificate of the authority, as PEM."""
        return self._authority.pem

    def kubeconfig(self, user: str = "admin") -> Object:
        """A kubeconfig with the user's token."""
        return kubeconfig(self.url, ca=self.ca, token=self._users.token(user), name=self.name)

    def certified_kubeconfig(self, user: str, *groups: str) -> Object:
        """A kubeconfig with a new client certificate; the user need not be in `users`."""
        certificate = self._authority.issue(user, groups=groups)
        return kubeconfig(self.url, ca=self.ca, certificate=certificate, name=self.name)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen. Raises OSError if the port is taken. A start after `stop` uses the same port again."""
        loop = asyncio.get_running_loop()

        def requested(
            message: RawRequestMessage,
            payload: StreamReader,
            protocol: RequestHandler,
            writer: Any,
            task: asyncio.Task[None],
        ) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)

        server = web.Server(
            self._serve, request_factory=requested, handler_cancellation=True, access_log=None, keepalive_timeout=120
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=_GRACE_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port, ssl_context=self._tls()).start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """End all watches, give running requests a second to finish, and close the port."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        for watch in tuple(self._watches):
            watch.end()
        await runner.cleanup()

    def _tls(self) -> ssl.SSLContext:
        certificate = self._authority.issue("kube-apiserver", self.host, "localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        certificate.load_into(context)
        context.load_verify_locations(cadata=self._authority.pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    async def _serve(self, asked: web.BaseRequest) -> web.StreamResponse:
        received = self._now()
        try:
            request = await self._request(asked)
        except Refused as refused:
            return _complete(asked, refused.response())
        if request.method in _WRITES:
            await asyncio.sleep(_STORE_SECONDS)  # cancelled when the connection ends
        answer = await self._authorization.handle(request)
        self._note(request, answer, received)
        if isinstance(answer, Watch):
            return await self._stream(asked, answer)
        return _complete(asked, answer)

    async def _request(self, asked: web.BaseRequest) -> Request:
        """The API's form of an HTTP request. Raises Refused."""
        user = self._user(asked)
        try:
            body = await asked.read()
        except web.HTTPRequestEntityTooLarge:
            raise too_large(BODY_LIMIT) from None
        request = Request(
            method=asked.method,
            path=asked.path,
            query=dict(asked.query) if asked.query_string else {},
            body=body,
            content_type=asked.headers.get("Content-Type", JSON),
            accept=",".join(asked.headers.getall("Accept", ())) or JSON,
            user=user,
            user_agent=asked.headers.get("User-Agent", ""),
        )
        if request.body and request.content_type.startswith(PROTOBUF):
            return replace(request, body=msgspec.json.encode(decoded(request.body)), content_type=JSON)
        return request

    def _user(self, asked: web.BaseRequest) -> User:
        certificate = asked.transport.get_extra_info("peercert") if asked.transport else None
        user = self._users.identify(asked.headers.get("Authorization", ""), certificate)
        acting = asked.headers.get("Impersonate-User")
        if acting is None:
            return user
        return self._authorization.acting(user, acting, asked.headers.getall("Impersonate-Group", ()))

    def _note(self, request: Request, answer: Response | Watch, received: datetime) -> None:
        if self._record is None:
            return
        event = audit.event(request, answer.status if isinstance(answer, Response) else 200, received=received)
        if event is not None:
            self._record(event)

    async def _stream(self, asked: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        """Write lines as they arrive, until the watch ends or its reader disconnects."""
        response = web.StreamResponse(headers={"Content-Type": watch.content_type, "Cache-Control": _NO_CACHE})
        response.enable_chunked_encoding()
        changed = asyncio.Event()
        watch.wake = changed.set
        self._watches.add(watch)
        filling = asyncio.ensure_future(watch.fill())
        try:
            await response.prepare(asked)
            while watch.lines or not watch.ended:
                if not watch.lines:
                    changed.clear()
                    await changed.wait()
                    continue
                await response.write(_piece(watch))
            await response.write_eof()
        except ConnectionResetError:
            pass  # the reader disconnected during a write
        finally:
            filling.cancel()
            self._watches.discard(watch)
            watch.wake = None
            watch.close()
        return response


_NO_CACHE = "no-cache, private"


def _piece(watch: Watch) -> bytes:
    """The next lines of a watch, `_PIECE` bytes or one line more."""
    lines, size = [], 0
    while watch.lines and size < _PIECE:
        lines.append(watch.lines.popleft())
        size += len(lines[-1])
    return b"".join(lines)


def _complete(asked: web.BaseRequest, answer: Response) -> web.Response:
    headers = {"Content-Type": answer.content_type, "Cache-Control": _NO_CACHE, **answer.headers}
    body = answer.body
    if len(body) >= _WORTH_COMPRESSING and "gzip" in asked.headers.get("Accept-Encoding", ""):
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, compresslevel=1)
    return web.Response(status=answer.status, body=body, headers=headers)
