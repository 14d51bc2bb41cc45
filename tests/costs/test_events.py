"""What an event costs the manager, until all its consequences are over, does not grow with those whom it does not concern."""

from __future__ import annotations

import pytest

from tests.costs.counting import FUNCTIONS
from tests.costs.waiting import EVENTS, costs

FEW, MANY = 100, 1000
SLACK = 1.1
"""Some calls are of trees and heaps, whose depth grows a little."""


@pytest.mark.parametrize("what", [event.what for event in EVENTS])
def test_an_event_costs_the_same_however_many_wait(what: str) -> None:
    few, many = costs(FEW)[what], costs(MANY)[what]
    assert {label: (few[label], count) for label, count in many.items() if count > SLACK * few[label]} == {}


def test_events_arrive() -> None:
    """But for those that concern nobody: who watches no queue of a worker is told nothing of it."""
    quiet = {"nothing", "the status of a worker's ClusterQueue"}
    found = costs(FEW)
    assert {what for what, count in found.items() if count[FUNCTIONS] <= found["nothing"][FUNCTIONS]} == quiet
