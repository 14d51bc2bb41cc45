"""A turnstile: so many go through at a time, so that what all begin at once does not meet its own deadlines in a crowd."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Turnstile"]


class Turnstile:
    """At most `width` are inside, in the order in which they came. After `seconds` nobody counts any more: one who gets
    stuck holds up the others no longer than that.

    Owned by one event loop.
    """

    def __init__(self, width: int, seconds: float) -> None:
        self._free, self._seconds = width, seconds
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> Callable[[], None]:
        """Waits until there is room. The returned function leaves; it may be called again, for nothing."""
        if self._free:
            self._free -= 1
        else:
            await self._admitted()
        return self._way_out()

    async def _admitted(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                self._left()  # let in, and cancelled before it knew
            raise

    def _way_out(self) -> Callable[[], None]:
        is_inside = True

        def leave() -> None:
            nonlocal is_inside
            if is_inside:
                is_inside = False
                late.cancel()
                self._left()

        late = asyncio.get_running_loop().call_later(self._seconds, leave)
        return leave

    def _left(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
