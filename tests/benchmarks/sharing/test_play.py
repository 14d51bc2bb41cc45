"""Short plays of each policy: every job runs, and nobody gets more than there is."""

from __future__ import annotations

import pytest

from benchmarks.sharing.crowd import Crowd, Submission
from benchmarks.sharing.figures import Record
from benchmarks.sharing.play import POLICIES, play

CROWD = Crowd(users=4, gpus=50, hours=0.5)


def submission(number: int, *, gpus: int, at: float, user: str = "user01", seconds: float = 600) -> Submission:
    return Submission(name=f"job{number}", user=user, at=at, gpus=gpus, seconds=seconds)


def busy(records: list[Record], at: float) -> int:
    return sum(each.gpus for each in records if each.started <= at < each.ended)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_job_runs_and_the_gpus_are_enough(policy: str) -> None:
    jobs = [submission(number, gpus=8, at=float(number), user=f"user0{1 + number % 4}") for number in range(12)]
    records = play(jobs, POLICIES[policy], crowd=CROWD, seed=1)
    assert [record.user for record in records] == [job.user for job in jobs]
    assert all(599 <= record.ended - record.started <= 602 for record in records if record.runs == 1)
    assert max(busy(records, record.started) for record in records) <= 50


def test_a_large_job_in_front_holds_up_small_ones_in_a_strict_queue_only() -> None:
    jobs = [submission(0, gpus=18, at=0), submission(1, gpus=16, at=2), submission(2, gpus=20, at=4)]
    jobs.append(submission(3, gpus=1, at=6))
    strict = play(jobs, POLICIES["fifo"], crowd=CROWD, seed=1)
    kind = play(jobs, POLICIES["best-effort"], crowd=CROWD, seed=1)
    assert kind[3].started < 60 < 590 < strict[3].started
