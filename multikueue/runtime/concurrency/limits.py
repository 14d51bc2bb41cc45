"""How much runs at the same time: at a turnstile, under way to one server, or until the first of several ends."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

import anyio

__all__ = ["START", "AdaptiveLimit", "Turnstile", "first"]

MORE = 2
"""How many more may be inside for each one that is stuck there."""


class Turnstile:
    """At most `width` are inside, in the order in which they came. After `seconds` nobody counts any more: one who gets stuck
    holds up the others no longer than that, and lets `MORE` more in until it leaves, for who is stuck needs no room. So
    hundreds that are stuck hold up the last one for some `seconds`, and not for a turn of each.

    Owned by one event loop.

    What all begin at once does not meet its own deadlines in a crowd.
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


async def first(*works: Callable[[], Awaitable[object]]) -> None:
    """Runs all; when one returns, cancels the rest and returns. An exception is raised in an exception group."""
    async with anyio.create_task_group() as tasks:

        async def run(work: Callable[[], Awaitable[object]]) -> None:
            await work()
            tasks.cancel_scope.cancel()

        for work in works:
            tasks.start_soon(run, work)


START = 12
LEAST = 2

SLOW = 2.0
"""An answer is late beyond so many times the shortest of late,"""

SLACK = 0.1
"""and so many seconds more: on a short way, what varies is our own loop's doing."""

AGING = 1.01
"""Each answer lets the shortest time grow by this: after some hundred answers a way that has become longer is the normal
one."""


class AdaptiveLimit:
    """A limit that grows while answers come in time, and shrinks when they come late (AIMD, as TCP's window).

    - It grows by one with each answer until it shrinks for the first time, then by one with as many answers as it lets be
      under way; in both cases only while it is used up.
    - Late answers are the work of a queue in front of the server, so it shrinks by a tenth; a server that says that it has
      too many requests has it halved.
    - What was sent before it shrank does not shrink it again.

    It stays between `LEAST` and `most`. Owned by one event loop; times are seconds of one clock.
    """

    def __init__(self, most: int) -> None:
        self._most, self._least = most, min(LEAST, most)
        self._value = float(min(START, most))
        self._shortest = float("inf")
        self._shrank_at: float | None = None

    def __call__(self) -> int:
        return int(self._value)

    def answered(self, *, at: float, seconds: float, was_used_up: bool) -> None:
        """An answer came at that time. `was_used_up`: as much was under way as may be."""
        is_late = seconds > SLOW * self._shortest + SLACK
        self._shortest = min(seconds, self._shortest * AGING)
        if is_late:
            self._shrink(0.9, at, seconds)
        elif was_used_up:
            self._value = min(self._most, self._value + (1 if self._shrank_at is None else 1 / self._value))

    def refused(self, *, at: float, seconds: float) -> None:
        """The server has too many requests."""
        self._shrink(0.5, at, seconds)

    def _shrink(self, by: float, at: float, seconds: float) -> None:
        if self._shrank_at is None or at - seconds >= self._shrank_at:
            self._value, self._shrank_at = max(self._least, self._value * by), at
