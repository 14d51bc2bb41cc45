"""The lag of the event loop, which the lease, the probes and all tasks share.

A timer is set again and again. How late it fires is how long the loop was busy with something else, except for the part
before it was due: the figure is right to one `PROBE_INTERVAL`. What kept the loop busy is not known here; but Linux tells how
long its thread was ready to run and got no processor, which is no work of ours.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import NoReturn

import anyio

from multikueue.telemetry import get_logger

__all__ = ["LOGGED_LAG", "PROBE_INTERVAL", "Told", "measure_event_loop_lag", "processor_awaited"]

PROBE_INTERVAL = timedelta(milliseconds=20)
LOGGED_LAG = timedelta(milliseconds=250)
"""A lag of that much is logged."""

_SCHEDSTAT = "/proc/thread-self/schedstat"

Told = Callable[[float, float], None]
"""Takes how many seconds late a timer was, and how many of them were ours: the thread ran, or waited for anything but a
processor."""

log = get_logger()


@contextmanager
def processor_awaited() -> Iterator[Callable[[], float]]:
    """Yields a function: seconds so far in which this thread was ready to run and got no processor.

    Always 0 where the system does not say (Linux does, with scheduler statistics). For the thread that entered the
    block.
    """
    try:
        statistics = os.open(_SCHEDSTAT, os.O_RDONLY)
    except OSError:
        yield lambda: 0.0
        return
    try:
        yield lambda: int(os.pread(statistics, 100, 0).split()[1]) / 1e9
    finally:
        os.close(statistics)


async def measure_event_loop_lag(
    told: Told,
    *,
    clock: Callable[[], float] = time.monotonic,
    awaited: Callable[[], AbstractContextManager[Callable[[], float]]] = processor_awaited,
) -> NoReturn:
    """Passes the lag of each timer to `told`, until cancelled.

    The timer is a callback of the loop itself: a task would be woken one turn later.
    """
    loop = asyncio.get_running_loop()

    timer: asyncio.TimerHandle | None = None

    def begin(before: float) -> None:
        nonlocal timer
        timer = loop.call_later(PROBE_INTERVAL.total_seconds(), fired, clock() + PROBE_INTERVAL.total_seconds(), before)

    def fired(due: float, before: float) -> None:
        late, until = max(0.0, clock() - due), waited()
        ours = max(0.0, late - (until - before))
        told(late, ours)
        if late >= LOGGED_LAG.total_seconds():
            log.warning("event_loop.held", seconds=round(late, 3), ours=round(ours, 3))
        begin(until)

    with awaited() as waited:
        begin(waited())
        try:
            await anyio.sleep_forever()
        finally:
            if timer is not None:
                timer.cancel()
    raise AssertionError("forever has no end")
