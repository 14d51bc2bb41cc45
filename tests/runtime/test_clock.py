"""The machine's clock keeps the promises of the protocol."""

from __future__ import annotations

import time
from datetime import timedelta

import anyio
import pytest

from multikueue.runtime import Clock, Mandate, SystemClock
from multikueue.runtime.clock import boot_time


def test_now_has_the_zone_utc() -> None:
    clock: Clock = SystemClock()
    assert clock.now().utcoffset() == timedelta()


class Machine:
    """A wall clock that somebody sets, and the time that really goes by."""

    def __init__(self) -> None:
        self.passed, self.step = 1000.0, 1_800_000_000.0
        self.clock = SystemClock(lambda: self.passed + self.step, lambda: self.passed)
        self.began = self.clock.now()

    def after(self, *, step: float = 0.0, passed: float = 0.0) -> timedelta:
        """What the clock shows since it began."""
        self.passed, self.step = self.passed + passed, self.step + step
        return self.clock.now() - self.began


@pytest.mark.parametrize("step", [3600.0, -3600.0], ids=["ahead", "back"])
def test_a_step_of_the_wall_clock_is_no_time_that_went_by(step: float) -> None:
    machine = Machine()
    assert machine.after(step=step) == timedelta()
    assert machine.after(passed=10) == timedelta(seconds=11 if step > 0 else 9)


@pytest.mark.parametrize("step", [3600.0, -3600.0], ids=["ahead", "back"])
def test_it_comes_up_with_a_wall_clock_that_was_set_and_never_goes_back(step: float) -> None:
    machine = Machine()
    machine.after(step=step)
    shown = [machine.after(passed=60) for _ in range(700)]
    assert shown == sorted(shown)
    assert shown[-1] == timedelta(seconds=700 * 60 + step)


@pytest.mark.parametrize("days", [-3, 20_000], ids=["back", "ahead"])
def test_a_clock_that_was_days_off_is_right_at_once(days: int) -> None:
    assert Machine().after(step=days * 86_400.0, passed=10) == timedelta(days=days, seconds=10)


def test_a_nap_is_time_that_went_by() -> None:
    assert Machine().after(passed=7200) == timedelta(hours=2)


def test_a_clock_that_is_right_is_shown_as_it_is() -> None:
    clock = SystemClock()
    assert abs(clock.now().timestamp() - time.time()) < 1


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


class Hand:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hand:
    return Hand()


def test_there_is_none_to_begin_with(clock: Hand) -> None:
    mandate = Mandate(clock=clock)

    assert not mandate.is_valid()
    assert mandate.left() == 0
    assert not mandate.has_lapsed()


def test_it_holds_until_its_instant_and_not_at_it(clock: Hand) -> None:
    mandate = Mandate(clock=clock)
    mandate.extend(110)

    assert mandate.is_valid()
    assert mandate.left() == 10
    clock.now = 109.999
    assert mandate.is_valid()
    clock.now = 110
    assert not mandate.is_valid()
    assert mandate.left() == 0


def test_an_older_answer_takes_nothing_away(clock: Hand) -> None:
    mandate = Mandate(clock=clock)
    mandate.extend(110)
    mandate.extend(105)

    assert mandate.left() == 10


def test_ended_it_is_over_at_once_and_may_start_over(clock: Hand) -> None:
    mandate = Mandate(clock=clock)
    mandate.extend(110)
    mandate.end()
    assert not mandate.is_valid()

    mandate.extend(105)
    assert mandate.is_valid()


def test_one_that_ran_out_unnoticed_is_told_from_one_that_was_ended(clock: Hand) -> None:
    mandate = Mandate(clock=clock)
    mandate.extend(110)
    assert not mandate.has_lapsed()

    clock.now = 110
    assert mandate.has_lapsed()
    mandate.end()
    assert not mandate.has_lapsed()


def test_who_is_alone_acts_for_ever(clock: Hand) -> None:
    mandate = Mandate.standing()

    assert mandate.is_valid()
    assert not mandate.has_lapsed()


def test_its_clock_is_the_machines() -> None:
    mandate = Mandate()
    mandate.extend(boot_time() + 60)

    assert 59 < mandate.left() <= 60
