"""What people are told of a strategy's choice: the order of workers, and the words of each."""

from __future__ import annotations

import pytest

from multikueue.strategy import Filter, Opinion, Score, Scorer, Weighted
from multikueue.testing import fleet, strategy_workload
from multikueue.workload.nomination.choice import PartScore, WorkerChoice, choice
from multikueue_strategies.filters import Taints
from multikueue_strategies.scorers import Order, Price

FLEET = fleet("low", "refused", "high").unusable("away").build()


def name_of(part: Filter | Scorer) -> str:
    return type(part).__name__.lower()


def scored(worker: str, total: float) -> Opinion:
    return Opinion(worker, scores=((Weighted(Order(), 2.0), Score(total, "place")),), total=total)


VERDICTS = (scored("low", 0.25), Opinion("refused", "a taint", Taints()), scored("high", 0.75), scored("away", 1.0))


def test_the_best_comes_first_and_who_cannot_have_a_copy_last() -> None:
    workload = strategy_workload().nominated("high").build()
    found = choice("composed", workload, FLEET, VERDICTS, name_of)
    assert [(each.worker, each.nominated) for each in found.workers] == [
        ("high", True),
        ("low", False),
        ("away", False),
        ("refused", False),
    ]
    assert found.workers[0].scores == (PartScore(scorer="order", weight=2.0, value=0.75, reason="place"),)
    assert found.workers[-1].filter == "taints"


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        (WorkerChoice(worker="w1", usable=False, why="cordoned", refused="a taint"), "cordoned"),
        (WorkerChoice(worker="w1", filter="taints", refused="a taint"), "refused by taints: a taint"),
        (WorkerChoice(worker="w1"), ""),
        (
            WorkerChoice(
                worker="w1",
                scores=(
                    PartScore(scorer="order", weight=1, value=0.5, reason="place 2"),
                    PartScore(scorer="price", weight=1, reason="no price"),
                ),
            ),
            "order 0.50: place 2, price -: no price",
        ),
    ],
    ids=["cannot be used", "is refused", "nothing was said", "was scored, as far as scorers can tell"],
)
def test_why_a_worker_may_get_a_copy(worker: WorkerChoice, words: str) -> None:
    assert worker.words == words


def test_of_a_strategy_that_does_not_explain_itself_the_nominated_are_told() -> None:
    found = choice("incremental", strategy_workload().nominated("low").build(), FLEET, (), name_of)
    assert [each.worker for each in found.workers if each.nominated] == ["low"]
    assert all(each.total is None for each in found.workers)


def test_parts_are_named_as_they_are_installed() -> None:
    from multikueue.registry import part_name

    class Mine(Price):
        """Installed under no name."""

    assert (part_name(Price()), part_name(Taints()), part_name(Mine())) == (
        "price",
        "taints",
        "test_parts_are_named_as_they_are_installed.<locals>.Mine",
    )
