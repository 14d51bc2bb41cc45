from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from multikueue_console.history.runs import Run
from multikueue_console.history.use import LONGEST, Use, shares_of, sums

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def hours(number: float) -> datetime:
    return MIDNIGHT + timedelta(hours=number)


def run(*, user: str = "ada", start: float = 1.5, end: float | None = 4, outcome: str = "succeeded") -> Run:
    return Run(
        workload="uid",
        attempt="one",
        namespace="team",
        name="train",
        queue="main",
        user=user,
        cluster="east",
        cpu=1,
        gpu=2,
        queued_at=hours(1),
        reserved_at=hours(start),
        started_at=hours(start),
        ended_at=None if end is None else hours(end),
        outcome=outcome if end is not None else "",
    )


def test_use_counts_in_the_hours_in_which_it_passed() -> None:
    found = sums(shares_of(run(), hours(9)), ["hour"], since=MIDNIGHT, until=MIDNIGHT + DAY)
    assert {where: use.gpu_seconds / 3600 for (where,), use in found.items()} == {
        "2026-03-01T01:00Z": 1,
        "2026-03-01T02:00Z": 2,
        "2026-03-01T03:00Z": 2,
        "2026-03-01T04:00Z": 0,  # where it ended
    }


def test_a_run_that_goes_on_counts_until_now() -> None:
    (use,) = sums(shares_of(run(end=None), hours(2)), [], since=MIDNIGHT, until=MIDNIGHT + DAY).values()
    assert use == Use(waits=1, wait_seconds=1800, longest_wait=1800, cpu_seconds=1800, gpu_seconds=3600)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("succeeded", (1, 0, 0, 0)),
        ("failed", (1, 1, 0, 0)),
        ("evicted", (1, 0, 1, 0)),
        ("preempted", (1, 0, 1, 1)),
        ("unknown", (1, 0, 0, 0)),
    ],
)
def test_ends_are_counted_by_outcome(outcome: str, expected: tuple[int, ...]) -> None:
    (use,) = sums(shares_of(run(outcome=outcome), hours(9)), [], since=MIDNIGHT, until=MIDNIGHT + DAY).values()
    assert (use.ended, use.failed, use.evicted, use.preempted) == expected


def test_sums_are_by_the_dimensions_in_their_order_and_within_the_time() -> None:
    shares = [*shares_of(run(), hours(9)), *shares_of(run(user="bob", start=25, end=26), hours(48))]
    assert list(sums(shares, ["day", "user"], since=MIDNIGHT, until=MIDNIGHT + 2 * DAY)) == [
        ("2026-03-01", "ada"),
        ("2026-03-02", "bob"),
    ]
    assert list(sums(shares, ["user"], since=MIDNIGHT + DAY, until=MIDNIGHT + 2 * DAY)) == [("bob",)]


def test_a_start_that_a_wrong_clock_wrote_costs_a_bounded_count() -> None:
    odd = run(start=-24 * 365 * 1900, end=4)
    assert sum(1 for _ in shares_of(odd, hours(9))) <= LONGEST.total_seconds() / 3600 + 3
