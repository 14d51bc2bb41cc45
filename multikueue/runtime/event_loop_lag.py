"""The lag of the event loop, for which everybody waits: the lease, the probes and all tasks share it.

A timer is set again and again, and how late it fires is how long the loop was busy with something else, but for the
part that came before it was due: the figure is right to one `INTERVAL`. What kept the loop busy is not known here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NoReturn

import anyio

from multikueue.telemetry import get_logger

__all__ = ["INTERVAL", "LONG", "measure_event_loop_lag"]

INTERVAL = 0.02
LONG = 0.25
"""Seconds from which on a turn is worth a line of the log."""

log = get_logger()


async def measure_event_loop_lag(
    told: Callable[[float], None], *, clock: Callable[[], float] = time.monotonic
) -> NoReturn:
    """Tells, until cancelled, how many seconds late each timer was. A callback of the loop itself, since a task would be
    woken one turn later."""
    loop = asyncio.get_running_loop()

    timer: asyncio.TimerHandle | None = None

    def begin() -> None:
        nonlocal timer
        timer = loop.call_later(INTERVAL, fired, clock() + INTERVAL)

    def fired(due: float) -> None:
        late = max(0.0, clock() - due)
        told(late)
        if late >= LONG:
            log.warning("event_loop.held", seconds=round(late, 3))
        begin()

    begin()
    try:
        await anyio.sleep_forever()
    finally:
        if timer is not None:
            timer.cancel()
    raise AssertionError("for ever has no end")
