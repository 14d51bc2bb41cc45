"""Figures of records that were made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.sharing.figures import Record, figures


def record(**parts: Any) -> Record:
    usual: dict[str, Any] = {"user": "a", "gpus": 1, "submitted": 0.0, "started": 60.0, "ended": 3600.0, "runs": 1}
    return Record(**usual | parts)


def test_waits_are_in_minutes_and_the_unluckiest_user_is_told() -> None:
    seen = figures([record(), record(started=180.0), record(user="b", gpus=8, started=600.0)], gpus=100, seconds=3600)
    assert seen.wait == pytest.approx((1 + 3 + 10) / 3)
    assert seen.small == pytest.approx(2)
    assert seen.worst == pytest.approx(10)
    assert seen.late >= 10


def test_a_start_in_the_second_of_the_submission_is_no_wait() -> None:
    assert figures([record(submitted=0.7, started=0.0)] * 2, gpus=100, seconds=3600).wait == 0


@pytest.mark.parametrize(
    ("started", "ended", "expected"),
    [(0.0, 3600.0, 0.5), (1800.0, 7200.0, 0.25), (4000.0, 7200.0, 0.0)],
    ids=["it ran all the time", "it ran on after the end", "it began after the end"],
)
def test_gpus_are_busy_until_the_last_submission_only(started: float, ended: float, expected: float) -> None:
    records = [record(gpus=25, started=started, ended=ended)] * 2
    assert figures([*records, record(gpus=0)], gpus=100, seconds=3600).busy == pytest.approx(expected)


def test_what_finished_in_time_counts_for_the_rate_and_everything_for_the_end() -> None:
    seen = figures([record(), record(ended=7200.0, runs=3)], gpus=100, seconds=3600)
    assert (seen.rate, seen.restarts, seen.makespan) == (1, 2, 2)
