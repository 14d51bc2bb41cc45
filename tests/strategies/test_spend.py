"""The filter and the scorer that read what queues have spent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from multikueue.strategy import Score, Weighted, Workload
from multikueue.testing import NOW, StrategyWorkloadBuilder, check_strategy, fleet, strategy_workload
from multikueue_strategies.composed import Composed
from multikueue_strategies.spend import SpendBound, SpendShare

JOB = strategy_workload().request(cpu=2)
FLEET = fleet("home").worker("cheap", prices={"cpu": 0.1}).worker("dear", prices={"cpu": 0.1, "fast/cpu": 0.2}).build()


def refusals(job: StrategyWorkloadBuilder) -> dict[str, str]:
    return {worker.name: SpendBound().refuses(job.build(), worker, FLEET) for worker in FLEET.workers}


def scores(workload: Workload, *names: str) -> list[Score]:
    shown = tuple(each for each in FLEET.workers if each.name in names)
    return [SpendShare().score(workload, worker, replace(FLEET, workers=shown)) for worker in shown]


@pytest.mark.parametrize("part", [SpendBound(), SpendShare()], ids=["bound", "share"])
def test_it_keeps_the_contract(part: SpendBound | SpendShare) -> None:
    check_strategy(part)


@pytest.mark.parametrize(
    "job",
    [JOB, JOB.spent(99.9), strategy_workload().request(memory="1Gi").spent(200)],
    ids=["no queue has a limit", "it is within the limit", "what it requests costs nothing"],
)
def test_nobody_is_refused_where(job: StrategyWorkloadBuilder) -> None:
    assert refusals(job) == {"home": "", "cheap": "", "dear": ""}


def test_once_a_queue_has_spent_all_only_workers_that_cost_nothing_are_left() -> None:
    until = NOW + timedelta(minutes=61)
    told = "ClusterQueue cq has spent 100 within 168h, until 2026-01-01T13:10Z"
    assert refusals(JOB.spent(5).spent(100, until=until)) == {"home": "", "cheap": told, "dear": told}


def test_without_an_end_what_runs_is_named() -> None:
    assert (
        refusals(JOB.spent(300))["dear"] == "ClusterQueue cq has spent 100 within 168h, and what runs goes on spending"
    )


def test_the_end_is_told_in_the_same_words_for_a_while() -> None:
    ends = [NOW + timedelta(minutes=10), NOW + timedelta(minutes=10, seconds=1), NOW + timedelta(minutes=19)]
    first, second, third = (refusals(JOB.spent(100, until=end))["dear"] for end in ends)
    assert first.endswith("12:10Z")
    assert second == third
    assert second.endswith("12:20Z")


def test_the_more_is_spent_the_more_a_price_counts() -> None:
    job = JOB.assigned("fast")
    assert [each.value for each in scores(job.build(), "cheap", "dear")] == [None, None]
    assert [each.value for each in scores(job.spent(0).build(), "cheap", "dear")] == [1, 1]
    assert [each.value for each in scores(job.spent(50).build(), "cheap", "dear")] == [1, 0.75]
    assert [each.value for each in scores(job.spent(500).spent(1).build(), "cheap", "dear")] == [1, 0.5]
    assert scores(job.spent(0, most=0).build(), "home", "dear") == [Score(1, "0 an hour"), Score(0, "0.4 an hour")]


def test_a_job_that_may_cost_nothing_is_held_and_told_why() -> None:
    held = Composed(filters=(SpendBound(),), scorers=(Weighted(SpendShare()),))
    paid = fleet().worker("cheap", prices={"cpu": 0.1}).build()
    found = held.nominate(JOB.spent(100).build(), paid)
    assert found.clusters == ()
    assert found.reason.startswith("refused: cheap (ClusterQueue cq has spent 100 within 168h")
    assert held.nominate(JOB.spent(99).build(), paid).clusters == ("cheap",)
