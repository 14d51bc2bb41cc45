"""The script of the demo: the same seed, the same play; and it can be played through."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.script import BURST_AT, QUEUES, layout, script


@pytest.mark.parametrize("workers", [1, 2, 3, 20])
def test_the_queues_share_what_the_workers_have(workers: int) -> None:
    plan = layout(workers)
    assert len({share.name for share in plan.workers}) == workers
    assert [queue.name for queue in plan.queues] == [*QUEUES]
    assert sum(queue.cpu for queue in plan.queues) == sum(share.cpu for share in plan.workers)


def test_workers_are_of_different_size() -> None:
    assert len({share.cpu for share in layout(3).workers}) == 3


@pytest.mark.parametrize("jobs", [1, 2, 90])
def test_all_jobs_come_in_order_and_a_part_of_them_at_once(jobs: int) -> None:
    play = script(jobs, ["a", "b", "c"], seed=1)
    times = [submission.at for submission in play.submissions]
    assert len({submission.name for submission in play.submissions}) == jobs
    assert times == sorted(times)
    assert sum(at == BURST_AT for at in times) == play.burst


def test_every_job_fits_on_the_smallest_worker() -> None:
    smallest = min(share.cpu for share in layout(3).workers)
    assert all(submission.cpu <= smallest for submission in script(200, ["a"], seed=3).submissions)


def test_the_same_seed_is_the_same_play() -> None:
    assert script(30, ["a", "b"], seed=5) == script(30, ["a", "b"], seed=5)
    assert script(30, ["a", "b"], seed=5) != script(30, ["a", "b"], seed=6)


def test_who_dies_comes_back_and_somebody_else_fills_up() -> None:
    deeds = [(act.deed, act.worker) for act in script(9, ["a", "b", "c"], seed=1).acts]
    assert deeds == [("die", "c"), ("return", "c"), ("fill", "b")]


def test_with_one_worker_nothing_goes_wrong() -> None:
    assert script(9, ["a"], seed=1).acts == ()
