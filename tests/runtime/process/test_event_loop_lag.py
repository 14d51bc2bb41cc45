"""The measure of the event loop's turns."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from multikueue.runtime.process.event_loop_lag import (
    LOGGED_LAG,
    PROBE_INTERVAL,
    measure_event_loop_lag,
    processor_awaited,
)
from multikueue_simulator.time import VirtualLoop

pytestmark = pytest.mark.anyio


class Told:
    """What is told while the loop is busy for so long at a time, of which it waits so long for a processor."""

    def __init__(self) -> None:
        self.late: list[float] = []
        self.ours: list[float] = []

    def __call__(self, late: float, ours: float) -> None:
        self.late.append(late)
        self.ours.append(ours)


async def measured(*busy: float, waiting: float = 0.0) -> Told:
    told, waited = Told(), 0.0
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)

    def awaited() -> AbstractContextManager[Callable[[], float]]:
        return nullcontext(lambda: waited)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: measure_event_loop_lag(told, clock=loop.time, awaited=awaited))
        await anyio.sleep(10 * PROBE_INTERVAL.total_seconds())
        for seconds in busy:
            loop.jump(seconds)
            waited += waiting
            await anyio.sleep(10 * PROBE_INTERVAL.total_seconds())
        tasks.cancel_scope.cancel()
    return told


async def test_a_loop_that_is_never_busy_is_never_late() -> None:
    told = await measured()
    assert len(told.late) == pytest.approx(10, abs=1)
    assert max(told.late) == pytest.approx(0)


async def test_a_long_turn_is_told_to_one_interval() -> None:
    told = await measured(0.5, 3)
    assert sorted(told.late)[-2:] == pytest.approx([0.5, 3], abs=1.01 * PROBE_INTERVAL.total_seconds())
    assert sum(late > 2 * PROBE_INTERVAL.total_seconds() for late in told.late) == 2, (
        "the turns after it are as short as ever"
    )
    assert told.ours == told.late


async def test_a_turn_that_waited_for_a_processor_is_ours_for_the_rest_of_it() -> None:
    told = await measured(0.5, 3, waiting=0.4)
    assert sorted(told.late)[-2:] == pytest.approx([0.5, 3], abs=1.01 * PROBE_INTERVAL.total_seconds())
    assert sorted(told.ours)[-2:] == pytest.approx([0.1, 2.6], abs=1.01 * PROBE_INTERVAL.total_seconds())
    assert min(told.ours) == 0


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the system does not count it")
def test_a_thread_that_has_a_processor_does_not_wait_for_one() -> None:
    """Of three threads of one processor each waits most of the time; one that sleeps waits for none."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    mine = os.sched_getaffinity(0)
    one = {min(mine)}
    try:
        for other in others:
            os.sched_setaffinity(other.pid, one)
        os.sched_setaffinity(0, one)
        with processor_awaited() as waited:
            first, began = waited(), time.monotonic()
            while time.monotonic() - began < 0.5:
                pass
            busy, lasted = waited() - first, time.monotonic() - began
            time.sleep(0.5)
            slept = waited() - first - busy
    finally:
        os.sched_setaffinity(0, mine)
        for other in others:
            other.kill()
            other.wait()
    assert slept < busy < lasted


def test_where_the_system_does_not_count_it_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.runtime.process.event_loop_lag._SCHEDSTAT", "/nowhere")
    with processor_awaited() as waited:
        assert waited() == 0.0


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [(LOGGED_LAG.total_seconds() / 2, 0), (LOGGED_LAG.total_seconds() + PROBE_INTERVAL.total_seconds(), 1)],
    ids=["a short one", "a long one"],
)
async def test_a_long_turn_is_worth_a_line(seconds: float, lines: int) -> None:
    with capture_logs() as logs:
        await measured(seconds)
    assert [line["event"] for line in logs] == ["event_loop.held"] * lines


async def test_once_it_is_cancelled_no_timer_is_left() -> None:
    told = Told()
    with anyio.move_on_after(5 * PROBE_INTERVAL.total_seconds()):
        await measure_event_loop_lag(told, clock=asyncio.get_running_loop().time)
    count = len(told.late)
    await anyio.sleep(10 * PROBE_INTERVAL.total_seconds())
    assert len(told.late) == count
