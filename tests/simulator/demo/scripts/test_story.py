"""The main story: the same seed, the same play; and it can be played through."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.scripts.story import BURST_AT, HERO, QUEUES, burst, layout, script, story
from multikueue_simulator.demo.scripts.values import Die, Fill, Hang, KillManager, Recover, Return


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
    submissions = script(jobs, seed=1)
    times = [submission.at for submission in submissions]
    assert len({submission.name for submission in submissions}) == jobs
    assert times == sorted(times)
    assert sum(at == BURST_AT for at in times) == round(0.35 * jobs)


def test_every_job_fits_on_the_smallest_worker() -> None:
    smallest = min(share.cpu for share in layout(3).workers)
    assert all(submission.cpu <= smallest for submission in script(200, seed=3))


def test_the_same_seed_is_the_same_play() -> None:
    assert story(workers=3, jobs=30, seed=5) == story(workers=3, jobs=30, seed=5)
    assert script(30, seed=5) != script(30, seed=6)


def test_the_story_is_about_a_job_that_outlives_its_worker() -> None:
    play = story(workers=3, jobs=9, seed=1)
    (hero,) = [job for job in play.script.submissions if job.name == play.script.hero == HERO]
    (dies,) = [act.at for act in play.script.acts if act.step == Die()]
    assert hero.at < dies < hero.at + hero.seconds


def test_what_goes_wrong_is_repaired() -> None:
    steps = [act.step for act in story(workers=3, jobs=9, seed=1).script.acts]
    assert steps == [Die(), Return(), Fill("medium", 12.0), KillManager(), None]


def test_in_the_race_nothing_happens_that_was_not_measured() -> None:
    steps = [act.step for act in story(workers=3, jobs=9, seed=1, faults="race").script.acts]
    assert steps == [Die("large"), Return("large"), Hang("small"), None, Recover("small")]


@pytest.mark.parametrize("faults", ["all", "race"])
def test_with_one_worker_nothing_goes_wrong(faults: str) -> None:
    assert [act.step for act in story(workers=1, jobs=9, seed=1, faults=faults).script.acts] == [None]


@pytest.mark.parametrize("faults", ["all", "race"])
def test_what_happens_is_told_in_a_line_of_a_small_terminal(faults: str) -> None:
    acts = story(workers=3, jobs=90, seed=1, faults=faults).script.acts
    assert [act.text for act in acts if len(act.text.format(worker="medium")) > 80] == []


def test_a_burst_by_hand_has_names_of_its_own() -> None:
    jobs = burst(3, at=7.0, seed=1, first=91)
    assert [(job.name, job.at) for job in jobs] == [("job-091", 7.0), ("job-092", 7.0), ("job-093", 7.0)]


@pytest.mark.parametrize("workers", [1, 2, 3, 7])
def test_each_job_fits_its_queue_and_some_worker(workers: int) -> None:
    play = story(workers=workers, jobs=300, seed=1)
    room = {queue.name: queue.cpu for queue in play.layout.queues}
    largest = max(worker.cpu for worker in play.layout.workers)
    assert [job.name for job in play.script.submissions if job.cpu > min(room[job.queue], largest)] == []
