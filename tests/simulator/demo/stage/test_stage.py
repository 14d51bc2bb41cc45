"""Plays on virtual time: each act shows what it is about, and all jobs come to their end."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.scripts.acts import ACTS
from multikueue_simulator.demo.scripts.story import HERO, story
from multikueue_simulator.demo.stage.stage import PATIENCE, Stage
from tests.simulator.demo.stage.on_stage import on_stage, played


def told(stage: Stage) -> list[str]:
    return [moment.text for moment in stage.board.moments]


def acted(name: str) -> Stage:
    stage = on_stage(ACTS[name](), played, act=name)
    assert (stage.board.finished, stage.board.failed, stage.board.repeated) == (stage.jobs, 0, 0)
    return stage


def test_a_lower_priority_makes_way_and_runs_again() -> None:
    stage = acted("preemption")
    assert any("makes way" in text and "for a job of higher priority" in text for text in told(stage))
    assert stage.board.courses["urgent"].evictions == 0
    assert sum(course.evictions for course in stage.board.courses.values()) == 1


def test_who_borrowed_gives_back_no_more_than_that() -> None:
    stage = acted("fair-sharing")
    evicted = [name for name, course in stage.board.courses.items() if course.evictions]
    assert len(evicted) == 3
    assert all(name.startswith("a-") for name in evicted)


def test_jobs_go_where_ocm_decides() -> None:
    stage = acted("ocm")
    won = {name: stand.won for name, stand in stage.board.stands.items()}
    assert won["north"] == 0
    assert won["east"] > 0
    assert won["west"] > 0


def test_an_elastic_job_grows_where_it_is() -> None:
    stage = acted("elastic")
    course = stage.board.courses["elastic"]
    assert (course.evictions, course.starts) == (0, 1)


def test_the_hero_outlives_its_worker_and_the_manager() -> None:
    stage = on_stage(story(workers=3, jobs=12, seed=1), played)
    assert (stage.board.finished, stage.board.failed, stage.board.repeated) == (12, 0, 0)
    hero = stage.board.courses[HERO]
    assert (hero.evictions, hero.starts) == (1, 2)
    assert any(f"is lost: {HERO} queues again" in text for text in told(stage))
    assert any(text.startswith(f"{HERO} runs elsewhere") for text in told(stage))
    assert stage.director.manager.runs == 2
    assert f"try: multikueue logs -f {HERO}" in told(stage)


def test_the_worker_that_dies_has_jobs_whatever_the_strategy() -> None:
    stage = on_stage(story(workers=3, jobs=3, seed=1), played, strategy="incremental")
    assert (stage.board.finished, stage.board.repeated) == (3, 0)
    assert stage.board.courses[HERO].evictions == 1


def test_a_viewer_who_does_something_has_time_to_see_it() -> None:
    async def idle(stage: Stage) -> None:
        last = stage.play.script.submissions[-1].at
        assert stage.deadline == last + PATIENCE
        await stage.until(last + 10.0)
        stage.keep_on()
        assert stage.deadline == pytest.approx(last + 10.0 + PATIENCE)

    on_stage(story(workers=1, jobs=2, seed=1), idle)
