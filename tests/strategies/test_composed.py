"""Composed: the best workers first, more of them with time, and why."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue import registry
from multikueue.strategy import (
    Filter,
    FlavorRoom,
    Fleet,
    Nomination,
    Score,
    Scorer,
    Waits,
    Weighted,
    Worker,
    Workload,
)
from multikueue.testing import NOW, FleetBuilder, StrategyWorkloadBuilder, check_strategy, fleet, strategy_workload
from multikueue_strategies.composed import Composed
from multikueue_strategies.filters import CLUSTER_NAMES, ClusterNames, Labels
from multikueue_strategies.scorers import Order, Price, Tiers

FIVE = timedelta(minutes=5)
THREE = fleet("c1", "c2", "c3")
BY_ORDER = (Weighted(Order()),)


@dataclass(frozen=True, slots=True)
class Given:
    """Scores by worker, as a test gives them."""

    scores: dict[str, float | None]

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        return Score(self.scores.get(worker.name, 0.0), f"{worker.name}'s")


@dataclass(frozen=True, slots=True)
class Without:
    """Refuses workers by name."""

    names: frozenset[str]

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        return "not this one" if worker.name in self.names else ""


def nominate(
    workload: StrategyWorkloadBuilder, workers: FleetBuilder = THREE, *, later: timedelta = timedelta(), **options: Any
) -> Nomination:
    return Composed(**options).nominate(workload.build(), workers.later(later).build())


def named(*args: Any, **more: Any) -> tuple[str, ...]:
    return nominate(*args, **more).clusters


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scorers": BY_ORDER, "copies": 2, "most": 3},
        {"filters": (ClusterNames(), Labels(match={"region": ("eu",)})), "scorers": BY_ORDER},
        {"patience": None, "copies": 30},
        {"scorers": BY_ORDER, "extra_priority": "lowest"},
        {"give_back_after": timedelta(seconds=1)},
        {"hedge": 0.95, "extra": "any"},
        {"scorers": BY_ORDER, "extra": "moved", "patience": timedelta(seconds=1)},
    ],
    ids=[
        "defaults",
        "by order",
        "filtered",
        "no more with time",
        "further ones yield",
        "with an end",
        "hedged",
        "moved",
    ],
)
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_strategy(Composed(**options))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"copies": 0}, "expected copies to be 1 or more"),
        ({"copies": 3, "most": 2}, "expected most to be copies or more"),
        ({"patience": timedelta()}, "expected durations longer than 0"),
        ({"give_back_after": timedelta()}, "expected durations longer than 0"),
        ({"copies": 2, "extra": "moved"}, "expected copies to be 1 with extra: moved"),
        ({"hedge": 1.0}, "expected hedge to be a share between 0 and 1, such as 0.95"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Composed(**options)


# Which.


@pytest.mark.parametrize(
    ("scorers", "best"),
    [
        pytest.param([({"c1": 0.2, "c2": 0.9, "c3": 0.5}, 1)], "c2", id="the best of one scorer"),
        pytest.param([({"c1": 1}, 1), ({"c2": 1}, 3)], "c2", id="the heavier of two"),
        pytest.param([({"c1": 0.4, "c2": None}, 1)], "c2", id="one that cannot tell has the middle"),
        pytest.param([({"c1": 0.6, "c2": None}, 1)], "c1", id="the middle is less than more"),
    ],
)
def test_the_best_worker_is_nominated_alone(scorers: list[tuple[dict[str, float | None], float]], best: str) -> None:
    parts = tuple(Weighted(Given(scores), weight) for scores, weight in scorers)
    assert named(strategy_workload(), scorers=parts) == (best,)


def test_one_that_a_filter_refuses_is_never_nominated() -> None:
    assert named(strategy_workload(), scorers=BY_ORDER, filters=(Without(frozenset({"c1"})),)) == ("c2",)


def test_a_copy_goes_from_a_worker_that_a_filter_refuses_by_now() -> None:
    moved = strategy_workload().nominated("c1").annotations({CLUSTER_NAMES: "c3"})
    assert named(moved, filters=(ClusterNames(),), scorers=BY_ORDER) == ("c3",)


def test_a_worker_where_it_failed_comes_last_and_the_longest_ago_before() -> None:
    tried = strategy_workload().failed_on("c1", at=NOW - FIVE).failed_on("c2", at=NOW)
    assert named(tried, scorers=BY_ORDER, copies=3) == ("c3", "c1", "c2")


def test_equal_workloads_spread_over_equal_workers() -> None:
    first = Counter(named(strategy_workload(f"job-{number}"))[0] for number in range(600))
    assert len(first) == 3
    assert max(first.values()) <= 240


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_score_that_is_none_is_told_with_its_scorer(value: float) -> None:
    with pytest.raises(ValueError, match=re.escape(f"scorer Given gave c1 {value}, not 0 to 1")):
        nominate(strategy_workload(), scorers=(Weighted(Given({"c1": value})),))


# When.


def test_one_more_opens_after_each_patience() -> None:
    workload, steps, now = strategy_workload(), [], NOW
    for _ in range(4):
        nomination = nominate(workload, later=now - NOW, scorers=BY_ORDER)
        steps.append((nomination.clusters, nomination.revisit_after))
        if nomination.clusters != workload.build().nominated_clusters:
            workload = workload.nominated(*nomination.clusters, at=now)
        now += FIVE
    assert steps == [(("c1",), FIVE), (("c1", "c2"), FIVE), (("c1", "c2", "c3"), None), (("c1", "c2", "c3"), None)]


def test_nothing_opens_before_its_time() -> None:
    answer = nominate(strategy_workload().nominated("c1"), later=timedelta(minutes=2), scorers=BY_ORDER)
    assert (answer.clusters, answer.revisit_after) == (("c1",), timedelta(minutes=3))


@pytest.mark.parametrize(
    ("options", "clusters"),
    [
        ({"most": 1}, ("c1",)),
        ({"most": 2}, ("c1", "c2")),
        ({"patience": None}, ("c1",)),
        ({"patience": None, "copies": 3}, ("c1", "c2", "c3")),
        ({"copies": 2}, ("c1", "c2")),
    ],
    ids=["one at most", "two at most", "no patience", "no patience and three", "two at once"],
)
def test_how_many_there_are_is_bounded(options: dict[str, Any], clusters: tuple[str, ...]) -> None:
    assert named(strategy_workload().nominated("c1"), later=FIVE, scorers=BY_ORDER, **options) == clusters


def test_the_place_of_a_worker_that_cannot_be_used_is_taken_at_once() -> None:
    assert named(strategy_workload().nominated("c1"), THREE.unusable("c1"), scorers=BY_ORDER) == ("c2",)


def test_the_quota_goes_back_when_all_were_tried_for_long() -> None:
    everywhere = strategy_workload().nominated("c1", "c2", "c3")
    options: dict[str, Any] = {"give_back_after": timedelta(hours=1), "scorers": BY_ORDER}
    waits = nominate(everywhere, later=timedelta(minutes=59), **options)
    assert (waits.give_back, waits.revisit_after) == (False, timedelta(minutes=1))
    over = nominate(everywhere, later=timedelta(hours=1), **options)
    assert over == Nomination(reason="No worker admitted it for 1:00:00, and all were tried", give_back=True)


# The next copy: sooner, or only where there is room.

SLOW = Waits(of="its queue", seen=9, steps=((0.5, timedelta(seconds=4)), (0.97, timedelta(minutes=2))))
FAST = Waits(of="its queue", seen=9, steps=((1.0, timedelta(seconds=1)),))
FULL = FlavorRoom(flavor="default", resource="cpu", nominal=8000, used=8000, most=8000, free=0)
EMPTY = FlavorRoom(flavor="default", resource="cpu", nominal=8000, most=8000, free=8000)


@pytest.mark.parametrize(
    ("waits", "after"),
    [
        pytest.param(SLOW, timedelta(minutes=2), id="after the time within which 95% had quota there"),
        pytest.param(FAST, timedelta(seconds=10), id="not at once, however fast the worker was"),
        pytest.param(Waits(), FIVE, id="after patience, while nothing is known"),
        pytest.param(Waits(seen=9, steps=((0.5, FIVE / 10),)), FIVE, id="after patience, where many never had quota"),
        pytest.param(Waits(seen=9, steps=((1.0, FIVE * 10),)), FIVE, id="after patience, where it takes longer"),
    ],
)
def test_a_hedge_follows_as_soon_as_the_first_copy_waits_longer_than_usual(waits: Waits, after: timedelta) -> None:
    workers, options = THREE.waits("c1", waits), dict[str, Any](scorers=BY_ORDER, hedge=0.95)
    first = nominate(strategy_workload(), workers, **options)
    assert (first.clusters, first.revisit_after) == (("c1",), after)
    waiting = strategy_workload().nominated("c1")
    assert named(waiting, workers, later=after - timedelta(seconds=1), **options) == ("c1",)
    assert named(waiting, workers, later=after, **options) == ("c1", "c2")


@pytest.mark.parametrize(
    ("options", "later", "clusters", "again"),
    [
        pytest.param({}, FIVE, ("c1", "c3"), FIVE, id="the next best with room"),
        pytest.param({"extra": "any"}, FIVE, ("c1", "c2"), FIVE, id="the next best of all, if asked"),
        pytest.param({"copies": 2}, timedelta(), ("c1", "c2"), FIVE, id="those of the first choice go anywhere"),
    ],
)
def test_further_copies_go_where_there_is_room(
    options: dict[str, Any], later: timedelta, clusters: tuple[str, ...], again: timedelta
) -> None:
    job = strategy_workload().request(cpu=4).nominated("c1")
    workers = THREE.room("c1", FULL).room("c2", FULL).room("c3", EMPTY)
    found = nominate(job, workers, later=later, scorers=BY_ORDER, **options)
    assert (found.clusters, found.revisit_after) == (clusters, again)


def test_where_nobody_has_room_it_looks_again_and_goes_anyway_after_three_times_patience() -> None:
    job, full = strategy_workload().request(cpu=4).nominated("c1"), THREE
    for name in ("c1", "c2", "c3"):
        full = full.room(name, FULL)
    waits = nominate(job, full, later=FIVE, scorers=BY_ORDER, give_back_after=timedelta(minutes=1))
    assert (waits.clusters, waits.revisit_after, waits.give_back) == (("c1",), timedelta(seconds=30), False)
    assert named(job, full, later=3 * FIVE, scorers=BY_ORDER) == ("c1", "c2")
    assert named(job, full.room("c3", EMPTY), later=2 * FIVE, scorers=BY_ORDER) == ("c1", "c3")


@pytest.mark.parametrize(
    ("options", "reads"),
    [
        ({}, {"room"}),
        ({"hedge": 0.9}, {"room", "waits"}),
        ({"hedge": 0.9, "extra": "any"}, {"waits"}),
        ({"extra": "any"}, set()),
        ({"patience": None, "hedge": 0.9}, set()),
        ({"most": 1}, set()),
    ],
)
def test_it_reads_what_further_copies_need(options: dict[str, Any], reads: set[str]) -> None:
    assert registry.reads(Composed(**options)) == reads


# Why.


def test_the_reason_names_the_scores_and_what_is_refused() -> None:
    workers = fleet().worker("c1", labels={"multikueue.dev/tier": "spot"})
    workers = workers.worker("c2", labels={"multikueue.dev/tier": "reserved"}).worker("c3")
    answer = nominate(
        strategy_workload().request(cpu=1),
        workers,
        filters=(Without(frozenset({"c3"})),),
        scorers=(Weighted(Tiers(order=("reserved", "spot")), 3), Weighted(Price(prices={"c2": {"cpu": 0.5}}))),
    )
    assert answer.reason == "c2 (1.00: tier reserved, 0.5 an hour); refused: c3 (not this one)"


def test_the_reason_says_nothing_of_what_comes_and_goes() -> None:
    all_there = nominate(strategy_workload().nominated("c1"), scorers=BY_ORDER).reason
    one_away = nominate(strategy_workload().nominated("c1"), THREE.unusable("c3"), scorers=BY_ORDER).reason
    assert all_there == one_away == "c1 (1.00: place 1)"


def test_the_reason_is_bounded_in_a_large_fleet() -> None:
    names = [f"{number:03}-{'x' * 250}" for number in range(200)]
    refused: Filter = Without(frozenset(names[100:]))
    answer = nominate(strategy_workload(), fleet(*names), filters=(refused,), copies=100)
    assert len(answer.reason) <= 1000
    assert "and 97 more" in answer.reason


# Laws.

SCORES = st.dictionaries(st.sampled_from(["c1", "c2", "c3"]), st.none() | st.floats(0, 1))


@given(scores=st.lists(SCORES, max_size=3), order=st.permutations(["c1", "c2", "c3"]), copies=st.integers(1, 4))
def test_the_order_of_the_fleet_changes_nothing(
    scores: list[dict[str, float | None]], order: list[str], copies: int
) -> None:
    scorers: tuple[Weighted, ...] = tuple(Weighted(Given(each)) for each in scores)
    options: dict[str, Any] = {"scorers": scorers, "copies": copies}
    assert named(strategy_workload(), fleet(*order), **options) == named(strategy_workload(), **options)


@given(
    refused=st.frozensets(st.sampled_from(["c1", "c2", "c3"])),
    more=st.frozensets(st.sampled_from(["c1", "c2", "c3"])),
    kept=st.lists(st.sampled_from(["c1", "c2", "c3", "gone"]), unique=True),
)
def test_a_filter_more_never_brings_a_worker_back(
    refused: frozenset[str], more: frozenset[str], kept: list[str]
) -> None:
    workload = strategy_workload().nominated(*kept)
    both = named(workload, filters=(Without(refused), Without(more)), copies=3)
    assert not set(both) & (refused | more)
    assert set(both) <= set(named(workload, filters=(Without(refused),), copies=3))


def test_parts_have_the_shape_that_the_contract_names() -> None:
    assert isinstance(Given({}), Scorer)
    assert isinstance(Without(frozenset()), Filter)


def with_free(**cores: int) -> FleetBuilder:
    """Workers with so many free cores of 16 each, in this order of preference."""
    made = fleet(*cores)
    for name, free in cores.items():
        quota = FlavorRoom(flavor="default", resource="cpu", nominal=16_000, most=16_000, free=1000 * free)
        made = made.room(name, quota)
    return made


NOWHERE = {"c1": 0, "c2": 0, "c3": 0}


@pytest.mark.parametrize(
    ("tried", "free", "later", "named_now", "asks_again"),
    [
        pytest.param((), NOWHERE | {"c2": 8}, 0, ("c2",), True, id="first where nothing has to be preempted"),
        pytest.param((), NOWHERE, 0, ("c1",), True, id="where all are full, the best"),
        pytest.param(("c1",), NOWHERE, 14, ("c1",), True, id="it has its time"),
        pytest.param(("c1",), NOWHERE | {"c3": 8}, 5, ("c1", "c3"), True, id="room elsewhere brings a second copy"),
        pytest.param(("c1",), NOWHERE, 15, ("c2",), True, id="then it moves: the first copy is taken back"),
        pytest.param(("c2",), NOWHERE, 15, ("c3",), False, id="and on to the last"),
        pytest.param(("c3",), NOWHERE, 15, ("c3",), False, id="where it stays"),
        pytest.param(("c1", "c3"), NOWHERE, 15, ("c2",), True, id="whatever else had a copy"),
    ],
)
def test_no_two_workers_preempt_for_a_job_that_moves(
    tried: tuple[str, ...], free: dict[str, int], later: int, named_now: tuple[str, ...], asks_again: bool
) -> None:
    asked = strategy_workload().request(cpu=4).nominated(*tried)
    found = nominate(
        asked, with_free(**free), later=timedelta(minutes=later), scorers=BY_ORDER, extra="moved", patience=FIVE
    )
    assert (found.clusters, found.revisit_after is not None) == (named_now, asks_again)


@pytest.mark.parametrize(
    ("options", "yielding"),
    [
        pytest.param({}, (), id="by default nobody yields"),
        pytest.param({"extra_priority": "lowest"}, ("c2", "c3"), id="all after the first"),
        pytest.param({"extra_priority": "lowest", "copies": 2}, ("c3",), id="all after the first two"),
    ],
)
def test_further_copies_yield_if_asked_to(options: dict[str, Any], yielding: tuple[str, ...]) -> None:
    waited = strategy_workload().nominated("c1", "c2")
    found = nominate(waited, scorers=BY_ORDER, extra="any", later=FIVE, **options)
    assert (found.clusters, found.yielding) == (("c1", "c2", "c3"), yielding)


def test_the_next_copy_no_longer_yields_once_the_first_one_is_refused() -> None:
    waited = strategy_workload().nominated("c1", "c2")
    found = nominate(waited, filters=(Without(frozenset({"c1"})),), extra_priority="lowest")
    assert (found.clusters, found.yielding) == (("c2",), ())
