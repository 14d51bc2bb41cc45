"""The connections of a session: how names are resolved, how long connections are kept, and what becomes of lost ones."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler

from multikueue.kube.transport.loop_share import UNMETERED, LoopShare

__all__ = ["MOST_UNASKED", "PATIENCE", "Connector", "Resolver"]

_KEEP_ALIVE = 80.0
"""Seconds an idle connection is kept: a new one costs milliseconds of CPU. kube-apiserver closes them after 90 s; we
must close first, or some writes would meet a closing connection."""

_SOCKET_OPTIONS = (
    ("TCP_NODELAY", 1),
    ("TCP_KEEPIDLE", 30),
    ("TCP_KEEPINTVL", 10),
    ("TCP_KEEPCNT", 3),
    ("TCP_USER_TIMEOUT", 60_000),
)
"""A peer that vanished is detected after about a minute, on idle watches too. (TCP_USER_TIMEOUT in ms.)"""

_NO_LINGER = struct.pack("ii", 1, 0)
"""Closing a connection resets it. The unsent bytes of an abandoned call must not arrive later, when the network is back
and another process has acted; without a reset the kernel would retransmit them for minutes."""


MOST_UNASKED = 20
"""Connections of a session that may be cut off within UNASKED_FOR because the server said more than it was asked. Load
balancers say 408 on a connection before they close it, once on each."""

_UNASKED_FOR = 60.0
"""Seconds for which these count, and after which such a server is spoken to again."""

_MOST_INTERIM = 16
"""Answers of the kind 1xx before the answer itself."""

_NOTHING = memoryview(b"")

_SLICE = 2**14
"""Bytes that are parsed in one go: some 430 of the shortest answers, or 2,700 of the shortest chunks, which take some 10 ms."""

_UNASKED = "it sends answers that nobody asked for, and is not spoken to for a minute"
_MORE_ANSWERS = "more answers than were asked for"
_TOO_MUCH = "it sends more than its share of our time lets us read, and is not spoken to for a minute"


class Connector(aiohttp.TCPConnector):
    """Any number of connections, each of which is made within a block of `connecting`. Must be made in a running event
    loop.

    A connection on which the server says more than one answer to a request is reset, and so is one with a byte that
    answers no request: aiohttp would parse and keep all of it. After MOST_UNASKED of these there are no new connections
    for a minute: ClientConnectorError, as for a server that refuses them. The same goes for a server that is barred by its
    `share`. While that is used up, a connection is not read before its turn comes.
    """

    def __init__(
        self, connecting: Callable[[], AbstractContextManager[None]] = nullcontext, share: LoopShare = UNMETERED
    ) -> None:
        super().__init__(limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=_socket, resolver=Resolver())
        self._connecting, self._share = connecting, share
        self._cut_off_at = deque[float](maxlen=MOST_UNASKED)
        self._factory = partial(_Answers, self._loop, self._cut_off, share)  # type: ignore[assignment]  # a subclass of theirs

    def _cut_off(self) -> None:
        self._cut_off_at.append(self._loop.time())

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> Any:
        if why := self._why_not():
            raise aiohttp.ClientConnectorError(options["req"].connection_key, OSError(errno.ECONNREFUSED, why))
        with self._connecting():
            return await super()._wrap_create_connection(*args, **options)

    def _why_not(self) -> str:
        """Why the server is not spoken to now; empty if it is."""
        at = self._cut_off_at
        is_unasked = len(at) == MOST_UNASKED and self._loop.time() < at[0] + _UNASKED_FOR
        return _UNASKED if is_unasked else _TOO_MUCH if self._share.is_barred else ""


class _Answers(ResponseHandler):
    """The answers on one connection: at most one for each request, which begins with its `set_response_params`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cut_off: Callable[[], None], share: LoopShare) -> None:
        super().__init__(loop)
        self._cut_off, self._share = cut_off, share
        self._asked, self._answers, self._interim = False, 0, 0
        self._rest = _NOTHING
        self._turn: asyncio.Task[None] | None = None

    def set_response_params(self, **params: Any) -> None:
        self._asked, self._answers, self._interim = True, 0, 0
        super().set_response_params(**params)

    def feed_data(self, data: Any, size: int = 0) -> None:
        """One message has been parsed."""
        if 100 <= data[0].code < 200 and data[0].code != 101:
            self._interim += 1
        else:
            self._answers += 1
        if not self._is_too_much():
            super().feed_data(data, size)

    def data_received(self, data: bytes) -> None:
        if not data:  # the parser goes on with what it has
            began = perf_counter()
            super().data_received(data)
            self._share.spend(began)
        self._rest = memoryview(b"".join((self._rest, data))) if self._rest else memoryview(data)
        if self._turn is None:
            self._parse(is_our_turn=False)

    def _parse(self, *, is_our_turn: bool) -> None:
        """Parses what has arrived, a slice at a time as long as it is read, and something is left of the share."""
        while self._rest and not self._reading_paused:
            if self._share.is_barred:
                self._reset(_TOO_MUCH)
            elif self._share.is_used_up and not is_our_turn:
                if self.transport is not None:
                    self.transport.pause_reading()
                self._turn = self._loop.create_task(self._wait())
                return
            elif self._is_over():
                self._reset(_MORE_ANSWERS)
            else:
                began, is_our_turn = perf_counter(), False
                self._parse_slice()
                self._share.spend(began)

    def _parse_slice(self) -> None:
        piece, self._rest = self._rest[:_SLICE], self._rest[_SLICE:] or _NOTHING
        super().data_received(bytes(piece))
        if self._is_too_much():
            self._reset(_MORE_ANSWERS)

    async def _wait(self) -> None:
        """Until it is our turn nothing is read, so the server waits too."""
        await self._share.pause()
        self._turn = None
        if self.transport is None or self.transport.is_closing():
            return
        self._parse(is_our_turn=True)
        if self._turn is None and not (self._reading_paused or self._buffer_paused):
            self.transport.resume_reading()

    def resume_reading(self, resume_parser: bool = True) -> None:
        if not self._reading_paused:
            return  # aiohttp asks for each piece that is read, and has the parser go on with nothing
        super().resume_reading(resume_parser)
        if self._turn is not None and self.transport is not None:
            self.transport.pause_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        while self._rest and not self._is_over():
            self._parse_slice()
        if self._rest:  # what was not asked for counts, though it waited for its turn when the server closed
            self._cut_off()
        payload = self._payload
        super().connection_lost(exc)
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            # aiohttp leaves a reader waiting whose answer went on with what is no HTTP.
            payload.set_exception(aiohttp.ClientConnectionError("Connection lost"))

    def _is_over(self) -> bool:
        """Whether nothing is due: no request was sent, or the answer to it is complete."""
        return not self._asked or (self._answers > 0 and (self._payload is None or self._payload.is_eof()))

    def _is_too_much(self) -> bool:
        return self._answers > 1 or self._interim > _MOST_INTERIM

    def _reset(self, why: str) -> None:
        """The caller that waits for the answer gets an error; one that is complete is still read."""
        transport, self._parser, self._rest = self.transport, None, _NOTHING
        if transport is None or transport.is_closing():
            return
        if why == _MORE_ANSWERS:
            self._cut_off()
        error = aiohttp.ClientConnectionError(why)
        if not self._answers:
            self._buffer.clear()
            self.set_exception(error)
        elif self._payload is not None and not self._payload.is_eof():
            self._payload.set_exception(error)
        self.force_close()
        transport.abort()


