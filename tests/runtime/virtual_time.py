"""An event loop on which waiting costs nothing: when nobody can run, the clock jumps to the next timer.

For tests without sockets and threads. A test that waits for something that never comes fails at once.
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta

import anyio


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = 0.0
        super().__init__(_Impatient(self))

    def time(self) -> float:
        return self._virtual

    def jump(self, seconds: float) -> None:
        self._virtual += seconds


class _Impatient(selectors.DefaultSelector):
    """Asks the system what is ready now, and lets the loop's clock jump instead of waiting."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("every task waits, and no timer will ever wake one")
        if not ready and timeout is not None and timeout > 0:
            self._loop.jump(timeout)
        return ready


class VirtualClock:
    """The clock of that loop; its wall clock starts at noon."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
