"""Stages, rates and percentiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.timeline import Distribution, Stage, Timelines


def noted(**stages: dict[str, float]) -> Timelines:
    times = Timelines()
    for name, jobs in stages.items():
        for job, at in jobs.items():
            times.note(Stage[name], job, at)
    return times


def test_only_the_first_time_counts() -> None:
    times = Timelines()
    assert times.note(Stage.CREATED, "a", 1.0)
    assert not times.note(Stage.CREATED, "a", 2.0)
    assert times.noted[Stage.CREATED] == {"a": 1.0}


def test_a_stage_of_many_things_is_reached_with_the_last() -> None:
    times = Timelines()
    times.note_last(Stage.COPIED_ALL, "a", 1.0)
    times.note_last(Stage.COPIED_ALL, "a", 2.0)
    assert times.noted[Stage.COPIED_ALL] == {"a": 2.0}


def test_a_rate_ends_with_the_last_job_at_the_last_stage() -> None:
    times = noted(SUBMITTED={"a": 10.0, "b": 11.0}, CREATED={"a": 12.0, "b": 13.0}, WON={"a": 14.0, "b": 12.0})
    assert times.rate(Stage.CREATED, Stage.WON) == 2 / (14.0 - 10.0)


def test_a_rate_counts_only_the_jobs_that_came_to_all_the_stages() -> None:
    times = noted(SUBMITTED={"a": 0.0, "b": 0.0}, CREATED={"a": 1.0, "b": 2.0}, WON={"a": 4.0})
    assert times.rate(Stage.CREATED, Stage.WON) == 1 / 4.0


def test_a_rate_of_nothing_is_zero() -> None:
    assert noted(SUBMITTED={"a": 0.0}).rate(Stage.CREATED) == 0.0


def test_between_looks_only_at_jobs_that_came_to_both_stages() -> None:
    times = noted(SUBMITTED={"a": 1.0, "b": 1.0}, CREATED={"a": 3.0, "stranger": 9.0})
    assert times.between(Stage.SUBMITTED, Stage.CREATED) == Distribution(2.0, 2.0, 1)


def test_seconds_are_in_the_order_of_the_first_stage() -> None:
    times = noted(SUBMITTED={"a": 1.0, "lost": 1.5, "b": 2.0}, CREATED={"b": 2.5, "a": 4.0})
    assert times.seconds(Stage.SUBMITTED, Stage.CREATED) == [3.0, 0.5]


def test_steps_leave_out_stages_that_nobody_came_to() -> None:
    times = noted(SUBMITTED={"a": 1.0}, WON={"a": 1.5})
    assert times.steps() == {"check ready": Distribution(0.5, 0.5, 1)}


def test_the_stage_of_a_job_is_the_last_that_it_came_to() -> None:
    assert noted(SUBMITTED={"a": 1.0}, FINISHED={"a": 2.0}, WON={"a": 1.5}).stage_of("a") is Stage.FINISHED


@pytest.mark.parametrize(
    ("values", "p50", "p95"),
    [([1.0], 1.0, 1.0), ([1.0, 2.0], 1.0, 2.0), ([float(n) for n in range(1, 101)], 50.0, 95.0)],
    ids=["one value is all of them", "the median of two is the lower", "of a hundred, the 50th and the 95th"],
)
def test_percentiles(values: list[float], p50: float, p95: float) -> None:
    assert Distribution.of(values) == Distribution(p50, p95, len(values))


def test_nothing_has_no_percentiles() -> None:
    assert Distribution.of([]) is None


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_were_measured_and_are_in_order(values: list[float]) -> None:
    found = Distribution.of(reversed(values))
    assert found is not None
    assert min(values) <= found.p50 <= found.p95 <= max(values)
    assert {found.p50, found.p95} <= set(values)
