"""What is drawn of a board, as text."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType

from multikueue_simulator.demo.board.courses import Moment, Stand
from multikueue_simulator.demo.screen.keys import HELP
from multikueue_simulator.demo.screen.picture import LINES, Hand, picture, story, summary
from multikueue_simulator.world.world import MANAGER
from tests.simulator.demo.board.test_board import RESERVED, copy, dispatched, local, remote_job


def drawn(what: RenderableType, *, width: int = 120, height: int = 40) -> str:
    screen = Console(width=width, height=height)
    with screen.capture() as captured:
        screen.print(what)
    return captured.get()


def test_a_picture_has_queues_workers_and_what_happened() -> None:
    board = dispatched()
    board.see("large", "MODIFIED", copy(cpu="7500m"), 2.0)
    board.announce(3.0, "something happens")
    text = drawn(picture(board, 4.0, jobs=9))
    assert "0 of 9 jobs finished" in text
    (queue,) = [line.split() for line in text.splitlines() if line.startswith("research")]
    assert queue == ["research", "1", "·", "·", "·", "1", "0"]
    (large,) = [line.split() for line in text.splitlines() if line.startswith("large")]
    assert large == ["large", "████████░░░░░░░░", "8/16", "1", "1", "1", "0"]
    assert "1.5 s  a runs on large" in text
    assert "something happens" in text


def test_a_picture_is_always_as_high_whatever_happened() -> None:
    board = dispatched()
    before = drawn(picture(board, 4.0, jobs=9)).count("\n")
    for number in range(3 * LINES):
        board.note(5.0, f"moment {number}")
    assert drawn(picture(board, 4.0, jobs=9)).count("\n") == before


def test_a_small_terminal_shows_all_of_it() -> None:
    board = dispatched()
    board.stands["medium"] = Stand(cpu=8)
    for stand in board.stands.values():
        stand.reachable = False
    for number in range(LINES):
        board.note(5.0, f"moment {number} " + "x" * 200)
    board.announce(99.0, "a worker dies " + "x" * 200)
    lines = drawn(picture(board, 100.0, jobs=90), width=80, height=24).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) < 24
    titles = [line.split() for line in lines if line.startswith(("QUEUE", "WORKER"))]
    assert [title[-1] for title in titles] == ["FINISHED", "LOST"]
    assert not [line for line in lines if "…" in line and "xx" not in line]


def test_with_many_workers_a_queue_has_the_sum_of_what_runs() -> None:
    board = dispatched()
    board.stands |= {f"worker-{number}": Stand(cpu=8) for number in range(8)}
    lines = drawn(picture(board, 4.0, jobs=9), width=80, height=24).splitlines()
    (titles,) = [line.split() for line in lines if line.startswith("QUEUE")]
    assert titles == ["QUEUE", "SUBMITTED", "WAITING", "RACING", "RUNNING", "FINISHED"]
    (queue,) = [line.split() for line in lines if line.startswith("research")]
    assert queue == ["research", "1", "·", "·", "1", "0"]


def test_what_cannot_be_reached_is_marked() -> None:
    board = dispatched()
    board.stands["small"].reachable = False
    assert "small (out of reach)" in drawn(picture(board, 4.0, jobs=9))


def test_a_long_moment_is_one_line() -> None:
    assert drawn(Group(story(Moment(1.0, "x" * 500)))).count("\n") == 1


def test_the_summary_tells_of_jobs_that_ran_twice_at_no_need() -> None:
    board = dispatched()
    board.see("large", "ADDED", remote_job(uid="1"), 2.0)
    assert "ran twice without need 0" in " ".join(drawn(summary(board)).split())
    board.see("small", "ADDED", remote_job(uid="2"), 3.0)
    assert "ran twice without need 1" in " ".join(drawn(summary(board)).split())
    board.see(MANAGER, "MODIFIED", local(conditions=RESERVED), 4.0)
    board.courses["a"].evictions = 1
    assert "ran twice without need 0" in " ".join(drawn(summary(board)).split())


def test_colours_and_words_are_explained() -> None:
    text = drawn(picture(dispatched(), 4.0, jobs=9), width=80, height=24)
    assert "█ ours  █ others  ░ free" in text
    assert "first to admit wins" in text


def test_keys_are_told_with_what_is_chosen_and_fit_a_small_terminal() -> None:
    text = drawn(picture(dispatched(), 4.0, jobs=90, hand=Hand(worker="large", job="a")), width=80, height=24)
    assert HELP in text
    assert "large a" in text
    assert len(text.splitlines()) < 24
    assert max(map(len, text.splitlines())) <= 80


def test_an_answer_takes_the_place_of_what_happened() -> None:
    hand = Hand(
        worker="large", job="a", asked="multikueue why a", answer="a waits " + "for long " * 9 + "end\n" + "more\n" * 50
    )
    text = drawn(picture(dispatched(), 4.0, jobs=9, hand=hand), width=80, height=24)
    assert "$ multikueue why a" in text
    assert "a waits" in text
    assert "long end" in " ".join(text.split()), "no part of it is cut"
    assert "a runs on large" not in text
    assert len(text.splitlines()) < 24
