"""The machine's clock keeps the promises of the protocol."""

from __future__ import annotations

import time
from datetime import timedelta

import anyio
import pytest

from multikueue.runtime import Clock, SystemClock
from multikueue.runtime.clock import boot_time


def test_now_has_the_zone_utc() -> None:
    clock: Clock = SystemClock()
    assert clock.now().utcoffset() == timedelta()


def test_monotonic_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


@pytest.mark.anyio
async def test_sleep_waits_on_the_event_loop() -> None:
    before = anyio.current_time()
    await SystemClock().sleep(90)
    assert anyio.current_time() == pytest.approx(before + 90)


def test_the_boot_clock_runs_on_and_counts_naps() -> None:
    before = boot_time()
    assert boot_time() >= before
    assert before >= time.monotonic() - 0.001, "a suspension is never taken away"
