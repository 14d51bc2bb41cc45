"""The product gets no larger than it is, nor its classes, its functions, the number of its settings and its documents."""

from __future__ import annotations

import pytest

from tests.project.figures import figures, words

MOST = {
    "modules": 375,
    "lines": 70_400,
    "settings": 111,
    "methods of a class, at most": 36,
    "parameters of a function, at most": 9,
    "private helpers with one caller": 0.63,
    "words of prose in the docs": 45_000,
}
"""A figure that falls takes its bound along."""


@pytest.mark.parametrize("what", MOST)
def test_a_figure_stays_within_its_bound(what: str) -> None:
    assert figures()[what] <= MOST[what]


def test_each_figure_has_a_bound() -> None:
    assert MOST.keys() == figures().keys()


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("# Run it\n\nSee [the page](page.md#part), `a --flag` too.", 8),
        ("| A | B |\n|---|---|\n| one cell | two - more |", 6),
        ("One.\n```console\n$ not this\n```\nTwo.", 2),
        ("1. One:\n\n   ```\n   not this\n   ```\n2. Two.", 4),
        ("One.\n<!-- bench -->\nwritten by a command\n<!-- end -->\nTwo.\n<!-- a comment -->", 2),
        ("An [empty]() <br> one.", 3),
    ],
    ids=["text", "a table", "code", "code in a list", "what a command writes", "markup"],
)
def test_words_that_a_person_wrote_are_counted(markdown: str, expected: int) -> None:
    assert words(markdown) == expected
