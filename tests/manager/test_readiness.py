"""What the manager is ready for, and what it says is missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from multikueue.manager.readiness import STANDSTILL, DispatchProgress, Readiness


def test_the_first_that_is_missing_is_named_and_the_others_are_listed() -> None:
    readiness = Readiness(caches=["jobs", "workloads"], has_webhook=True)
    told = [readiness.problem]
    for name in ("cache-workloads", "cache-jobs", "workers", "webhook"):
        readiness.reached(name)
        told.append(readiness.problem)
    assert told == [
        "cache-jobs: not listed yet",
        "cache-jobs: not listed yet",
        "workers: no first contact yet",
        "webhook: not in place yet",
        None,
    ]
    assert readiness.details == {"cache-jobs": "", "cache-workloads": "", "workers": "", "webhook": ""}


def test_without_a_webhook_none_is_waited_for() -> None:
    assert "webhook" not in Readiness(caches=["jobs"], has_webhook=False).details


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def told(*looks: tuple[int, int, timedelta]) -> list[str]:
    """What is said at each look: how many wait, how many were taken so far, and when."""
    progress = DispatchProgress()
    return [progress.problem(waiting=waiting, taken=taken, now=NOW + after) for waiting, taken, after in looks]


def test_workloads_that_nobody_takes_are_a_problem_after_a_minute() -> None:
    late = STANDSTILL + timedelta(seconds=1)
    assert told((3, 7, timedelta()), (3, 7, STANDSTILL / 2), (4, 7, late)) == [
        "",
        "",
        "4 workloads wait, and none has been looked at for 61 s",
    ]


def test_whoever_takes_one_or_has_none_to_take_goes_on() -> None:
    late = STANDSTILL + timedelta(seconds=1)
    assert told((3, 7, timedelta()), (9, 8, late)) == ["", ""]
    assert told((3, 7, timedelta()), (0, 7, late), (1, 7, 2 * late), (1, 7, 2 * late + STANDSTILL / 2)) == [""] * 4


def test_a_clock_that_was_put_back_starts_over() -> None:
    assert (
        told((3, 7, timedelta()), (3, 7, -timedelta(hours=1)), (3, 7, STANDSTILL / 2 - timedelta(hours=1))) == [""] * 3
    )
