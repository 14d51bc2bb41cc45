"""HTTP sessions as we need them, and what went wrong in words.

Never `trust_env`: with it every request costs two thread hops, and a .netrc entry would send its password to the API
server. The proxy comes from the kubeconfig.
"""

from __future__ import annotations

import io
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import TYPE_CHECKING, Any, Protocol, cast

import aiohttp
import anyio.lowlevel
from aiohttp import hdrs
from aiohttp.http import HttpProcessingError

from multikueue import __version__
from multikueue.api.foreign import excerpt
from multikueue.errors import NotLeading

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.connector import Connection

__all__ = [
    "CONNECT_TIMEOUT",
    "LARGEST_OBJECT",
    "NOT_SENT",
    "TRANSPORT_ERRORS",
    "USER_AGENT",
    "Answer",
    "Asked",
    "Lines",
    "Session",
    "Transport",
    "always",
    "beginning",
    "cut",
    "explain",
    "open_session",
    "received",
]

USER_AGENT = f"multikueue/{__version__}"

CONNECT_TIMEOUT = 10.0
"""Seconds for one connection to be made."""

TRANSPORT_ERRORS = (aiohttp.ClientError, HttpProcessingError, TimeoutError, OSError)
"""All that a request raises when no usable answer came. Cancellation is none of them."""

NOT_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""Those of them that come before a byte of the request was sent: there was no connection to send it on."""

_KEEP_ALIVE = 80.0
"""Seconds an idle connection is kept. New ones cost milliseconds of CPU; kube-apiserver closes them after 90 s, and we
must be the first, or a write now and then meets a closing connection."""

LARGEST_OBJECT = 10 * 2**20
"""Bytes of an answer about one object, or of a line of a watch. etcd takes 1.5 MiB, and JSON may write a byte of it as six
(`<` is `\\u003c`): one more, and a tenant's large Job could end the watch of everybody's."""

_LARGE = 2**20
"""Bytes of a body, or of a line, from which on it is read alone."""

_PIECE, _PACKED_PIECE = 2**20, 2**16
"""Bytes that are unpacked between two turns of the loop, and at once of those that are packed."""

_SHORT = 2**16
"""Bytes of a body that may be read in one turn of the loop: nearly all answers are that short."""

_GZIP = 16 + zlib.MAX_WBITS
"""zlib's way to say: with gzip's head and end."""

_SOCKET_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)
"""A peer that is gone without a word is noticed after about a minute, on idle watches too. (TCP_USER_TIMEOUT in ms.)"""

_NO_LINGER = struct.pack("ii", 1, 0)
"""A connection that we close is reset. What a call that was given up had written and nobody has received must not be
delivered later, when a broken network is whole again and others have acted; the kernel would go on trying for minutes."""

_QUESTIONS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")


class Content(Protocol):
    """The body as it came over the wire."""

    async def readany(self) -> bytes:
        """What is there by now, at least a byte; empty at the end."""
        ...


class Answer(Protocol):
    """What we use of aiohttp's response."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content(self) -> Content: ...

    def close(self) -> None: ...


class Asked(Awaitable[Answer], AbstractAsyncContextManager[Answer], Protocol):
    """A request that is on its way once it is awaited or entered. Leaving the block gives the connection back."""


class Session(Protocol):
    """What we use of aiohttp's session. It raises what aiohttp's does, and TRANSPORT_ERRORS only when no answer came."""

    @property
    def closed(self) -> bool: ...

    def request(self, method: str, url: Any, **options: Any) -> Asked: ...

    async def close(self) -> None: ...


class Transport(Protocol):
    """What carries requests: `open_session`, or a simulation of it."""

    def __call__(self, *, user_agent: str, limit: int, may_write: Callable[[], bool]) -> Session: ...


def always() -> bool:
    """There is nobody else who might write."""
    return True


def open_session(*, user_agent: str, limit: int, may_write: Callable[[], bool] = always) -> Session:
    """A session of at most `limit` connections (0: unlimited). To be closed by the caller.

    A request that is no GET raises NotLeading, unsent, if `may_write` says no when it is about to go out; reviews, which
    are questions though they are sent as POST, do not.
    """
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_KEEP_ALIVE, socket_factory=_socket),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        headers={"User-Agent": user_agent, "Accept": "application/json"},
        request_class=_asking(may_write),
    )
    # aiohttp would repeat any PUT and DELETE on a lost connection. What may be repeated is decided in `retry`.
    session._retry_connection = False
    return cast(Session, session)


