"""The public contract: what is exported, and the few words of its values."""

from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue import strategy
from multikueue.strategy import Strategy
from multikueue.testing import NOW, fleet, strategy_workload
from multikueue_strategies.all_at_once import AllAtOnce

PATIENCE = timedelta(minutes=5)


def test_the_public_names_are_these() -> None:
    assert strategy.__all__ == [
        "Explaining",
        "Filter",
        "FlavorRoom",
        "Fleet",
        "Nomination",
        "Opinion",
        "Placement",
        "Room",
        "Score",
        "Scorer",
        "Spend",
        "Strategy",
        "Waits",
        "Weighted",
        "Worker",
        "Workload",
        "hourly",
    ]


def test_the_names_of_a_fleet_are_those_of_its_usable_workers_in_order() -> None:
    assert fleet("c", "a", "b").unusable("a").build().names == ("c", "b")


@pytest.mark.parametrize(
    ("waited", "patient"),
    [
        pytest.param(timedelta(), True, id="just nominated"),
        pytest.param(PATIENCE - timedelta(seconds=1), True, id="nearly over"),
        pytest.param(PATIENCE, False, id="over"),
    ],
)
def test_a_nomination_is_waited_for_with_patience(waited: timedelta, patient: bool) -> None:
    workload = strategy_workload().nominated("a").build()
    assert workload.waited_less_than(PATIENCE, NOW + waited) is patient


def test_without_a_nomination_there_is_nothing_to_wait_for() -> None:
    assert not strategy_workload().build().waited_less_than(PATIENCE, NOW)


def test_a_strategy_is_known_by_its_method() -> None:
    assert isinstance(AllAtOnce(), Strategy)
    assert not isinstance(object(), Strategy)
