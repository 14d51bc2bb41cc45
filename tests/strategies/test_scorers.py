"""Scorers: from 0 to 1, None where they cannot tell, and why."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.strategy import Fleet, Score, Scorer, Worker
from multikueue.testing import StrategyWorkloadBuilder, check_strategy, fleet, strategy_workload
from multikueue_strategies.scorers import DATA, TIER, Data, HubScore, Order, Preferred, Price, Tiers

TIERS = Tiers(order=("reserved", "on-demand", "spot"))
PREFERRED = Preferred(labels={"region=eu": 3, "gpu": 1})
PRICE = Price(prices={"a": {"cpu": 0.1, "memory": 0.01}, "b": {"cpu": 0.2, "memory": 0.02}, "free": {}})
DATA_IN_A = Data(places={"s3://lake": ("a",), "s3://lake/eu": ("a", "b"), "nfs://home/": ("b",)})


ABC = fleet("a", "b", "c").build()


def scored(scorer: Scorer, name: str, workers: Fleet = ABC, *, data: str = "") -> Score:
    asking = strategy_workload().request(cpu=2, memory="4Gi").annotations({DATA: data} if data else {}).build()
    return scorer.score(asking, next(each for each in workers.workers if each.name == name), workers)


def labelled(**labels: str) -> Fleet:
    return fleet().worker("a", labels=labels).build()


@pytest.mark.parametrize(
    "part",
    [Order(), TIERS, PREFERRED, Price(), PRICE, Data(), DATA_IN_A],
    ids=["order", "tiers", "preferred", "no prices", "price", "no places", "data"],
)
def test_it_keeps_the_contract(part: Scorer) -> None:
    check_strategy(part)


@pytest.mark.parametrize(
    ("kind", "options", "problem"),
    [
        (Tiers, {"order": ()}, "at least one tier"),
        (Tiers, {"order": ("a", "a")}, "none twice"),
        (Preferred, {"labels": {}}, "at least one label"),
        (Preferred, {"labels": {"a": 0}}, "weights greater than 0"),
        (Price, {"prices": {"a": {"cpu": -1}}}, "prices of 0 or more"),
    ],
)
def test_options_that_make_no_sense_are_refused(kind: Any, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        kind(**options)


def test_the_order_of_the_config_counts() -> None:
    assert [scored(Order(), name).value for name in ("a", "b", "c")] == [1, 0.5, 0]
    assert scored(Order(), "a", fleet("a").build()) == Score(1, "place 1")


@pytest.mark.parametrize(
    ("labels", "score"),
    [
        ({TIER: "reserved"}, Score(1, "tier reserved")),
        ({TIER: "on-demand"}, Score(0.5, "tier on-demand")),
        ({TIER: "spot"}, Score(0, "tier spot")),
        ({TIER: "edge"}, Score(None, "tier edge has no place")),
        ({}, Score(None, "no tier")),
    ],
)
def test_a_tier_counts_by_its_place(labels: dict[str, str], score: Score) -> None:
    assert scored(TIERS, "a", labelled(**labels)) == score


@pytest.mark.parametrize(
    ("labels", "score"),
    [
        ({"region": "eu", "gpu": "h100"}, Score(1, "region=eu, gpu")),
        ({"region": "eu"}, Score(0.75, "region=eu")),
        ({"region": "us", "gpu": ""}, Score(0.25, "gpu")),
        ({}, Score(0, "none of the labels")),
    ],
)
def test_preferred_labels_earn_their_share(labels: dict[str, str], score: Score) -> None:
    assert scored(PREFERRED, "a", labelled(**labels)) == score


def test_the_cheapest_worker_for_this_request_has_1() -> None:
    """2 cores and 4 GiB: 0.24 on `a`, 0.48 on `b`."""
    assert scored(PRICE, "a") == Score(1, "0.24 an hour")
    assert scored(PRICE, "b") == Score(0.5, "0.48 an hour")
    assert scored(PRICE, "c") == Score(None, "no price")


def test_beside_a_free_worker_all_others_have_0() -> None:
    workers = fleet("a", "b", "free").build()
    assert [scored(PRICE, name, workers).value for name in ("a", "b", "free")] == [0, 0, 1]


def test_a_price_is_compared_with_all_workers_and_not_those_of_the_moment() -> None:
    away = fleet("b").unusable("a").build()
    assert scored(PRICE, "b", away) == Score(0.5, "0.48 an hour")


@pytest.mark.parametrize(
    ("data", "a", "b"),
    [
        pytest.param("s3://lake/us=2Ti", 1, 0, id="one place"),
        pytest.param("s3://lake/eu/x=2Ti", 1, 1, id="the longest prefix counts"),
        pytest.param("s3://lake/us=3Ti, nfs://home/me=1Ti", 0.75, 0.25, id="shares of bytes"),
        pytest.param("s3://lake=1Gi, gs://other=9Ti", 1, 0, id="what is nowhere known does not count"),
        pytest.param("s3://lake=1.5GB,nfs://home/x=500M", 0.75, 0.25, id="decimal sizes"),
        pytest.param("s3://lakeside=1Ti", None, None, id="a prefix ends with a part of the path"),
        pytest.param("s3://lake", None, None, id="no size"),
        pytest.param("s3://lake=much", None, None, id="no number"),
        pytest.param("s3://lake=0", None, None, id="nothing to read"),
        pytest.param("", None, None, id="no data"),
    ],
)
def test_the_share_of_bytes_that_need_no_transfer(data: str, a: float | None, b: float | None) -> None:
    assert [scored(DATA_IN_A, name, data=data).value for name in ("a", "b")] == [a, b]


def test_a_scorer_that_cannot_tell_says_why() -> None:
    unread = scored(DATA_IN_A, "a", data="s3://lake")
    assert unread.reason == f"annotation {DATA}: expected PREFIX=SIZE, such as s3://bucket=12Ti"
    assert scored(DATA_IN_A, "a", data="gs://x=1Gi").reason == "nobody knows where its data lies"
    assert scored(PRICE, "a", labelled()).reason == "0.24 an hour"
    assert scored(TIERS, "w", Fleet(workers=(Worker(name="w"),), now=fleet().build().now)).reason == "no tier"


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ({"usage/gpu": 100}, Score(1, "score 100")),
        ({"usage/gpu": -100}, Score(0, "score -100")),
        ({"usage/gpu": 0}, Score(0.5, "score 0")),
        ({"usage/gpu": 400}, Score(1, "score 400")),
        ({"usage/cpu": 7}, Score(None, "no score usage/gpu")),
    ],
    ids=["the best", "the worst", "the middle", "one that OCM would not take", "one that is absent or over"],
)
def test_a_score_of_the_hub(scores: dict[str, int], expected: Score) -> None:
    shown = Fleet(workers=(Worker(name="a", scores=scores),), now=fleet().build().now)
    assert scored(HubScore("usage/gpu"), "a", shown) == expected


def test_a_price_of_the_cluster_counts_by_flavor_and_that_of_the_options_goes_before_it() -> None:
    paid = (
        fleet("home").worker("a", prices={"cpu": 1, "fast/cpu": 4}).worker("b", prices={"cpu": 2, "memory": 1}).build()
    )
    asked = strategy_workload().request(cpu=2, memory="4Gi")
    price = Price(prices={"b": {"cpu": 16}})

    def shown(job: StrategyWorkloadBuilder, part: Price) -> list[Score]:
        return [part.score(job.build(), worker, paid) for worker in paid.workers]

    assert shown(asked, Price()) == [Score(None, "no price"), Score(1, "2 an hour"), Score(0.25, "8 an hour")]
    assert shown(asked.assigned("fast"), Price()) == [
        Score(None, "no price"),
        Score(1, "8 an hour"),
        Score(1, "8 an hour"),
    ]
    assert shown(asked.assigned("fast"), price)[2] == Score(0.25, "32 an hour")
