"""The product gets no larger than it is, nor its classes, its functions and the number of its settings."""

from __future__ import annotations

import pytest

from tests.project.figures import figures

MOST = {
    "modules": 370,
    "lines": 69_500,
    "settings": 110,
    "methods of a class, at most": 36,
    "parameters of a function, at most": 9,
    "private helpers with one caller": 0.63,
}
"""A figure that falls takes its bound along."""


@pytest.mark.parametrize("what", MOST)
def test_a_figure_stays_within_its_bound(what: str) -> None:
    assert figures()[what] <= MOST[what]


def test_each_figure_has_a_bound() -> None:
    assert MOST.keys() == figures().keys()
