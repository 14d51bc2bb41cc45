"""Who submits what."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.sharing.crowd import LONGEST, SHORTEST, SIZES, Crowd, drawn

CROWD = Crowd(hours=24)


def test_a_seed_draws_the_same_jobs_each_time_and_another_one_others() -> None:
    assert drawn(CROWD, 1) == drawn(CROWD, 1)
    assert drawn(CROWD, 1) != drawn(CROWD, 2)


def test_jobs_come_in_their_order_within_the_hours_and_within_limits() -> None:
    jobs = drawn(CROWD, 1)
    assert [job.at for job in jobs] == sorted(job.at for job in jobs)
    assert all(0 <= job.at <= 24 * 3600 for job in jobs)
    assert all(job.gpus in SIZES and SHORTEST <= job.seconds <= LONGEST for job in jobs)
    assert len({job.name for job in jobs}) == len(jobs)


@pytest.mark.parametrize("demand", [0.5, 0.9, 1.2])
def test_the_demand_is_met_to_one_job(demand: float) -> None:
    jobs = drawn(Crowd(hours=24, demand=demand), 1)
    asked = [job.gpus * job.seconds for job in jobs]
    wanted = demand * 100 * 24 * 3600
    assert wanted <= sum(asked) <= wanted + max(asked)


def test_users_differ_in_how_much_they_submit() -> None:
    jobs = Counter(job.user for job in drawn(Crowd(hours=200), 1))
    assert jobs["user50"] > 5 * jobs["user01"]
