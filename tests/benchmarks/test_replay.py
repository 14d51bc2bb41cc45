"""The replay of scheduler workloads on virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.replay import BASELINE, LARGE, Class, Outcome, Scenario, crowded, replay

TWO_AT_ONCE = Scenario("two", 1, 1, (Class("half", 4, 0, 1000, 50, 60, 0),), goal=1.0)
"""One queue with 20 of its own and nobody to borrow from."""


def test_the_published_workloads_have_their_size() -> None:
    assert (BASELINE.size, LARGE.size, crowded(1_000).size) == (15_000, 50_000, 1_000)


def test_workloads_run_one_after_another_where_there_is_room_for_one() -> None:
    outcome = replay(replace(TWO_AT_ONCE, classes=(Class("whole", 3, 0, 1500, 50, 20, 0),)))
    # Each waits for the one before to end, and for the second after which freed quota wakes who is parked.
    assert outcome.waited == {"whole": (0 + 2500 + 5000) / 3}
    assert outcome.evictions == 0


def test_the_important_one_has_another_evicted_which_runs_again() -> None:
    classes = (Class("low", 1, 0, 1000, 50, 20, 0), Class("high", 1, 500, 1000, 200, 20, 0))
    outcome = replay(replace(TWO_AT_ONCE, classes=classes))
    assert outcome.evictions == 1
    assert outcome.waited == {"low": 2500.0, "high": 0.0}


def test_what_never_fits_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="never got quota"):
        replay(TWO_AT_ONCE)


@pytest.mark.parametrize(
    ("seconds", "waited", "met"),
    [(9.0, 1.0, True), (11.0, 1.0, False), (9.0, 3e5, False)],
    ids=["both", "slow", "late"],
)
def test_a_goal_is_met_in_time_and_without_longer_waits(seconds: float, waited: float, met: bool) -> None:
    waits = {each.name: waited for each in BASELINE.classes}
    assert Outcome(BASELINE, seconds=seconds, waited=waits).met is met
