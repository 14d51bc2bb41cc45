"""One request and its answer on a connection of aiohttp's.

aiohttp's session makes a dozen objects and a task for each request, which was most of the CPU of a call. Connections,
their pool, TLS and the parser of answers are aiohttp's here too; only the request is written by us, in one piece.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple

import aiohttp
from aiohttp import hdrs
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from aiohttp.streams import StreamReader
from yarl import URL

from multikueue.errors import NotLeading

__all__ = ["QUESTIONS", "Exchange", "Way", "Ways", "give_up"]

_WAYS = 2
"""Ways remembered by a session: one, and for a moment a second one when the credentials change."""

QUESTIONS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")
"""Paths of reviews: reads, though sent as POST."""


LARGE_REQUEST = 2**18
"""Bytes. OpenSSL keeps a buffer as large as the largest request of a connection, so one that carried more is not used again."""


class Way(NamedTuple):
    """The way to a server: all that distinguishes one connection from another."""

    origin: URL
    tls: Any
    server_hostname: str | None


class Ways:
    """What aiohttp needs to connect, made once per way; and the headers of all requests."""

    def __init__(self, session: aiohttp.ClientSession, headers: Mapping[str, str]) -> None:
        assert session.connector is not None
        self.connector = session.connector
        self._session = session
        self._common = [f"{name}: {value}" for name, value in headers.items()]
        self.to = lru_cache(_WAYS)(self._to)

    def _to(self, way: Way) -> tuple[aiohttp.ClientRequest, list[str]]:
        loop = asyncio.get_running_loop()
        request = aiohttp.ClientRequest(
            hdrs.METH_GET,
            way.origin,
            ssl=way.tls,
            server_hostname=way.server_hostname,
            loop=loop,
            session=self._session,
        )
        return request, [f"{hdrs.HOST}: {request.headers[hdrs.HOST]}", *self._common]


class ExchangeResponse:
    """Status, headers and body of an answer, as `Response`."""

    __slots__ = ("_connection", "_sent", "content", "headers", "status")

    def __init__(
        self, status: int, headers: Mapping[str, str], content: StreamReader, connection: Connection, *, sent: int
    ) -> None:
        self.status, self.headers, self.content, self._connection = status, headers, content, connection
        self._sent = sent

    def close(self) -> None:
        """Gives the connection back to the pool, unless something of the request or of the answer is left on it, or the
        request was large. Then it is reset, and a reader gets an error."""
        transport = self._connection.transport
        is_done = transport is not None and not transport.get_write_buffer_size() and self.content.is_eof()
        if is_done and self._sent <= LARGE_REQUEST:
            _free_write_buffer(transport)
            self._connection.release()
            return
        give_up(self._connection)
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))


class Exchange:
    """A request, sent when it is awaited or entered, as `RequestContext`. The block has `timeout.total` seconds in all.

    Raises what aiohttp's own session would, and NotLeading, unsent, if `may_write` returns False. It is asked before
    there is a connection, and again right before the first byte: between that and the whole request nothing else runs.
    """

    def __init__(
        self,
        ways: Ways,
        method: str,
        url: URL,
        *,
        way: Way,
        headers: Mapping[str, str],
        body: bytes,
        timeout: aiohttp.ClientTimeout,
        may_write: Callable[[], bool],
    ) -> None:
        self._ways, self._way, self._may_write = ways, way, may_write
        self._method, self._url, self._headers, self._body = method, url, headers, body
        self._timeout, self._deadline = timeout, asyncio.timeout(timeout.total)
        self._answer: ExchangeResponse | None = None

    def __await__(self) -> Generator[Any, None, ExchangeResponse]:
        return self._exchanged().__await__()

    async def __aenter__(self) -> ExchangeResponse:
        await self._deadline.__aenter__()
        try:
            return await self._exchanged()
        except BaseException as error:
            await self._deadline.__aexit__(type(error), error, error.__traceback__)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._answer is not None
        self._answer.close()
        await self._deadline.__aexit__(kind, error, trace)

    async def _exchanged(self) -> ExchangeResponse:
        self._ask()
        request, common = self._ways.to(self._way)
        head = self._head(common)
        connection = await self._connected(request)
        try:
            self._ask()
            protocol = _protocol_of(connection, self._timeout.sock_read)
            _write(protocol, head + self._body)
            self._answer = await self._answered(protocol, connection, request)
        except NotLeading:
            connection.release()  # unused
            raise
        except BaseException:
            give_up(connection)
            raise
        return self._answer

    async def _connected(self, request: aiohttp.ClientRequest) -> Connection:
        try:
            return await self._ways.connector.connect(request, [], self._timeout)
        except TimeoutError as error:
            raise aiohttp.ConnectionTimeoutError(f"Connection timeout to host {self._way.origin}") from error

    async def _answered(
        self, protocol: ResponseHandler, connection: Connection, request: aiohttp.ClientRequest
    ) -> ExchangeResponse:
        while True:
            try:
                message, content = await protocol.read()
            except HttpProcessingError as error:
                raise aiohttp.ClientResponseError(
                    request.request_info, (), status=error.code, message=error.message, headers=error.headers
                ) from error
            if not 100 <= message.code < 200 or message.code == 101:
                sent = len(self._body)
                return ExchangeResponse(message.code, message.headers, content, connection, sent=sent)

    def _head(self, common: list[str]) -> bytes:
        """The first line and the headers. Raises ValueError on a line break in one of them."""
        lines = [f"{self._method} {self._url.raw_path_qs} HTTP/1.1", *common]
        lines += [f"{name}: {value}" for name, value in self._headers.items()]
        if self._body or self._method != hdrs.METH_GET:
            lines.append(f"{hdrs.CONTENT_LENGTH}: {len(self._body)}")
        head = "\r\n".join(lines)
        if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1 or "\0" in head:
            raise ValueError("a header of a request has a control character")
        return f"{head}\r\n\r\n".encode()

    def _ask(self) -> None:
        path = self._url.path
        if self._method != hdrs.METH_GET and not path.startswith(QUESTIONS) and not self._may_write():
            raise NotLeading(f"{self._method} {path}: not sent, for we may not act now")


def _free_write_buffer(transport: asyncio.BaseTransport | None) -> None:
    """Gives 16 KiB back: OpenSSL takes them when a session ticket arrives, as it does after a handshake, and keeps them until
    something is written. Nothing is sent by this."""
    tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is not None:
        with suppress(ssl.SSLError):
            tls.write(b"")


def give_up(connection: Connection) -> None:
    """Resets the connection, without a TLS shutdown: that could outlast the event loop, and what was not received yet must
    not arrive later, when another process acts."""
    if connection.transport is not None:
        connection.transport.abort()
    connection.close()


def _protocol_of(connection: Connection, silence: float | None) -> ResponseHandler:
    """With at most so many seconds without a byte of the answer."""
    protocol = connection.protocol
    assert protocol is not None
    protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_timeout=silence)
    protocol.start_timeout()
    return protocol


def _write(protocol: ResponseHandler, data: bytes) -> None:
    transport = protocol.transport
    if transport is None or transport.is_closing():
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")
    transport.write(data)
