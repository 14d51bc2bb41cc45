"""The scorers `wait` and `steady`: what they make of how long jobs waited."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.strategy import Score, Waits
from multikueue.testing import check_strategy, fleet, strategy_workload
from multikueue_strategies.waits import ShortWait, Steady

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def waits(half: timedelta | None, *, longest: timedelta = MINUTE, seen: float = 9, evicted: float = 0) -> Waits:
    steps = () if half is None else ((0.6, half),)
    return Waits(of="its queue", seen=seen, steps=steps, longest=longest, evicted=evicted)


FLEET = (
    fleet("quick", "slow", "stuck", "new", "unread")
    .waits("quick", waits(30 * SECOND))
    .waits("slow", waits(90 * SECOND))
    .waits("stuck", waits(None, longest=timedelta(hours=3)))
    .waits("new", waits(SECOND, seen=2))
    .build()
)


def score(part: ShortWait | Steady, name: str) -> Score:
    worker = next(each for each in FLEET.workers if each.name == name)
    return part.score(strategy_workload().build(), worker, FLEET)


@pytest.mark.parametrize("part", [ShortWait(), Steady()])
def test_it_keeps_the_contract(part: ShortWait | Steady) -> None:
    check_strategy(part)


def test_they_are_told_of_waits() -> None:
    assert ShortWait.reads == Steady.reads == ("waits",)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("quick", Score(1.0, "half wait 30s"), id="the shortest"),
        pytest.param("slow", Score(0.5, "half wait 90s"), id="three times as long, of which a grace is taken"),
        pytest.param("stuck", Score(60 / 10_830, "half wait 3h"), id="none had quota: as long as the longest waited"),
        pytest.param("new", Score(None, "few jobs like it seen"), id="too few"),
        pytest.param("unread", Score(None, "few jobs like it seen"), id="nothing is known"),
    ],
)
def test_how_good_a_wait_is(name: str, expected: Score) -> None:
    found = score(ShortWait(), name)
    assert (found.reason, found.value) == (expected.reason, pytest.approx(expected.value))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (waits(SECOND, evicted=0.25), Score(0.75, "25% evicted")),
        (waits(SECOND), Score(1.0, "0% evicted")),
        (waits(None), Score(None, "few jobs like it seen")),
        (waits(SECOND, seen=1, evicted=1), Score(None, "few jobs like it seen")),
    ],
    ids=["a quarter", "none", "none had quota", "too few"],
)
def test_how_steady_a_worker_is(known: Waits, expected: Score) -> None:
    found = fleet("w1").waits("w1", known).build()
    assert Steady().score(strategy_workload().build(), found.workers[0], found) == expected
