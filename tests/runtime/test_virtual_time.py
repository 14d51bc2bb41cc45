"""The loop that the other tests of this room lean on."""

from __future__ import annotations

import time
from datetime import timedelta

import anyio
import pytest

from multikueue.runtime import Clock
from tests.runtime.virtual_time import VirtualClock, VirtualTimeLoop

pytestmark = pytest.mark.anyio


async def test_an_hour_passes_at_once_and_on_the_clock() -> None:
    clock: Clock = VirtualClock()
    began, wall = time.monotonic(), clock.now()

    await clock.sleep(3600)

    assert clock.now() - wall == timedelta(hours=1)
    assert time.monotonic() - began < 5


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[int] = []

    async def sleep(seconds: int) -> None:
        await anyio.sleep(seconds)
        woken.append(seconds)

    async with anyio.create_task_group() as tasks:
        for seconds in (30, 10, 20):
            tasks.start_soon(sleep, seconds)

    assert woken == [10, 20, 30]


def test_a_wait_without_end_fails() -> None:
    loop = VirtualTimeLoop()
    waiting = loop.create_future()

    with pytest.raises(RuntimeError, match="every task waits"):
        loop.run_until_complete(waiting)

    waiting.cancel()
    loop.close()
