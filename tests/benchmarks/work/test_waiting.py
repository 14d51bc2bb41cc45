"""Ends among many that wait: how many those are, and which goals are reached."""

from __future__ import annotations

import pytest

from benchmarks.work.core import Setting
from benchmarks.work.waiting import Ends, lines, sizes


@pytest.mark.parametrize(
    ("setting", "many"),
    [(Setting(print, full=True), 10_000), (Setting(print), 3_000), (Setting(print, pending=90), 90)],
)
def test_sizes(setting: Setting, many: int) -> None:
    assert sizes(setting) == (30, many)


@pytest.mark.parametrize(
    ("many", "verdicts"),
    [
        pytest.param(Ends(3_000, writes=4.2, cpu=14.0), [True, True, None, True, True], id="as flat as with few"),
        pytest.param(Ends(3_000, writes=3_003.0, cpu=15.5), [True, False, None, False, True], id="each is told"),
    ],
)
def test_goals(many: Ends, verdicts: list[bool | None]) -> None:
    found = lines((Ends(30, writes=4.0, cpu=10.0), many), turn=20.0)
    assert [line.ok for line in found] == verdicts
    assert "3,000" in found[1].figure
