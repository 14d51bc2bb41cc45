"""Plain lines: each notable moment once, and progress."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from multikueue_simulator.demo.board.board import MEMORY, Board
from multikueue_simulator.demo.screen.lines import Lines


def lines(name: str = "") -> tuple[Lines, Board, StringIO]:
    board, text = Board(["q"], {"w": 4}), StringIO()
    return Lines(board, Console(file=text, width=200), 9, name), board, text


def test_each_notable_moment_is_told_once() -> None:
    shown, board, text = lines()
    board.note(1.0, "of no note")
    board.note(1.0, "something happens", "red")
    shown.draw(1.0)
    board.note(1.0, "at the same moment", "red")
    shown.draw(1.1)
    shown.draw(1.2)
    assert text.getvalue().splitlines() == [
        "   1.0 s  something happens",
        "   1.0 s  0 of 9 jobs finished",
        "   1.0 s  at the same moment",
    ]


def test_more_than_is_remembered_is_no_error() -> None:
    shown, board, text = lines()
    for number in range(2 * MEMORY):
        board.note(1.0, str(number), "red")
    shown.draw(1.0)
    assert len(text.getvalue().splitlines()) == MEMORY + 1


def test_several_boards_have_names() -> None:
    shown, _, text = lines("ours")
    shown.draw(0.0)
    assert text.getvalue() == "ours:    0.0 s  0 of 9 jobs finished\n"
