"""The measure of the event loop's turns."""

from __future__ import annotations

import asyncio

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.runtime.event_loop_lag import INTERVAL, LONG, measure_event_loop_lag
from multikueue_simulator.time import VirtualLoop

pytestmark = pytest.mark.anyio


async def measured(*busy: float) -> list[float]:
    """What is told while the loop is busy for so long at a time."""
    told: list[float] = []
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: measure_event_loop_lag(told.append, clock=loop.time))
        await anyio.sleep(10 * INTERVAL)
        for seconds in busy:
            loop.jump(seconds)
            await anyio.sleep(10 * INTERVAL)
        tasks.cancel_scope.cancel()
    return told


async def test_a_loop_that_is_never_busy_is_never_late() -> None:
    told = await measured()
    assert len(told) == pytest.approx(10, abs=1)
    assert max(told) == pytest.approx(0)


async def test_a_long_turn_is_told_to_one_interval() -> None:
    told = await measured(0.5, 3)
    assert sorted(told)[-2:] == pytest.approx([0.5, 3], abs=1.01 * INTERVAL)
    assert sum(late > 2 * INTERVAL for late in told) == 2, "the turns after it are as short as ever"


@pytest.mark.parametrize(("seconds", "lines"), [(LONG / 2, 0), (LONG + INTERVAL, 1)], ids=["a short one", "a long one"])
async def test_a_long_turn_is_worth_a_line(seconds: float, lines: int) -> None:
    with capture_logs() as logs:
        await measured(seconds)
    assert [line["event"] for line in logs] == ["event_loop.held"] * lines


async def test_once_it_is_cancelled_no_timer_is_left() -> None:
    told: list[float] = []
    with anyio.move_on_after(5 * INTERVAL):
        await measure_event_loop_lag(told.append, clock=asyncio.get_running_loop().time)
    count = len(told)
    await anyio.sleep(10 * INTERVAL)
    assert len(told) == count
