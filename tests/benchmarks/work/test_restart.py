"""Restarts: what counts as needless, and which goals are for how many workloads."""

from __future__ import annotations

import pytest

from benchmarks.work.core import Setting
from benchmarks.work.restart import Found, Sizes, lines, needless
from tests.benchmarks.builders import calls

NOTHING: dict[str, float] = {}
FOUND = Found(listed=10.0, restarted=11.9, stopped=2.0, killed=17.0, turn=90.0, rewritten=NOTHING, taken_over=NOTHING)
MANY = Sizes(10_000, 5_000)


@pytest.mark.parametrize(
    ("setting", "sizes"),
    [
        pytest.param(Setting(print, full=True), MANY, id="in full"),
        pytest.param(Setting(print), Sizes(3_000, 100), id="some thousands otherwise"),
        pytest.param(Setting(print, pending=4, running=2), Sizes(4, 2), id="by option"),
    ],
)
def test_sizes(setting: Setting, sizes: Sizes) -> None:
    assert Sizes.of(setting) == sizes


def test_writes_are_needless_but_those_of_the_lease() -> None:
    manager = calls(by={"update leases": 9.0, "list jobs": 1.0, "patch workloads/status": 2.0})
    workers = calls(by={"watch workloads": 3.0, "delete workloads → 404": 1.0})
    assert needless(manager, workers) == {
        "patch workloads/status, manager": 2.0,
        "delete workloads → 404, workers": 1.0,
    }


@pytest.mark.parametrize(
    ("found", "sizes", "verdicts"),
    [
        pytest.param(FOUND, MANY, [None, True, True, True, True, True, True, None], id="all is reached"),
        pytest.param(
            Found(10.0, 12.5, 2.0, 17.0, 90.0, NOTHING, NOTHING),
            MANY,
            [None, True, False, True, True, True, True, None],
            id="longer than to list them",
        ),
        pytest.param(
            Found(0.1, 1.2, 16.0, 17.0, 101.0, {"patch workloads/status, manager": 2}, NOTHING),
            Sizes(200, 100),
            [None, True, None, False, False, True, False, None],
            id="few are listed sooner than an interpreter starts",
        ),
    ],
)
def test_goals(found: Found, sizes: Sizes, verdicts: list[bool | None]) -> None:
    assert [line.ok for line in lines(found, sizes)] == verdicts


def test_lines_say_how_many_there_were() -> None:
    line = lines(FOUND, MANY)[2]
    assert line.figure == "restart with 10,000 pending, 5,000 running: start to next dispatch, s"
    assert (line.ours, line.goal, line.ratio) == (11.9, "≤ 1.2 x the list", 1.19)
