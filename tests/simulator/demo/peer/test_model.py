"""The peer as it was measured: its rate, its pauses, and what becomes of a job whose worker comes back."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.peer import measured
from multikueue_simulator.demo.peer.model import Peer
from multikueue_simulator.demo.scripts.story import story
from multikueue_simulator.demo.scripts.values import (
    Die,
    Hang,
    Play,
    Recover,
    Return,
    Script,
    ScriptedEvent,
    Step,
    Submission,
)
from multikueue_simulator.world.world import Layout, Share


def play(*acts: tuple[float, Step], jobs: int = 12, seconds: float = 2.0) -> Play:
    submissions = tuple(Submission(at=0.0, name=f"j{n}", queue="q", cpu=1, seconds=seconds) for n in range(jobs))
    script = Script(submissions, tuple(ScriptedEvent(at, "", step) for at, step in acts))
    layout = Layout(queues=(Share("q", 24),), workers=(Share("w1", 4), Share("w2", 20)))
    return Play(name="", title="", layout=layout, script=script)


def starts(peer: Peer) -> list[float]:
    return sorted(course.started for course in peer.board.courses.values() if course.started is not None)


def test_it_admits_one_job_after_the_other_at_its_rate() -> None:
    peer = Peer.of(play())
    peer.finish()
    gaps = [after - before for before, after in zip(starts(peer), starts(peer)[1:], strict=False)]
    assert gaps == pytest.approx([1 / measured.ADMISSIONS_PER_SECOND] * 11)


def test_a_worker_that_hangs_stops_all_admissions_while_jobs_go_on() -> None:
    peer = Peer.of(play((3.0, Hang("w1")), (20.0, Recover("w1"))))
    peer.finish()
    assert not [at for at in starts(peer) if 3.0 < at < 20.0]
    assert peer.board.finished == 12


def test_the_longest_pause_is_the_one_that_was_measured() -> None:
    peer = Peer.of(play((3.0, Hang("w1"))))
    peer.finish()
    assert min(at for at in starts(peer) if at > 3.0) == pytest.approx(3.0 + measured.LONGEST_PAUSE, abs=0.1)


def test_a_job_of_a_dead_worker_starts_elsewhere_at_once() -> None:
    peer = Peer.of(play((1.0, Die("w2")), jobs=1, seconds=60.0))
    peer.finish()
    (course,) = peer.board.courses.values()
    assert (course.evictions, course.last, course.starts) == (1, "w1", 2)
    assert course.finished == pytest.approx(1.0 + measured.STARTED_ELSEWHERE_AFTER + 60.0)


def test_a_worker_that_comes_back_unseats_the_winner_and_the_job_never_finishes() -> None:
    peer = Peer.of(play((1.0, Die("w2")), (11.0, Return("w2")), jobs=1, seconds=60.0))
    peer.finish()
    (course,) = peer.board.courses.values()
    assert (course.finished, course.is_repeated) == (None, True)
    assert peer.lost == {"j0"}


def test_the_same_play_is_the_same_each_time() -> None:
    ends = []
    for _ in range(2):
        peer = Peer.of(story(workers=3, jobs=90, seed=1, faults="race"))
        ends.append(peer.finish())
    assert ends[0] == ends[1]


def test_it_can_be_looked_at_at_any_moment() -> None:
    whole, steps = Peer.of(play()), Peer.of(play())
    whole.advance(5.0)
    for tenth in range(51):
        steps.advance(tenth / 10)
    assert starts(whole) == starts(steps)
