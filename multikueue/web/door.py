"""Limits of a port: how long a connection may keep it waiting, how many there are, and how much their bodies hold.

A connection is aborted if it sends no request within HEAD_TIMEOUT after it was made, or within IDLE_TIMEOUT after an answer
(which it may not have read), or if the head of a request has more than LARGEST_HEAD bytes. With MOST_CALLERS connections on
a port, a new one replaces the one that has kept us waiting longest, for a request or else for the body of one: so no client
can shut a port for others by holding connections to it.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import cast

import anyio
from aiohttp import web

__all__ = [
    "ENOUGH",
    "HANDSHAKE_TIMEOUT",
    "HEAD_TIMEOUT",
    "IDLE_TIMEOUT",
    "LARGEST_HEAD",
    "MOST_CALLERS",
    "MOST_HELD",
    "SLOW_BODY_AFTER",
    "SMALL",
    "Bodies",
    "Door",
]

HANDSHAKE_TIMEOUT = timedelta(seconds=5)
HEAD_TIMEOUT = timedelta(seconds=10)
IDLE_TIMEOUT = timedelta(minutes=2)
"""More than the 90 s for which an API server keeps a connection: it must be the first to close, or a review now and then
meets a closing connection."""

LARGEST_HEAD = 2**16
"""Bytes. aiohttp limits each line only, and its error keeps the part of a longer line until garbage collection."""

MOST_CALLERS = 1000
"""More than the requests that three API servers have in flight at once."""

_END_OF_HEAD = b"\r\n\r\n"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Door:
    """The connections of one port: those that we wait for, longest first, and those with a request being answered."""

    def __init__(self) -> None:
        self._waiting: dict[web.RequestHandler, _Caller] = {}
        self._busy: dict[web.RequestHandler, tuple[_Caller, web.Request]] = {}

    def admit(self, server: web.Server) -> asyncio.Protocol:
        """The protocol of a new connection; the event loop calls this for each."""
        return _Caller(self, server())

    def enter(self, caller: _Caller) -> None:
        if len(self._waiting) + len(self._busy) >= MOST_CALLERS:
            longest = next(self._keep_waiting(), caller)
            longest.hang_up()
            self.leave(longest)
            if longest is caller:
                return
        self._wait(caller, HEAD_TIMEOUT.total_seconds())

    def _keep_waiting(self) -> Iterator[_Caller]:
        """The connections that keep us waiting, longest first."""
        yield from self._waiting.values()
        yield from (caller for caller, request in self._busy.values() if not request.content.is_eof())

    def leave(self, caller: _Caller) -> None:
        caller.expect_within(None)
        self._waiting.pop(caller.answering, None)
        self._busy.pop(caller.answering, None)

    @web.middleware
    async def attend(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        caller = self._waiting.pop(request.protocol, None)
        if caller is None:  # aborted just now
            return await handler(request)
        caller.expect_within(None)
        self._busy[request.protocol] = caller, request
        try:
            return await handler(request)
        finally:
            if self._busy.pop(request.protocol, None):
                self._wait(caller, IDLE_TIMEOUT.total_seconds())

    def _wait(self, caller: _Caller, seconds: float) -> None:
        caller.expect_head()
        self._waiting[caller.answering] = caller
        caller.expect_within(seconds)


class _Caller(asyncio.Protocol):
    """One connection: passes its data on to aiohttp, and reports its begin and end to the door."""

    def __init__(self, door: Door, answering: web.RequestHandler) -> None:
        self.answering = answering
        self._door = door
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._head: int | None = 0
        self._end = b""

    def expect_head(self) -> None:
        """Expects a new request. `_head` counts the bytes of its head so far, `_end` has the last of them; `_head` is
        None once the head is complete."""
        self._head, self._end = 0, b""

    def expect_within(self, seconds: float | None) -> None:
        """Aborts the connection in so many seconds; None: not any more."""
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = None if seconds is None else loop.call_later(seconds, self.hang_up)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass of it
        self.answering.connection_made(transport)
        self._door.enter(self)

    def data_received(self, data: bytes) -> None:
        if self._head is not None and not self._is_head(self._head, data):
            self.hang_up()
            return
        self.answering.data_received(data)

    def _is_head(self, before: int, data: bytes) -> bool:
        """Whether the head, with `data` after `before` bytes, is within LARGEST_HEAD."""
        beginning = self._end + data[:LARGEST_HEAD]
        self._end = beginning[1 - len(_END_OF_HEAD) :]
        self._head = None if _END_OF_HEAD in beginning else before + len(data)
        return self._head is None or self._head < LARGEST_HEAD

    def eof_received(self) -> None:
        self.answering.eof_received()

    def pause_writing(self) -> None:
        self.answering.pause_writing()

    def resume_writing(self) -> None:
        self.answering.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        self._door.leave(self)
        self.answering.connection_lost(error)


ENOUGH = 2 * 2**20
MOST_HELD = 6 * ENOUGH
SMALL = 2**16
"""Bytes. A body up to this size never waits, which covers nearly all reviews; a larger one is read in pieces of it."""

SLOW_BODY_AFTER = timedelta(seconds=3)


class Bodies:
    """The bodies being received, oldest first, each with the part that has arrived.

    Each is limited in size, and all together hold little more than ENOUGH bytes. Beyond that the oldest body goes on, and
    the others wait in their sockets: an API server whose review is refused refuses its user's request, while a short wait
    does no harm. Small bodies never wait. A body whose sender has kept us waiting for more than SLOW_BODY_AFTER gives way
    to bodies that wait for room; beyond MOST_HELD bytes, so does the body that has kept us waiting longest. An API server's
    body is here within moments, so no client can keep it out by holding back its own.
    """

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._coming: dict[_Body, None] = {}
        self._changed = anyio.Event()

    async def read(self, request: web.Request) -> bytes:
        """The whole body. Raises HTTPRequestEntityTooLarge, and TimeoutError if it had to give way."""
        self._bound(request.content_length or 0)
        body = _Body()
        self._coming[body] = None
        try:
            with body.scope:
                return await self._whole(body, request)
        finally:
            self._coming.pop(body, None)
            self._notify()
        raise TimeoutError

    async def _whole(self, body: _Body, request: web.Request) -> bytes:
        is_small = request.content_length is not None and request.content_length <= SMALL
        while True:
            if not is_small and not request.content.is_eof():
                await self._room_for(body)
            with body.awaited():
                piece = await request.content.read(SMALL)
            if not piece:
                return body.content.getvalue()
            body.content.write(piece)
            self._bound(body.size)
            while self._held() > MOST_HELD:
                self._give_way(self._most_awaited())

    def _bound(self, size: int) -> None:
        if size > self._largest:
            raise web.HTTPRequestEntityTooLarge(max_size=self._largest, actual_size=size)

    async def _room_for(self, body: _Body) -> None:
        """Waits until the body may go on. The sender waits too: TCP flow control stops it while we do not read."""
        while self._held() >= ENOUGH and body is not next(iter(self._coming), body):
            late = self._most_awaited()
            left = SLOW_BODY_AFTER.total_seconds() - late.waited
            if left <= 0:
                self._give_way(late)
                continue
            with anyio.move_on_after(left):
                await self._changed.wait()

    def _held(self) -> int:
        return sum(body.size for body in self._coming)

    def _most_awaited(self) -> _Body:
        return max(self._coming, key=lambda body: body.waited)

    def _give_way(self, body: _Body) -> None:
        del self._coming[body]
        body.scope.cancel()
        self._notify()

    def _notify(self) -> None:
        """Wakes the bodies that wait for room."""
        self._changed.set()
        self._changed = anyio.Event()


class _Body:
    """One body being received. `content` returns the written bytes without a copy."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.content = io.BytesIO()
        self._waited = 0.0
        self._since: float | None = None

    @property
    def size(self) -> int:
        return self.content.tell()

    @property
    def waited(self) -> float:
        """Seconds for which its sender has kept us waiting, in all."""
        return self._waited + (_now() - self._since if self._since is not None else 0.0)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        self._since = _now()
        try:
            yield
        finally:
            self._waited, self._since = self.waited, None


def _now() -> float:
    return asyncio.get_running_loop().time()
