"""A turnstile: so many go through at a time, so that what all begin at once does not meet its own deadlines in a crowd."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

__all__ = ["Turnstile"]

MORE = 2
"""How many more may be inside for each one that is stuck there."""


class Turnstile:
    """At most `width` are inside, in the order in which they came. After `seconds` nobody counts any more: one who gets
    stuck holds up the others no longer than that, and lets `MORE` more in until it leaves, for who is stuck needs no room.
    So hundreds that are stuck hold up the last one for some `seconds`, and not for a turn of each.

    Owned by one event loop.
    """

    def __init__(self, width: int, seconds: float) -> None:
        self._free, self._seconds, self._owed = width, seconds, 0
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
        is_stuck = False

        def get_stuck() -> None:
            nonlocal is_stuck
            is_stuck = True
            for _ in range(1 + MORE):
                self._left()

        def leave() -> None:
            nonlocal is_inside
            if is_inside:
                is_inside = False
                late.cancel()
                if is_stuck:
                    self._take_back()
                else:
                    self._left()

        late = asyncio.get_running_loop().call_later(self._seconds, get_stuck)
        return leave

    def _take_back(self) -> None:
        """The room that one who was stuck gave to others, as soon as it is free."""
        taken = min(self._free, MORE)
        self._free -= taken
        self._owed += MORE - taken

    def _left(self) -> None:
        if self._owed:
            self._owed -= 1
            return
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
