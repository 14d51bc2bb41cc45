"""The clock of the shell, and the fence of the leader by it. The pure rooms get the time as an argument."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from typing import Protocol


class Clock(Protocol):
    """The time source of the shell; a test passes one of its own."""

    def now(self) -> datetime:
        """The wall clock in UTC, without its steps: for times in objects, and for comparison with those."""

    def monotonic(self) -> float:
        """Seconds since some instant: for measuring durations."""

    async def sleep(self, seconds: float) -> None:
        """Sleeps; a checkpoint even if `seconds` is 0."""


boot_time: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)
"""Seconds since the machine started, including the time it was suspended, where the system knows it.

For leases that must expire during a suspend: `monotonic` stands still while a laptop or a virtual machine sleeps.
"""


SLEW = 0.1
"""The largest part by which `now` runs faster or slower than time, to catch up with a wall clock that was set."""


BELIEVED_STEP = timedelta(days=1)
"""A wall clock that is set by more was never right, and is believed at once."""


class SystemClock:
    """The machine's clock, without its steps: the difference of two `now` is the time that passed between them.

    A wall clock that is set by an hour must not make a worker lost at once, nor a wait longer by that hour. So `now` is
    the wall clock at the start plus the time since then, suspends included. It catches up with a step little by little,
    since others write times by their own clocks. But a machine that did not know the day when it started learns it at
    once.
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
            gap = gap if abs(gap) > BELIEVED_STEP.total_seconds() else most if gap > 0 else -most
        self._looked, self._offset = looked, self._offset + gap
        return datetime.fromtimestamp(looked + self._offset, UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Mandate:
    """Permission to act until an instant of `clock`, in seconds; none at first. Only its owner extends and ends it.

    The lease says which process acts. A mandate is the holder's own part of it: permission to write until an instant of its
    own clock, which comes before any other process may take the lease. So the check before a write needs no call, and no
    task that runs in time: a process that was frozen for an hour finds its mandate over at the first check.
    """

    __slots__ = ("_clock", "_until")

    def __init__(self, *, until: float = -inf, clock: Callable[[], float] = boot_time) -> None:
        self._until, self._clock = until, clock

    @classmethod
    def standing(cls) -> Mandate:
        """A mandate that never ends: no other process might act."""
        return cls(until=inf)

    def is_valid(self) -> bool:
        """Whether this process may act now. Call it directly before each effect, with no wait in between."""
        return self._clock() < self._until

    def has_lapsed(self) -> bool:
        """Whether a mandate expired and `end` was not called since."""
        return -inf < self._until <= self._clock()

    def left(self) -> float:
        """Seconds until the mandate expires, 0 if it has."""
        return max(0.0, self._until - self._clock())

    def extend(self, until: float) -> None:
        """Permission until then; never shortens the mandate."""
        self._until = max(self._until, until)

    def end(self) -> None:
        """End the permission now."""
        self._until = -inf
