"""Request bodies being received: each is limited in size, and all together hold little more than ENOUGH bytes.

Beyond that the oldest body goes on, and the others wait in their sockets: an API server whose review is refused refuses
its user's request, while a short wait does no harm. Small bodies never wait. A body whose sender has kept us waiting
for more than SLOW_BODY_AFTER gives way to bodies that wait for room; beyond MOST_HELD bytes, so does the body that has
kept us waiting longest. An API server's body is here within moments, so no client can keep it out by holding back its
own.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import anyio
from aiohttp import web

__all__ = ["ENOUGH", "MOST_HELD", "SLOW_BODY_AFTER", "SMALL", "Bodies"]

ENOUGH = 4 * 2**20
MOST_HELD = 3 * ENOUGH
SMALL = 2**16
"""Bytes. A body up to this size never waits, which covers nearly all reviews; a larger one is read in pieces of it."""

SLOW_BODY_AFTER = timedelta(seconds=3)


class Bodies:
    """The bodies being received, oldest first, each with the part that has arrived."""

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
