from __future__ import annotations

import pytest

from multikueue.runtime import Mandate
from multikueue.runtime.clock import boot_time


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
