"""The connections of a session: how long they are kept, and what becomes of them when the other side is gone."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from multikueue.kube.transport.resolver import Resolver

__all__ = ["MOST_UNASKED", "Connector"]

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

_SLICE = 2**16
"""Bytes that are parsed in one go: some 1,700 of the shortest answers."""


class Connector(aiohttp.TCPConnector):
    """Any number of connections, each of which is made within a block of `connecting`. Must be made in a running event
    loop.

    A connection on which the server says more than one answer to a request is reset, and so is one with a byte that
    nobody asked for: aiohttp would parse and keep all of it. After MOST_UNASKED of these there are no new connections
    for a minute: ClientConnectorError, as for a server that refuses them.
    """

    def __init__(self, connecting: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        super().__init__(limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=_socket, resolver=Resolver())
        self._connecting = connecting
        self._cut_off_at = deque[float](maxlen=MOST_UNASKED)
        self._factory = partial(_Answers, self._loop, self._cut_off)  # type: ignore[assignment]  # a subclass of theirs

    def _cut_off(self) -> None:
        self._cut_off_at.append(self._loop.time())

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> Any:
        at = self._cut_off_at
        if len(at) == MOST_UNASKED and self._loop.time() < at[0] + _UNASKED_FOR:
            why = OSError(
                errno.ECONNREFUSED, "it sends answers that nobody asked for, and is not spoken to for a minute"
            )
            raise aiohttp.ClientConnectorError(options["req"].connection_key, why)
        with self._connecting():
            return await super()._wrap_create_connection(*args, **options)


class _Answers(ResponseHandler):
    """The answers on one connection: at most one for each request, which begins with its `set_response_params`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cut_off: Callable[[], None]) -> None:
        super().__init__(loop)
        self._cut_off = cut_off
        self._asked, self._answers, self._interim = False, 0, 0

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
        for start in range(0, len(data), _SLICE) if len(data) > _SLICE else (0,):
            if data and self._is_over():
                self._reset()
                return
            super().data_received(data[start : start + _SLICE] if len(data) > _SLICE else data)
            if self._is_too_much():
                self._reset()
                return

    def _is_over(self) -> bool:
        """Whether nothing is due: no request was sent, or the answer to it is complete."""
        return not self._asked or (self._answers > 0 and (self._payload is None or self._payload.is_eof()))

    def _is_too_much(self) -> bool:
        return self._answers > 1 or self._interim > _MOST_INTERIM

    def _reset(self) -> None:
        """Whoever waits for the answer is told; one that is complete is still read."""
        transport, self._parser = self.transport, None
        if transport is None or transport.is_closing():
            return
        self._cut_off()
        if not self._answers:
            self._buffer.clear()
            self.set_exception(aiohttp.ClientConnectionError("more answers than were asked for"))
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
