"""The clock of the shell. The pure rooms get the time as an argument."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """What the shell asks about time; a test gives one of its own."""

    def now(self) -> datetime:
        """The wall clock, with zone UTC, without its steps: for what is written into objects, and compared with it."""

    def monotonic(self) -> float:
        """Seconds since some instant: for measuring how long something took."""

    async def sleep(self, seconds: float) -> None:
        """Waits; a checkpoint even if `seconds` is 0."""


def boot_time() -> float:
    """Seconds since the machine started, those it was suspended for included where the system can tell.

    For leave that must not outlast a nap: `monotonic` stands still while a laptop or a virtual machine sleeps.
    """
    return time.clock_gettime(_BOOT) if _BOOT is not None else time.monotonic()


_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)


SLEW = 0.1
"""How much faster or slower than time itself `now` goes, at most, to come up with a wall clock that was set."""


LEAP = 86_400.0
"""Seconds by which a wall clock may be off. One that is set by more was never right, and is believed at once."""


class SystemClock:
    """The machine's clock, without its steps: how far apart two answers of `now` are tells how much time went by.

    A wall clock that is set by an hour must not make a worker lost at once, nor a wait longer by that hour. So `now` is the
    wall clock at the start and what has passed since, naps included; a step is made up for little by little, as what
    others write is by their own clocks. But a machine that did not know the day when it started learns it at once.
    """

    def __init__(self, wall: Callable[[], float] = time.time, passed: Callable[[], float] = boot_time) -> None:
        self._wall, self._passed = wall, passed
        self._looked = passed()
        self._offset = wall() - self._looked

    def now(self) -> datetime:
        looked = self._passed()
        most = SLEW * (looked - self._looked)
        gap = self._wall() - looked - self._offset
        if not -most <= gap <= most:
            gap = gap if abs(gap) > LEAP else most if gap > 0 else -most
        self._looked, self._offset = looked, self._offset + gap
        return datetime.fromtimestamp(looked + self._offset, UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
