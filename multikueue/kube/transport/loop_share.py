"""A share of the event loop for each of many servers, so that what one of them sends is read without cost to the others.

A reader measures the work that it does between two awaits and pays for it (`LoopShare.spend`); after each slice it waits
for its turn (`LoopShare.pause`). Who uses less than its share never waits. Who has used up its share stands in one line with
all others who have (`Leftovers`), and gets what is left over: all of the time in which no other has something to do, and a
third of it otherwise. While its reader waits nothing is read, so the server's own writes wait too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf

import anyio.lowlevel

__all__ = ["BARRED_FOR", "BURST", "PART", "PATIENCE", "SLICE", "UNMETERED", "Leftovers", "LoopShare"]

PART = 0.05
"""The part of the event loop's time that reading of one worker may take at the cost of others: as many as twenty may send all
that they may. A worker that sends more loses nothing while others have nothing to do."""

PATIENCE = 300.0
"""Seconds for which a worker may send more than its share lets us read, without a break, until it is barred: longer than a
list after a restart, or a burst, lasts."""

SLICE = 0.002
"""Seconds of work after which a reader lets others have a turn."""

BURST = 0.1
"""Seconds of work that may be done at once within a share, and the largest debt beyond it: some 500 events. So who exceeds
its share stands in the line until it was (nearly) quiet for some seconds."""

REST = 2.0
"""Seconds that all others get for each second of those who stand in the line, unless they have nothing to do."""

IDLE = 0.0003
"""A turn of the event loop that took others no longer found them with nothing to do."""

ALWAYS = 0.8
"""The part of the time in which a server that never lets us catch up is read, or waits to be read. What a worker says of the
jobs that we send there takes a fifth of the time of these jobs at most, waiting included some three fifths."""

BARRED_FOR = 60.0
"""Seconds for which a server that never let us catch up is not spoken to."""


class Leftovers:
    """What is left of the event loop for those who have used up their shares: one line for all of them, in which each
    has one place. Owned by one event loop. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.spent = 0.0
        """Seconds of work of those beyond their shares."""

        self._settled = 0.0
        self._turn = asyncio.Lock()

    async def wait(self) -> None:
        """Returns when it is the caller's turn to do a slice of work."""
        async with self._turn:
            others = 0.0
            while True:
                began, spent = self.clock(), self.spent
                await asyncio.sleep(0)
                took = self.clock() - began - (self.spent - spent)
                others += took
                if took < IDLE or others >= REST * (self.spent - self._settled):
                    break
            self._settled = self.spent


class LoopShare:
    """The share of one server: `part` (above 0 to 1) of the event loop's time. Owned by one event loop.

    A server that, for all of `patience` seconds, sent more than was read is barred for BARRED_FOR: `is_barred` says so, and
    who has connections to it acts on that. Without `leftovers` nothing is measured, and none waits.
    """

    def __init__(self, leftovers: Leftovers | None = None, *, part: float = 1.0, patience: float = inf) -> None:
        self.seconds = self.stood = 0.0
        """Seconds of work so far, and seconds in which something waited in the line."""

        self._leftovers, self._part, self._patience = leftovers, part, patience
        self._clock = leftovers.clock if leftovers is not None else time.perf_counter
        self._saved, self._slice, self._at = BURST, 0.0, self._clock()
        self._place, self._standing, self._stands_since = asyncio.Lock(), 0, 0.0
        self._judged_at, self._judged = self._at, 0.0
        self._barred_until = -inf

    @property
    def is_used_up(self) -> bool:
        """Whether the next slice of work has to wait in the line."""
        return self._saved < 0 and self._saved + (self._clock() - self._at) * self._part < 0

    @property
    def is_barred(self) -> bool:
        return self._clock() < self._barred_until

    def spend(self, began: float) -> bool:
        """Pays for the work since `began`, a time of `time.perf_counter`. True after a slice: `pause` then."""
        leftovers = self._leftovers
        if leftovers is None:
            return False
        now = self._clock()
        seconds = now - began
        saved = self._saved + (now - self._at) * self._part
        saved = (saved if saved < BURST else BURST) - seconds  # noqa: FURB136  # for each line: min is a call
        if saved < 0:
            leftovers.spent += seconds
            saved = max(saved, -BURST)
        self._saved, self._at = saved, now
        self.seconds += seconds
        self._slice += seconds
        return self._slice >= SLICE

    async def pause(self) -> None:
        """Lets others have a turn; with nothing left of the share, all who wait."""
        self._slice = 0.0
        if self._leftovers is None or not self.is_used_up:
            await anyio.lowlevel.checkpoint()
            return
        if not self._standing:
            self._stands_since = self._clock()
        self._standing += 1
        try:
            async with self._place:
                await self._leftovers.wait()
        finally:
            self._standing -= 1
            now = self._clock()
            self.stood += now - self._stands_since
            self._stands_since = now
        self._judge(now)

    def _judge(self, now: float) -> None:
        elapsed, busy = now - self._judged_at, self.seconds + self.stood
        if elapsed < self._patience:
            return
        if busy - self._judged >= ALWAYS * elapsed:
            self._barred_until = now + BARRED_FOR
        self._judged_at, self._judged = now, busy


UNMETERED = LoopShare()
"""The share of a server that is trusted: nothing is measured."""
