"""Two boards side by side, and what they amount to."""

from __future__ import annotations

import pytest

from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.board.courses import Course
from multikueue_simulator.demo.screen.versus import NAMES, comparison, longest_pause, side_by_side
from tests.simulator.demo.screen.test_picture import drawn


def board(*courses: tuple[float, float | None, float | None]) -> Board:
    one = Board(["q"], {"w1": 4, "w2": 8})
    for number, (submitted, started, finished) in enumerate(courses):
        one.courses[f"j{number}"] = Course("q", submitted, started=started, finished=finished)
    return one


def test_each_has_its_progress_its_workers_and_what_happened() -> None:
    ours, peer = board((0, 1, 2), (0, 1, None)), board((0, 1, None))
    ours.announce(1.0, "a worker dies")
    ours.note(1.5, "w1 is lost", "red")
    peer.stands["w2"].reachable = False
    text = drawn(side_by_side(ours, peer, 2.0, jobs=2), width=80, height=24)
    assert all(name in text for name in NAMES)
    assert "1 of 2 finished" in text
    assert "0 of 2 finished" in text
    assert "w1 0/4  w2 0/8" in text
    assert "1.5 s  w1 is lost" in text
    assert text.count("a worker dies") == 1, "what is done to both is told once"
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) < 24


def test_the_end_is_compared() -> None:
    text = drawn(comparison(board((0, 1, 2)), board((0, 5, None)), never=1))
    (never,) = [line.split() for line in text.splitlines() if line.startswith("jobs that never finish")]
    assert never[-2:] == ["0", "1"]
    (median,) = [line for line in text.splitlines() if "median" in line]
    assert median.split()[-4:] == ["1.0", "s", "5.0", "s"]


@pytest.mark.parametrize(
    ("courses", "expected"),
    [
        ([], 0.0),
        ([(0.0, 1.0, None), (0.0, 9.0, None)], 8.0),
        ([(0.0, 1.0, None), (8.0, 9.0, None)], 1.0),
    ],
    ids=["nothing", "somebody waits", "nobody waits"],
)
def test_a_pause_counts_while_somebody_waits(courses: list[tuple[float, float, None]], expected: float) -> None:
    assert longest_pause(board(*courses)) == expected
