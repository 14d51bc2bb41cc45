"""HTTP sessions, and transport errors as text.

Never `trust_env`: with it every request costs two thread hops, and a .netrc entry would send its password to the API
server. The proxy comes from the kubeconfig.
"""

from __future__ import annotations

import asyncio
import io
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, cast

import aiohttp
import anyio.lowlevel
from aiohttp import hdrs
from aiohttp.http import HttpProcessingError
from yarl import URL

from multikueue import __version__
from multikueue.api.values.foreign import excerpt
from multikueue.errors import NotLeading
from multikueue.kube.transport.connector import Connector
from multikueue.kube.transport.exchange import QUESTIONS, Exchange, Way, Ways, give_up
from multikueue.kube.transport.loop_share import UNMETERED, LoopShare

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

__all__ = [
    "CONNECT_TIMEOUT",
    "LARGEST_OBJECT",
    "NOT_SENT",
    "TRANSPORT_ERRORS",
    "USER_AGENT",
    "RequestContext",
    "Response",
    "ResponseLines",
    "Session",
    "Transport",
    "beginning",
    "cut",
    "explain",
    "may_always_write",
    "open_session",
    "received",
]

USER_AGENT = f"multikueue/{__version__}"

CONNECT_TIMEOUT = 10.0
"""Seconds to establish one connection."""

TRANSPORT_ERRORS = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
"""Errors of a request without a usable answer. Cancellation is none of them."""

NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""The transport errors raised before a byte of the request was sent, because there is no connection."""

LARGEST_OBJECT = 10 * 2**20
"""Bytes of an answer about one object, or of a line of a watch. etcd takes 1.5 MiB, and JSON may write a byte as six
(`<` is `\\u003c`). With a lower limit a tenant's large Job could break the watch for all tenants."""

_LARGE = 2**18
"""Bytes from which on a body or line is read under a lock, one at a time."""

_PIECE, _PACKED_PIECE = 2**20, 2**16
"""Bytes decompressed between two turns of the event loop, and compressed bytes per step."""

_SHORT = 2**16
"""Bytes of a body that are read in one turn of the event loop: nearly all answers are that short."""

_GZIP = 16 + zlib.MAX_WBITS
"""zlib's code for the gzip format, with header and trailer."""


class Content(Protocol):
    """The body as received, before decompression."""

    async def readany(self) -> bytes:
        """The bytes received so far, at least one; empty at the end."""
        ...


class Response(Protocol):
    """The parts of aiohttp's response that we use."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> Content: ...

    def close(self) -> None: ...


class RequestContext(Awaitable[Response], AbstractAsyncContextManager[Response], Protocol):
    """A request, sent when it is awaited or entered. Leaving the block releases the connection."""


class Session(Protocol):
    """The parts of aiohttp's session that we use. It raises the same errors; TRANSPORT_ERRORS mean: no usable
    answer."""

    @property
    def closed(self) -> bool: ...

    def request(self, method: str, url: Any, **options: Any) -> RequestContext: ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """Opens sessions: `open_session`, or a simulation of it."""

    def __call__(self, *, user_agent: str, may_write: Callable[[], bool], share: LoopShare) -> Session: ...


def may_always_write() -> bool:
    """Permission to write for a process without replicas."""
    return True


def open_session(
    *,
    user_agent: str,
    may_write: Callable[[], bool] = may_always_write,
    connecting: Callable[[], AbstractContextManager[None]] = nullcontext,
    share: LoopShare = UNMETERED,
) -> Session:
    """A session. The caller closes it. A watch takes the connection that its list has left idle: each costs a handshake,
    and some 50 KiB for as long as it is kept.

    A request other than GET raises NotLeading, unsent, if `may_write` returns False right before it is sent. Reviews
    are exempt: they are reads, though sent as POST. Each connection is made within a block of `connecting`, and read within
    the `share`.
    """
    headers = {"User-Agent": user_agent, "Accept": "application/json"}
    session = aiohttp.ClientSession(
        connector=Connector(connecting, share),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        headers=headers,
        request_class=_asking(may_write),
    )
    # aiohttp would retry any PUT and DELETE on a lost connection. `kube.errors` has the rules of retries.
    session._retry_connection = False
    return _Session(session, Ways(session, headers), may_write)


class _Session:
    """aiohttp's session, but for the requests that `Exchange` sends: short ones without a proxy."""

    def __init__(self, session: aiohttp.ClientSession, ways: Ways, may_write: Callable[[], bool]) -> None:
        self._session, self._ways, self._may_write = session, ways, may_write

    @property
    def closed(self) -> bool:
        return self._session.closed

    async def close(self) -> None:
        await self._session.close()

    def request(self, method: str, url: URL, **options: Any) -> RequestContext:
        timeout: aiohttp.ClientTimeout = options["timeout"]
        body = options.get("data") or b""
        if options.get("proxy") is not None or not isinstance(body, bytes):
            return cast(RequestContext, self._session.request(method, url, **options))
        if self.closed:
            raise RuntimeError("Session is closed")
        way = Way(url.origin(), options.get("ssl", True), options.get("server_hostname"))
        headers = options.get("headers") or {}
        return Exchange(
            self._ways, method, url, way=way, headers=headers, body=body, timeout=timeout, may_write=self._may_write
        )


