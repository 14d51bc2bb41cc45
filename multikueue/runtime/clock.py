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


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