class _Socket(socket.socket):
    """A socket that only its users close, never the garbage collector.

    When a connection breaks while uvloop takes it over, uvloop closes the descriptor without the socket object. The
    object, collected later, would close a descriptor reused by then: the connection to another, healthy cluster. uvloop
    even aborts the process over that. All other code that abandons a socket here closes it explicitly.
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


PATIENCE = 2.0
"""Seconds for which a look-up is awaited before the last known addresses are taken."""

_MOST_KNOWN = 4096
"""Names whose addresses are remembered, about 1 KiB each."""

_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class _Name(NamedTuple):
    host: str
    port: int
    family: int


# What is known and what is being looked up belongs to the process: a session ends with its connection, a look-up may take
# longer. Threads write here, so each access has the lock.
_LOCK = threading.Lock()
_LOOKED_UP: dict[_Name, Future[list[ResolveResult]]] = {}
_KNOWN: OrderedDict[_Name, list[ResolveResult]] = OrderedDict()


class Resolver(AbstractResolver):
    """The addresses of names. Raises socket.gaierror, or another OSError or ValueError, for one that was never known.

    So a name whose DNS is silent delays no others. The event loop resolves names in a few threads that all clusters
    share; four names without an answer would shut out every other cluster at the next reconnect. Here each name has a
    thread of its own while it is looked up, by the system's `getaddrinfo`, and one look-up at a time. The last known
    addresses outlive a look-up that fails or takes long.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        name = _Name(host, port, family)
        with _LOCK:
            known = _KNOWN.get(name)
        found = asyncio.wrap_future(_look_up(name))
        found.add_done_callback(_seen)
        await asyncio.wait((found,), timeout=None if known is None else PATIENCE)
        if known is not None and (not found.done() or found.exception() is not None):
            return list(known)
        return list(await found)

    async def close(self) -> None:
        """Nothing: a look-up that is under way ends by itself."""


def _look_up(name: _Name) -> Future[list[ResolveResult]]:
    """The look-up of this name that is under way, or a new one."""
    with _LOCK:
        found = _LOOKED_UP.get(name)
        if found is None:
            found = _LOOKED_UP[name] = Future()
            found.set_running_or_notify_cancel()  # a caller that gives up waiting does not cancel it
            threading.Thread(target=_answer, args=(name, found), name="look-up", daemon=True).start()
    return found


def _answer(name: _Name, found: Future[list[ResolveResult]]) -> None:
    try:
        addresses = _addresses(name)
    except (OSError, ValueError, OverflowError) as error:
        with _LOCK:
            del _LOOKED_UP[name]
        found.set_exception(error)
        return
    with _LOCK:
        del _LOOKED_UP[name]
        _KNOWN[name] = addresses
        _KNOWN.move_to_end(name)
        if len(_KNOWN) > _MOST_KNOWN:
            _KNOWN.popitem(last=False)
    found.set_result(addresses)


def _addresses(name: _Name) -> list[ResolveResult]:
    found = socket.getaddrinfo(
        name.host, name.port, type=socket.SOCK_STREAM, family=name.family, flags=socket.AI_ADDRCONFIG
    )
    results = []
    for family, _, proto, _, address in found:
        numeric, _ = socket.getnameinfo(address, socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        results.append(
            ResolveResult(hostname=name.host, host=numeric, port=name.port, family=family, proto=proto, flags=_NUMERIC)
        )
    return results


def _seen(found: asyncio.Future[list[ResolveResult]]) -> None:
    """An error for which no caller waits any more is not logged."""
    if not found.cancelled():
        found.exception()
