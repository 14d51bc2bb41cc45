"""The bodies that are coming in: each no larger than it may be, and all of them together no more than MOST_HELD bytes.

What comes slowly takes little. Where it is too much all the same, the body that we have waited for longest gives way: an API
server's is here within moments, so nobody can keep it out by holding back his own.
"""

from __future__ import annotations

import anyio
from aiohttp import web

__all__ = ["MOST_HELD", "Bodies"]

MOST_HELD = 64 * 2**20


class Bodies:
    """How many bytes of each body are here, those that began first being first."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._held: dict[anyio.CancelScope, int] = {}

    async def read(self, request: web.Request) -> bytes:
        """The whole body. Raises HTTPRequestEntityTooLarge, and TimeoutError if it had to give way."""
        body, scope = bytearray(), anyio.CancelScope()
        self._held[scope] = 0
        try:
            with scope:
                self._bound(request.content_length or 0)
                async for piece in request.content.iter_any():
                    body += piece
                    self._bound(len(body))
                    if not self._has_room(scope, len(body)):
                        break
                else:
                    return bytes(body)
        finally:
            self._held.pop(scope, None)
        raise TimeoutError

    def _bound(self, size: int) -> None:
        if size > self._largest:
            raise web.HTTPRequestEntityTooLarge(max_size=self._largest, actual_size=size)

    def _has_room(self, scope: anyio.CancelScope, size: int) -> bool:
        """Whether that body may go on, of which so much is here: unless it had to give way, be it now."""
        if scope in self._held:
            self._held[scope] = size
        while sum(self._held.values()) > MOST_HELD:
            longest = next(iter(self._held))
            del self._held[longest]
            longest.cancel()
        return scope in self._held
