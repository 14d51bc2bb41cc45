"""The clock of the shell. The pure rooms get the time as an argument."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

import anyio


class Clock(Protocol):
    """What the shell asks about time; a test gives one of its own."""

    def now(self) -> datetime:
        """The wall clock, with zone UTC: for what is written into objects."""

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


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
