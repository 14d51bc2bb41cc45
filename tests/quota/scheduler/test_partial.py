"""Partial admission (quota-engine 3.3; scenarios QE-115 to QE-124)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.api.kueue.workload import PodSet
from multikueue.quota.requests.amounts import Demand, PodSetDemand
from multikueue.quota.scheduler.partial import largest, reduced, reduction


def pod_sets(*counts: tuple[int, int | None]) -> list[PodSet]:
    return [PodSet(name=f"p{index}", count=count, min_count=least) for index, (count, least) in enumerate(counts)]


def most(limit: int, counts: Sequence[PodSet]) -> tuple[int, ...] | None:
    """The largest counts that are no more than so many pods together."""
    return largest(reduction(counts), lambda found: found if sum(found) <= limit else None)


FOUND = {
    "no pod sets": ([], 9, None),
    "nothing to spare": ([(5, None)], 4, None),
    "as much as there is": ([(5, 3), (5, 4), (5, 1), (5, 2)], 15, 15),
    "one that varies": ([(5, 3), (15, None)], 19, 19),
    "down to the least": ([(20, 10)], 10, 10),
    "all of it": ([(20, 10)], 20, 20),
    "many pods": ([(150_000, 1)] * 8, 150_000, 150_000),
    "many and few": ([(150_000, 1), (7, None)], 150_000, 150_000),
    "less than the least": ([(20, 10)], 9, None),
    "no pods at all": ([(0, None)], 9, None),
}


@pytest.mark.parametrize(("counts", "limit", "expected"), FOUND.values(), ids=FOUND.keys())
def test_qe_117_to_124_how_many_pods(counts: list[tuple[int, int | None]], limit: int, expected: int | None) -> None:
    found = most(limit, pod_sets(*counts))
    assert (None if found is None else sum(found)) == expected


def test_qe_115_each_gives_in_proportion_to_what_it_can_spare() -> None:
    assert most(50, pod_sets((20, None), (30, 10), (15, 5))) == (20, 20, 10)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4), st.integers(0, 40))
def test_the_counts_stay_within_bounds_and_nothing_larger_would_do(bounds: list[tuple[int, int]], limit: int) -> None:
    counts = pod_sets(*((max(pair), min(pair)) for pair in bounds))
    ways = reduction(counts)
    found = most(limit, counts)
    fitting = [step for step in range(ways.steps + 1) if ways.steps and sum(ways.counts(step)) <= limit]
    assert found == (ways.counts(fitting[0]) if fitting else None)
    if found is not None:
        assert all((each.min_count or 0) <= count <= each.count for each, count in zip(counts, found, strict=True))


def test_requests_are_divided_by_the_pods_there_are_and_a_remainder_is_lost() -> None:
    demand = Demand(
        (PodSetDemand(name="a", count=3, requests={"cpu": 10}), PodSetDemand(name="b", count=0, requests={}))
    )
    found = reduced(demand, (2, 4)).pod_sets
    assert [(each.count, each.requests) for each in found] == [(2, {"cpu": 6}), (0, {})]


def test_the_same_counts_leave_the_demand_alone() -> None:
    demand = Demand((PodSetDemand(name="a", count=3, requests={"cpu": 10}),))
    assert reduced(demand, (3,)) == demand