def _asking(may_write: Callable[[], bool]) -> type[aiohttp.ClientRequest]:
    """Requests that ask for leave at the last moment: when they have a connection, right before the first byte.

    Asked any earlier, a request could wait for its turn, for a handshake or in a frozen process, and go out when the
    leave is long gone.
    """
    if may_write is always:
        return aiohttp.ClientRequest

    class Asking(aiohttp.ClientRequest):
        async def send(self, conn: Connection) -> aiohttp.ClientResponse:
            self._ask()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            """Head and body of a request with a body; before Python 3.12 a task of its own, which may run later."""
            try:
                self._ask()
            except NotLeading as error:
                if conn.protocol is not None:
                    conn.protocol.set_exception(error)
                conn.close()
                return
            await super().write_bytes(writer, conn, content_length)

        def _ask(self) -> None:
            if self.method != hdrs.METH_GET and not self.url.path.startswith(_QUESTIONS) and not may_write():
                raise NotLeading(f"{self.method} {self.url.path}: not sent, for we may not act now")

    return Asking


class _Socket(socket.socket):
    """A socket that is closed by those who use it, and never by the garbage collector.

    When a connection breaks while uvloop takes it over, uvloop closes its descriptor and the socket object does not
    know. Collected later, it would close a descriptor that by then belongs to somebody else: the connection to another,
    healthy cluster. uvloop even aborts the process over that. All others who give up a socket here close it themselves.
    """

    def __del__(self) -> None:
        self.detach()


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    made = _Socket(family=address[0], type=address[1], proto=address[2])
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    for name, value in _SOCKET_OPTIONS:
        if hasattr(socket, name):  # not every system has each of them
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


async def received(more: Awaitable[bytes]) -> bytes:
    """More of a body. Raises ClientConnectionError, too, where the connection was gone before anybody waited for it: aiohttp
    says that as if it were a mistake of ours."""
    try:
        return await more
    except RuntimeError as error:
        raise aiohttp.ClientConnectionError(str(error)) from error


async def beginning(answer: Answer, most: int, alone: anyio.Lock) -> bytes:
    """The body to its end, or somewhat more than `most` bytes of it: what a server packs small may be large.

    Of the large ones, those with the same lock come one after the other: each waits in its socket, and together they take
    no more memory than one.
    """
    packing = answer.headers.get(hdrs.CONTENT_ENCODING, "identity").lower()
    if packing not in ("gzip", "identity"):
        raise aiohttp.ClientPayloadError(f"the answer is packed as {excerpt(packing)}, which nobody asked for")
    packed = _Packed() if packing == "gzip" else None
    body = io.BytesIO()  # hands out what was written without a copy
    async with AsyncExitStack() as large:
        while body.tell() <= most and (block := await received(answer.content.readany())):
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
        return body.getvalue()


class Lines:
    """The lines of an answer without an end. aiohttp has them too, and copies what is here of a long one for each piece of
    it. Of the long ones, those with the same lock are read one after the other."""

    def __init__(self, answer: Answer, alone: anyio.Lock) -> None:
        self._content, self._alone = answer.content, alone
        self._block, self._start = b"", 0

    async def next(self) -> bytes:
        """The next line with its line end; what is left at the end of the answer, be it nothing. Raises ClientPayloadError
        on one of more than LARGEST_OBJECT bytes."""
        end = self._block.find(b"\n", self._start) + 1
        if not end:
            return await self._longer()
        line = self._block[self._start : end]
        self._start = end
        return line

    async def _longer(self) -> bytes:
        """A line that goes on behind what is here."""
        line = io.BytesIO()
        line.write(self._block[self._start :])
        self._block, self._start = b"", 0
        async with AsyncExitStack() as large:
            while block := await received(self._content.readany()):
                end = block.find(b"\n") + 1
                if end:
                    line.write(block[:end])
                    self._block, self._start = block, end
                    break
                if line.tell() < _LARGE <= line.tell() + len(block):
                    await large.enter_async_context(self._alone)
                line.write(block)
                if line.tell() > LARGEST_OBJECT:
                    raise aiohttp.ClientPayloadError(f"a line of more than {LARGEST_OBJECT // 2**20} MiB")
        return line.getvalue()


class _Packed:
    """A body in gzip, unpacked piece by piece: aiohttp unpacks 15 MiB in one turn, whatever we want to have of it."""

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


def cut(answer: Answer) -> None:
    """End an answer that goes on for ever: at once, for a farewell by TLS could outlive the loop that would hear it."""
    connection = getattr(answer, "connection", None)
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()


def explain(error: BaseException) -> str:
    """Why no answer came: the same text for the same cause, since it ends up in conditions."""
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
