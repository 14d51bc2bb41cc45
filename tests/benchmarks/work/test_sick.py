"""From moments to ratios and pauses."""

from __future__ import annotations

import pytest

from benchmarks.timeline import Stage, Timelines
from benchmarks.work.sick import Pair, Run, lines, run_of


def dispatched(*moments: float, submitted: float = 10.0) -> Timelines:
    times = Timelines()
    for number, moment in enumerate(moments):
        times.note(Stage.SUBMITTED, f"job{number}", submitted)
        times.note(Stage.WON, f"job{number}", moment)
    return times


def test_a_run_counts_from_the_submission_to_the_last_that_is_measured() -> None:
    assert run_of(dispatched(11, 12, 14), 3) == Run(rate=0.75, pause=2)
    assert run_of(dispatched(11, 12, 100), 2) == Run(rate=1.0, pause=1)


def test_the_wait_for_the_first_is_a_pause_too() -> None:
    assert run_of(dispatched(13, 14), 2).pause == 3


@pytest.mark.parametrize(
    ("sick", "verdicts"),
    [
        pytest.param(Run(rate=9.6, pause=1.9), [True, True], id="as good as the control"),
        pytest.param(Run(rate=9.4, pause=1.9), [False, True], id="slower"),
        pytest.param(Run(rate=12.0, pause=2.1), [True, False], id="a pause"),
    ],
)
def test_the_verdict_is_on_rate_and_pause(sick: Run, verdicts: list[bool]) -> None:
    pair = Pair(control=Run(rate=10.0, pause=0.5), sick=sick)
    assert [line.ok for line in lines("hang", [pair])] == verdicts


def test_a_pause_of_the_control_excuses_one_as_long() -> None:
    pair = Pair(control=Run(rate=10.0, pause=4.0), sick=Run(rate=10.0, pause=4.0))
    assert [line.ok for line in lines("hang", [pair])] == [True, True]


def test_the_median_pair_counts() -> None:
    control = Run(rate=10.0, pause=0.5)
    pairs = [Pair(control, Run(rate=rate, pause=0.5)) for rate in (2.0, 10.0, 11.0)]
    rate, _ = lines("hang", pairs)
    even, _ = lines("hang", pairs[:2])
    assert even.ok is False, "the worse one of two"
    assert (rate.figure, rate.ours, rate.ratio) == ("hang: dispatched per second", 10.0, 1.0)
