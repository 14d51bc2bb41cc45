"""The table of what was shown once: for each row what shows that it is over, on real clusters too, and a planted bug.

That the tests named there exist is shown in `test_docs.py`, and that the bugs are caught in `tests/simulation/test_teeth.py`.
"""

from __future__ import annotations

import re

import pytest

from testbed.hostile.play import CASES
from tests.project.files import read
from tests.simulation.bugs import BUGS

ROWS = {
    int(number): cells.split(" | ")
    for number, cells in re.findall(r"^\| (\d+) \| (.*) \|$", read("docs/attacks.md"), re.MULTILINE)
}
PLAYED = {f"`make hostile`: {case.what}" for case in CASES}


def test_each_row_is_there_once_and_in_order() -> None:
    assert list(ROWS) == list(range(1, 19))


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_a_fast_test_and_what_shows_it_on_real_clusters_if_anything_does(row: int) -> None:
    _what, fast, real, _bugs = ROWS[row]
    assert all(re.fullmatch(r"`tests/(?!real/)[\w/]+\.py::\w+`", each) for each in fast.split(", "))
    assert real in {"-", *PLAYED} or re.fullmatch(r"`tests/real/\w+\.py::\w+`", real)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_names_the_bugs_that_are_planted_for_it(row: int) -> None:
    assert ROWS[row][-1].split(", ") == [f"`{bug.name}`" for bug in BUGS.values() if bug.row == row] != []
