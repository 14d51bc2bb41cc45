"""Traces that are off cost a job nothing, and those that are on no call of an API."""

from __future__ import annotations

import pytest

from tests.costs.counting import DECODES, FUNCTIONS
from tests.costs.fleet import STRATEGIES, Costs
from tests.costs.traces import measure

pytestmark = pytest.mark.timeout(180)

MOST_FOR_SPANS = 400
"""Functions in Python that the spans of one job take: 294 to 301 by strategy."""


def calls(found: Costs) -> dict[str, float]:
    """Of the API, by cluster and verb."""
    return {what: count for what, count in found.items() if what.startswith(("manager ", "worker "))}


@pytest.mark.parametrize("name", [each.name for each in STRATEGIES])
def test_off_is_the_same_as_a_manager_without_a_line_for_traces(name: str) -> None:
    assert measure().off[name] == measure().bare[name]


@pytest.mark.parametrize("name", [each.name for each in STRATEGIES])
def test_on_asks_the_clusters_for_nothing_more(name: str) -> None:
    off, on = measure().off[name], measure().on[name]
    assert calls(off)["worker writes"] > 0
    assert calls(on) == calls(off)
    assert on[DECODES] <= off[DECODES]


@pytest.mark.parametrize("name", [each.name for each in STRATEGIES if not each.takes_all])
def test_on_costs_a_job_some_functions_and_no_more(name: str) -> None:
    more = measure().on[name][FUNCTIONS] - measure().off[name][FUNCTIONS]
    assert 0 < more <= MOST_FOR_SPANS


def test_spans_were_made() -> None:
    assert measure().spans > 0
