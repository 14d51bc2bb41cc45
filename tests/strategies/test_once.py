"""What is computed once for each question, and not for each worker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from multikueue.strategy import Fleet, Workload
from multikueue.testing import NOW, fleet, strategy_workload
from multikueue_strategies.once import Once
from multikueue_strategies.scorers import Order, Price

WORKERS = fleet(*(f"w{number}" for number in range(20)))


def test_it_computes_again_for_other_arguments_only() -> None:
    asked: list[tuple[Fleet, str]] = []

    @Once
    def length(fleet: Fleet, word: str) -> int:
        asked.append((fleet, word))
        return len(fleet.workers)

    one, other = WORKERS.build(), fleet("a").build()
    assert [length(one, "x"), length(one, "x"), length(other, "x"), length(other, "y")] == [20, 20, 1, 1]
    assert asked == [(one, "x"), (other, "x"), (other, "y")]


class Counted(dict[str, dict[str, float]]):
    """Prices that count how often they are looked at."""

    looks = 0

    def get(self, key: str, default: object = None) -> dict[str, float]:
        self.looks += 1
        return self[key]


def test_a_choice_looks_at_each_price_once() -> None:
    prices = Counted({f"w{number}": {"cpu": 1.0 + number} for number in range(20)})
    scorer, asked, workers = Price(prices), strategy_workload().request(cpu=2).build(), WORKERS.build()
    scores = [scorer.score(asked, worker, workers).value or 0.0 for worker in workers.workers]
    assert prices.looks == 20
    assert [round(score, 3) for score in scores[:3]] == [1, 0.5, 0.333]


@pytest.mark.parametrize(
    ("change", "value"),
    [
        (lambda workload, workers: (workload, workers), 0.5),
        (lambda workload, workers: (strategy_workload().build(), workers), 1.0),
        (lambda workload, workers: (workload, Fleet(workers=workers.workers[1:], now=NOW)), 1.0),
    ],
    ids=["the same question", "another workload", "another fleet"],
)
def test_another_question_has_its_own_answer(
    change: Callable[[Workload, Fleet], tuple[Workload, Fleet]], value: float
) -> None:
    scorer = Price({f"w{number}": {"cpu": 1.0 + number} for number in range(20)})
    asked, workers = strategy_workload().request(cpu=2).build(), WORKERS.build()
    scorer.score(asked, workers.workers[1], workers)
    workload, others = change(asked, workers)
    assert scorer.score(workload, workers.workers[1], others).value == value


def test_a_place_is_that_in_this_fleet() -> None:
    workers = WORKERS.build()
    assert Order().score(strategy_workload().build(), workers.workers[19], workers).value == 0
    fewer = Fleet(workers=workers.workers[19:], now=NOW)
    assert Order().score(strategy_workload().build(), workers.workers[19], fewer).value == 1
