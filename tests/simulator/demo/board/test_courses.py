"""The history of one job."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.board.courses import Course, Stage, percentile


@pytest.mark.parametrize(
    ("course", "stage"),
    [
        (Course("q", 0.0), "waiting"),
        (Course("q", 0.0, copies={"a"}), "racing"),
        (Course("q", 0.0, copies={"a"}, winner="a"), "running"),
        (Course("q", 0.0, winner="a", finished=2.0), "finished"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_job_is_at_one_stage(course: Course, stage: Stage) -> None:
    assert course.stage == stage


def test_a_job_that_had_to_leave_its_worker_may_run_once_more() -> None:
    assert not Course("q", 0.0, starts=2, evictions=1).is_repeated
    assert Course("q", 0.0, starts=2).is_repeated


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([1.0], 0.95, 1.0), ([1.0, 2.0, 3.0, 4.0], 0.5, 3.0), ([1.0, 2.0], 1.0, 2.0)],
    ids=["of nothing", "of one", "the middle", "never past the end"],
)
def test_percentiles(values: list[float], share: float, expected: float | None) -> None:
    assert percentile(values, share) == expected
