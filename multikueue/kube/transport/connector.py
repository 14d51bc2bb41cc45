"""The connections of a session: how long they are kept, and what becomes of them when the other side is gone."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import aiohttp

__all__ = ["Connector"]

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


class Connector(aiohttp.TCPConnector):
    """Any number of connections, each of which is made within a block of `connecting`. Must be made in a running event
    loop."""

    def __init__(self, connecting: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        super().__init__(limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=_socket)
        self._connecting = connecting

    async def _wrap_create_connection(self, *args: Any, **options: Any) -> Any:
        with self._connecting():
            return await super()._wrap_create_connection(*args, **options)


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