@lru_cache(4)  # a class takes 5 KiB, and all sessions of a process have the same permission
def _asking(may_write: Callable[[], bool]) -> type[aiohttp.ClientRequest]:
    """Requests that check `may_write` at the last moment: with a connection, right before the first byte.

    After an earlier check, a request could wait for a connection, for a handshake or in a frozen process, and be sent
    when the mandate is over.
    """
    if may_write is may_always_write:
        return aiohttp.ClientRequest

    class Asking(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            self._ask()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            """Writes a request with a body; before Python 3.12 in a task of its own, later: so there is a second check."""
            try:
                self._ask()
            except NotLeading as error:
                if conn.protocol is not None:
                    conn.protocol.set_exception(error)
                conn.close()
                return
            await super().write_bytes(writer, conn, content_length)

        def _ask(self) -> None:
            if self.method != hdrs.METH_GET and not self.url.path.startswith(QUESTIONS) and not may_write():
                raise NotLeading(f"{self.method} {self.url.path}: not sent, for we may not act now")

    return Asking


async def received(more: Awaitable[bytes]) -> bytes:
    """More bytes of a body. Raises ClientConnectorError if the connection was lost before the read began: aiohttp
    raises RuntimeError there, as for a misuse."""
    try:
        return await more
    except RuntimeError as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


async def beginning(answer: Response, most: int, alone: asyncio.Lock, held: AsyncExitStack | None = None) -> bytes:
    """The whole body, or somewhat more than `most` bytes of it: a small compressed body may expand to a large one.

    Large bodies with the same lock are read one at a time: the others wait in their sockets, so that together they take
    no more memory than one. With `held`, the lock of a large body stays taken until that ends. Raises
    ClientPayloadError on an encoding other than gzip.
    """
    packing = answer.headers.get(hdrs.CONTENT_ENCODING, "identity").lower()
    if packing not in ("gzip", "identity"):
        raise aiohttp.ClientPayloadError(f"the answer is packed as {excerpt(packing)}, which nobody asked for")
    packed = _Packed() if packing == "gzip" else None
    blocks = [await received(answer.content.readany())]
    if not packed and 0 < len(blocks[0]) <= min(most, _SHORT):
        blocks.append(await received(answer.content.readany()))
    if not packed and not blocks[-1]:
        return blocks[0]  # nearly all answers come in one piece
    # BytesIO hands out what was written without a copy. It is closed, as the traceback of an error would keep its bytes.
    with io.BytesIO() as body:
        async with AsyncExitStack() as large:
            while body.tell() <= most and (
                block := blocks.pop(0) if blocks else await received(answer.content.readany())
            ):
                for piece in packed.pieces(block) if packed else (block,):
                    if body.tell() < _LARGE <= body.tell() + len(piece):
                        await large.enter_async_context(alone)
                    body.write(piece)
                    if body.tell() > most:
                        break
                    if body.tell() > _SHORT:
                        await anyio.lowlevel.checkpoint()
            if packed and 0 < body.tell() <= most:
                packed.check_end()
            if held is not None and body.tell() <= most:
                await held.enter_async_context(large.pop_all())
            return body.getvalue()


class ResponseLines:
    """The lines of an endless answer. aiohttp's own reader copies a long line again for each piece of it.

    Long lines with the same lock are read one at a time."""

    def __init__(self, answer: Response, alone: asyncio.Lock) -> None:
        self._content, self._alone = answer.content, alone
        self._block, self._start = b"", 0

    async def next(self) -> bytes:
        """The next line with its line end; at the end of the answer the rest, possibly empty.

        Raises ClientPayloadError on a line of more than LARGEST_OBJECT bytes."""
        if not self._block:
            try:
                self._block = await self._content.readany()
            except RuntimeError as error:  # as in `received`, without its call: once per line
                raise aiohttp.ClientConnectionError(str(error)) from error
        end = self._block.find(b"\n", self._start) + 1
        if not end:
            return await self._longer()
        block = self._block
        line = block[self._start : end]
        self._block, self._start = (block, end) if end < len(block) else (b"", 0)  # as `_keep`, once per line
        return line

    async def piece(self) -> bytes:
        """The bytes received since the last call, regardless of lines: a log needs no end of line, nor a lock for it."""
        block = self._block[self._start :]
        self._keep(b"", 0)
        return block or await received(self._content.readany())

    def _keep(self, block: bytes, start: int) -> None:
        """The rest of the block; nothing of one that has no rest, as the next may come in minutes."""
        self._block, self._start = (block, start) if start < len(block) else (b"", 0)

    async def _longer(self) -> bytes:
        """A line that continues beyond the buffered block."""
        with io.BytesIO() as line:
            block = self._block[self._start :]
            self._keep(b"", 0)
            async with AsyncExitStack() as large:
                while block:
                    end = block.find(b"\n") + 1
                    if end:
                        line.write(block[:end])
                        self._keep(block, end)
                        break
                    if line.tell() < _LARGE <= line.tell() + len(block):
                        await large.enter_async_context(self._alone)
                    line.write(block)
                    if line.tell() > LARGEST_OBJECT:
                        raise aiohttp.ClientPayloadError(f"a line of more than {LARGEST_OBJECT // 2**20} MiB")
                    block = await received(self._content.readany())
            return line.getvalue()


class _Packed:
    """A gzip body, decompressed in pieces: aiohttp decompresses 15 MiB in one turn, even if we need less."""

    def __init__(self) -> None:
        self._gzip = zlib.decompressobj(_GZIP)

    def pieces(self, block: bytes) -> Iterator[bytes]:
        for start in range(0, len(block), _PACKED_PIECE):
            rest, piece = block[start : start + _PACKED_PIECE], b""
            while rest or len(piece) == _PIECE:
                piece = self._unpack(rest)
                rest = self._gzip.unconsumed_tail
                yield piece

    def check_end(self) -> None:
        if not self._gzip.eof:
            raise aiohttp.ClientPayloadError("the answer's gzip has no end")

    def _unpack(self, packed: bytes) -> bytes:
        try:
            piece = self._gzip.decompress(packed, _PIECE)
        except zlib.error as error:
            raise aiohttp.ClientPayloadError("the answer is no gzip, though it says so") from error
        if self._gzip.unused_data:
            raise aiohttp.ClientPayloadError("the answer goes on behind its gzip")
        return piece


def cut(answer: Response) -> None:
    """Abort an endless answer."""
    connection = getattr(answer, "connection", None)
    if connection is not None:
        give_up(connection)
    answer.close()


def explain(error: BaseException) -> str:
    """The reason for a missing answer: the same text for the same cause, since conditions show it."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"TLS: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return f"no connection: {error.os_error}"
        case aiohttp.ConnectionTimeoutError():
            return "no connection in time"
        case TimeoutError():
            return "no answer in time"
    return excerpt(str(error)) or type(error).__name__
