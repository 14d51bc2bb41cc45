"""What an event costs does not grow with those whom it does not concern."""

from __future__ import annotations

from functools import cache
from itertools import count

import pytest

from tests.costs.keys import EVENTS, Cost, Event, as_markdown, cost, measure, world

SIZES, FEWER = (100, 10_000), (100, 1000)
"""How many wait; and fewer, where the work grows with them."""

SLACK = 1.25
"""Some calls are of trees and heaps, whose depth grows a little."""

CONCERNS_MANY = [event for event in EVENTS if event.many]
CONCERNS_FEW = [event for event in EVENTS if not event.many]


@cache
def costs(event: Event) -> tuple[Cost, Cost]:
    small, large = (_cost(event, size) for size in (FEWER if event.many else SIZES))
    return small, large


@cache
def _world(size: int) -> tuple[object, ...]:
    return (*world(size), count(2))


def _cost(event: Event, size: int) -> Cost:
    store, asked, numbers = _world(size)
    return cost(event, store, asked, numbers)  # type: ignore[arg-type]


@pytest.mark.parametrize("event", CONCERNS_FEW, ids=lambda event: event.what)
def test_what_concerns_few_costs_the_same_however_many_wait(event: Event) -> None:
    small, large = costs(event)
    assert large.keys == small.keys
    assert large.calls <= small.calls * SLACK + 5


@pytest.mark.parametrize("event", CONCERNS_MANY, ids=lambda event: event.what)
def test_what_concerns_all_who_wait_has_been_seen_to_grow(event: Event) -> None:
    """So that the figures above are those of events that arrive."""
    small, large = costs(event)
    assert large.keys > 2 * small.keys


def test_the_table_has_a_line_for_each_event() -> None:
    lines = as_markdown(measure((2,))).splitlines()[2:]
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == [event.what for event in EVENTS]
