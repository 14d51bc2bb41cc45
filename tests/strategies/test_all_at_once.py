"""All at once: every usable worker, from the first moment."""

from __future__ import annotations

import pytest

from multikueue.strategy import Nomination
from multikueue.testing import FleetBuilder, check_strategy, fleet, strategy_workload
from multikueue_strategies.all_at_once import AllAtOnce


def test_it_keeps_the_contract() -> None:
    check_strategy(AllAtOnce())


@pytest.mark.parametrize(
    ("workers", "nominated"),
    [
        pytest.param(fleet("b", "a"), ("b", "a"), id="all, in the order of the fleet"),
        pytest.param(fleet("a", "b", "c").unusable("b"), ("a", "c"), id="but those that cannot be used"),
        pytest.param(fleet().unusable("a"), (), id="none if none can"),
        pytest.param(fleet(), (), id="none if there are none"),
    ],
)
def test_it_nominates_every_usable_worker(workers: FleetBuilder, nominated: tuple[str, ...]) -> None:
    assert AllAtOnce().nominate(strategy_workload().build(), workers.build()) == Nomination(nominated)


def test_it_takes_in_a_worker_that_came_back() -> None:
    workload = strategy_workload().nominated("a").build()
    assert AllAtOnce().nominate(workload, fleet("a", "b").build()).clusters == ("a", "b")
