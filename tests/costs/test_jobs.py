"""What one job costs the manager does not grow with workers that it does not concern, and no faster than with its copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.costs.counting import DECODES, FUNCTIONS
from tests.costs.fleet import COPIES, STRATEGIES, Costs, Strategy, costs
from tests.costs.reconciles import of_a_job

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]  # 300 workers on a busy machine take a minute

SIZES = {3: (3, 1), 30: (2, 1), 300: (1, 0)}
"""Workers, and how many jobs are counted, after how many that are not."""

SLACK = 1.3
"""What is drawn differs: how long calls take, and so which news come together. One more or less is no growth, either."""


@dataclass(frozen=True, slots=True)
class Goal:
    """At most so much of what is counted, for one job and for each of its copies, however many other workers there are.

    `of_all`: only for jobs that have a copy on each worker, or only for those that do not.
    """

    what: str
    once: float
    per_copy: float = 0
    of_all: bool | None = None

    def most(self, copies: int) -> float:
        return self.once + self.per_copy * copies

    def is_for(self, strategy: Strategy) -> bool:
        return self.of_all in (None, strategy.takes_all)


GOALS: Sequence[Goal] = (
    Goal("remotes", 1, 12, of_all=True),
    Goal("remotes", 30, of_all=False),
    Goal("decisions", 6, 0.1, of_all=True),
    Goal("decisions", 7, of_all=False),
    Goal("workload reconciles", 8),
    Goal("cases", 10),
    Goal("workers shown to strategies", 0, 1, of_all=True),
    Goal("workers shown to strategies", 0, of_all=False),
    Goal("strategy calls", 2),
    Goal(DECODES, 10),
    Goal("job reconciles", 10),
    Goal("outbox turns", 4, 4),
    Goal("touches", 38, 1),
    Goal("manager writes", 14),  # one of them the event that says who won (dispatch.tell_wins)
    Goal("manager reads", 0),
    Goal("worker writes", 2, 2),
    Goal("worker reads", 0),
)


MOST_FUNCTIONS = 14_500
"""Functions in Python that are called for one job, until all its consequences are over: 12,600 to 14,100 by strategy. What a
busy machine adds to seconds it does not add to these."""

MOST_IN_A_RECONCILE = {"patch workloads/status": 650, "": 250}
"""Functions of the product in a reconcile of a Workload: in one that writes its status, and in one that writes nothing."""


def _costs(workers: int) -> dict[str, Costs]:
    jobs, warm_ups = SIZES[workers]
    return dict(costs(workers, jobs, warm_ups))


def _missed(workers: int, goals: Sequence[Goal]) -> list[str]:
    found = _costs(workers)
    return [
        f"{strategy.name}: {found[strategy.name].get(goal.what, 0):.1f} {goal.what}, expected at most {most:.0f}"
        for strategy in STRATEGIES
        for goal in goals
        if goal.is_for(strategy)
        and found[strategy.name].get(goal.what, 0) > (most := goal.most(_copies(strategy, workers)))
    ]


def _copies(strategy: Strategy, workers: int) -> int:
    return workers if strategy.takes_all else COPIES


@pytest.mark.parametrize("workers", SIZES)
def test_a_job_costs_no_more_than_it_did(workers: int) -> None:
    assert _missed(workers, GOALS) == []


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if not each.takes_all], ids=lambda each: each.name)
def test_workers_that_get_no_copy_cost_a_job_nothing(strategy: Strategy) -> None:
    few, many = (_costs(workers)[strategy.name] for workers in (min(SIZES), max(SIZES)))
    grown = {what: (few[what], count) for what, count in many.items() if count > SLACK * few[what] + 1}
    if strategy.name == "users-own":
        grown.pop(FUNCTIONS, None)  # a stranger's strategy gets a copy of the fleet
    assert grown == {}


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if not each.takes_all], ids=lambda each: each.name)
def test_a_job_calls_no_more_functions_than_it_did(strategy: Strategy) -> None:
    assert _costs(min(SIZES))[strategy.name][FUNCTIONS] <= MOST_FUNCTIONS


async def test_a_reconcile_calls_no_more_functions_than_it_did() -> None:
    found = [each for each in await of_a_job() if each.of == "Workload"]
    assert {"".join(each.calls) for each in found} == set(MOST_IN_A_RECONCILE)
    assert [each for each in found if each.functions > MOST_IN_A_RECONCILE["".join(each.calls)]] == []


def test_all_that_has_a_goal_is_counted() -> None:
    """A name that nothing is counted by would keep any goal."""
    found = _costs(min(SIZES))
    never = {"manager reads", "worker reads", "workers shown to strategies"}
    assert {goal.what for goal in GOALS} - never <= set(found["all-at-once"])
    assert all(found[each.name][FUNCTIONS] > 0 for each in STRATEGIES if not each.takes_all)
