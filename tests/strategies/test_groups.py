"""The parts that look at where others of a group are."""

from __future__ import annotations

import pytest

from multikueue.strategy import Filter, Score, Scorer
from multikueue.testing import check_strategy, fleet, strategy_workload
from multikueue_strategies.groups import ZONE, OnlyApart, OnlyTogether, Spread, Together

FLEET = (
    fleet()
    .worker("a1", labels={ZONE: "a"})
    .worker("a2", labels={ZONE: "a"})
    .worker("b1", labels={ZONE: "b"})
    .worker("alone")
    .build()
)
ALONE = strategy_workload()
MATES = strategy_workload().mates(a1=2, b1=1)


@pytest.mark.parametrize("part", [OnlyTogether(), OnlyApart(), Together(), Spread()])
def test_it_keeps_the_contract(part: Filter | Scorer) -> None:
    check_strategy(part)
    assert getattr(type(part), "reads", ()) == ("mates",)


@pytest.mark.parametrize(
    ("part", "refused"),
    [(OnlyTogether(), ["a2", "alone"]), (OnlyApart(), ["a1", "b1"])],
    ids=["together", "apart"],
)
def test_whom_a_filter_refuses(part: Filter, refused: list[str]) -> None:
    assert [each.name for each in FLEET.workers if part.refuses(MATES.build(), each, FLEET)] == refused
    assert not any(part.refuses(ALONE.build(), each, FLEET) for each in FLEET.workers), "it is the first of its group"


@pytest.mark.parametrize(
    ("part", "scores"),
    [
        (Together(), {"a1": 2 / 3, "a2": 0.0, "b1": 1 / 3, "alone": 0.0}),
        (Spread(), {"a1": 0.0, "a2": 0.0, "b1": 0.5, "alone": 1.0}),
        (Spread(label="rack"), {"a1": 0.0, "a2": 1.0, "b1": 0.5, "alone": 1.0}),
    ],
    ids=["together", "spread over zones", "spread over workers, which have no such label"],
)
def test_how_good_a_worker_is(part: Scorer, scores: dict[str, float]) -> None:
    found = {each.name: part.score(MATES.build(), each, FLEET).value for each in FLEET.workers}
    assert found == pytest.approx(scores)
    assert part.score(ALONE.build(), FLEET.workers[0], FLEET) == Score(None, "none of its group is anywhere")


def test_mates_that_are_on_no_worker_of_the_fleet_make_no_domain_worse() -> None:
    elsewhere = strategy_workload().mates(gone=3).build()
    assert Spread().score(elsewhere, FLEET.workers[0], FLEET).value == 1.0
