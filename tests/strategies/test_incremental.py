"""Incremental: rounds of a few workers (contract 4.2), of which the dead take no share."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.strategy import Fleet, Nomination, Workload
from multikueue.testing import NOW, FleetBuilder, StrategyWorkloadBuilder, check_strategy, fleet, strategy_workload
from multikueue_strategies.incremental import Incremental

FIVE = timedelta(minutes=5)
SEVEN = fleet("c1", "c2", "c3", "c4", "c5", "c6", "c7")
FIRST = ("c1", "c2", "c3")


def nominate(
    workload: StrategyWorkloadBuilder, workers: FleetBuilder, *, later: timedelta = timedelta(), **options: Any
) -> Nomination:
    return Incremental(**options).nominate(workload.build(), workers.later(later).build())


def named(*args: Any, **more: Any) -> tuple[str, ...]:
    return nominate(*args, **more).clusters


@pytest.mark.parametrize(
    "options",
    [{}, {"step": 1}, {"step": 50}, {"order": "name"}, {"give_back_after": timedelta(seconds=1)}],
    ids=["defaults", "one by one", "all in a round", "by name", "with patience"],
)
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_strategy(Incremental(**options))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"step": 0}, "expected step to be 1 or more"),
        ({"round_length": timedelta()}, "expected durations longer than 0"),
        ({"give_back_after": timedelta()}, "expected durations longer than 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Incremental(**options)


# Rounds.


def test_the_rounds_of_seven_workers() -> None:
    """c1 c2 c3; then six; then all; and from then on nothing but waiting."""
    workload, rounds, now = strategy_workload(), [], NOW
    for _ in range(4):
        answer = Incremental().nominate(workload.build(), SEVEN.at(now).build())
        rounds.append((len(answer.clusters), answer.revisit_after, answer.reason))
        if set(answer.clusters) != set(workload.build().nominated_clusters):
            workload = workload.nominated(*answer.clusters, at=now)
        now += FIVE
    assert rounds == [
        (3, FIVE, "Round 1: 3 of 7 workers"),
        (6, FIVE, "Round 2: 6 of 7 workers"),
        (7, None, "Round 3: 7 of 7 workers"),
        (7, None, "Round 3: 7 of 7 workers"),
    ]


@pytest.mark.parametrize(
    ("waited", "names"),
    [
        pytest.param(FIVE - timedelta(seconds=1), FIRST, id="a round lasts its length"),
        pytest.param(FIVE, (*FIRST, "c4", "c5", "c6"), id="at its end, and not after it, the next begins"),
        pytest.param(
            timedelta(days=3), (*FIRST, "c4", "c5", "c6"), id="rounds that were slept through are not made up"
        ),
    ],
)
def test_the_end_of_a_round(waited: timedelta, names: tuple[str, ...]) -> None:
    assert named(strategy_workload().nominated(*FIRST), SEVEN, later=waited) == names


def test_in_the_middle_of_a_round_it_asks_to_be_woken_at_the_end() -> None:
    answer = nominate(strategy_workload().nominated(*FIRST), SEVEN, later=timedelta(minutes=2))
    assert answer.revisit_after == timedelta(minutes=3)


def test_new_names_are_appended_and_the_order_of_the_old_ones_stays() -> None:
    assert named(strategy_workload().nominated("c3", "c1", "c2"), SEVEN, later=FIVE)[:3] == ("c3", "c1", "c2")


@pytest.mark.parametrize(
    ("order", "names"), [("config", ("w10", "w9", "a")), ("name", ("a", "w10", "w9"))], ids=["config", "name"]
)
def test_the_order_is_that_of_the_configuration_or_of_the_names(order: str, names: tuple[str, ...]) -> None:
    assert named(strategy_workload(), fleet("w10", "w9", "a"), order=order) == names


# The dead, the cordoned, and those that come back.


def test_workers_that_cannot_be_used_take_no_place_in_a_round() -> None:
    assert named(strategy_workload(), SEVEN.unusable("c1").unusable("c3")) == ("c2", "c4", "c5")


def test_a_nominated_worker_that_dies_is_made_up_for_at_once() -> None:
    answer = nominate(strategy_workload().nominated(*FIRST), SEVEN.unusable("c2"), later=timedelta(minutes=1))
    assert answer.clusters == ("c1", "c3", "c4")


def test_later_rounds_have_enough_without_it() -> None:
    six = strategy_workload().nominated("c1", "c2", "c3", "c4", "c5", "c6")
    answer = nominate(six, SEVEN.unusable("c2"), later=timedelta(minutes=1))
    assert answer.clusters == ("c1", "c3", "c4", "c5", "c6")
    assert answer.revisit_after == timedelta(minutes=4)


def test_a_worker_that_comes_back_joins_in_the_next_round_at_its_place() -> None:
    workload = strategy_workload().nominated("c2", "c3", "c4")
    assert named(workload, SEVEN, later=timedelta(minutes=1)) == ("c2", "c3", "c4")
    assert named(workload, SEVEN, later=FIVE) == ("c2", "c3", "c4", "c1", "c5", "c6")


def test_a_worker_that_joins_when_all_were_tried_is_tried_at_once_if_the_last_round_is_over() -> None:
    workload = strategy_workload().nominated("a", "b")
    assert named(workload, fleet("a", "b", "new"), later=FIVE) == ("a", "b", "new")


def test_nobody_usable_is_nobody_nominated() -> None:
    assert nominate(strategy_workload(), fleet().unusable("a")) == Nomination()


# Earlier attempts.


def test_workers_where_an_attempt_failed_come_last_the_longest_ago_first() -> None:
    workload = strategy_workload().failed_on("a", at=NOW).failed_on("b", at=NOW - timedelta(hours=1))
    assert named(workload, fleet("a", "b", "c", "d"), step=3) == ("c", "d", "b")
    assert named(workload, fleet("a", "b", "c", "d"), step=4) == ("c", "d", "b", "a")


# Patience.

BOTH = strategy_workload().nominated("a", "b")
TEN = timedelta(minutes=10)


def test_without_patience_it_waits_for_ever() -> None:
    assert nominate(BOTH, fleet("a", "b"), later=timedelta(days=300)).revisit_after is None


def test_with_patience_it_gives_the_quota_back_after_all_were_tried_for_so_long() -> None:
    waiting = nominate(BOTH, fleet("a", "b"), later=timedelta(minutes=4), give_back_after=TEN)
    assert (waiting.clusters, waiting.revisit_after) == (("a", "b"), timedelta(minutes=6))
    over = nominate(BOTH, fleet("a", "b"), later=TEN, give_back_after=TEN)
    assert over == Nomination(reason="No worker admitted it for 0:10:00, and all were tried", give_back=True)


def test_patience_begins_when_the_last_worker_was_nominated() -> None:
    begun = nominate(BOTH, fleet("a", "b", "c"), later=timedelta(hours=1), give_back_after=TEN)
    assert (begun.clusters, begun.revisit_after) == (("a", "b", "c"), TEN)


def test_as_long_as_there_is_a_worker_to_try_nothing_is_given_back() -> None:
    answer = nominate(
        strategy_workload().nominated(*FIRST), SEVEN, later=timedelta(minutes=4), give_back_after=timedelta(minutes=1)
    )
    assert (answer.clusters, answer.give_back) == (FIRST, False)


def test_quota_that_nobody_can_use_is_given_back_too() -> None:
    nobody = fleet().unusable("a")
    assert nominate(strategy_workload(), nobody, give_back_after=TEN) == Nomination(revisit_after=TEN)
    assert nominate(strategy_workload(), nobody, later=TEN, give_back_after=TEN).give_back


# Whatever happens.

NAMES = [f"c{number}" for number in range(8)]


@given(
    up=st.lists(st.sets(st.sampled_from(NAMES)), min_size=1, max_size=12),
    waits=st.lists(st.integers(0, 400), min_size=12, max_size=12),
    step=st.integers(1, 4),
)
def test_rounds_over_workers_that_come_and_go(up: list[set[str]], waits: list[int], step: int) -> None:
    """No worker that is up is dropped, no round brings more than `step`, and time alone brings all of them in the end."""
    strategy, workload, now = Incremental(step=step), strategy_workload(), NOW
    for alive, wait in zip(up, waits, strict=False):
        now += timedelta(seconds=wait)
        workload = _asked(strategy, workload, _fleet(alive).at(now).build())
    for _ in range(len(NAMES) + 1):
        now += FIVE
        workload = _asked(strategy, workload, _fleet(set(NAMES)).at(now).build())
    assert set(workload.build().nominated_clusters) == set(NAMES)


def _asked(strategy: Incremental, builder: StrategyWorkloadBuilder, now: Fleet) -> StrategyWorkloadBuilder:
    before: Workload = builder.build()
    answer = strategy.nominate(before, now)
    new = set(answer.clusters) - set(before.nominated_clusters)
    kept = set(before.nominated_clusters) & set(now.names)
    assert kept <= set(answer.clusters) <= set(now.names)
    assert len(new) <= strategy.step
    if before.waited_less_than(strategy.round_length, now.now):
        assert len(answer.clusters) <= max(strategy.step, len(kept))
    away = tuple(n for n in before.nominated_clusters if n not in answer.clusters)  # as the decision keeps them
    at = now.now if new else before.nominated_at
    return StrategyWorkloadBuilder(
        replace(before, nominated_clusters=answer.clusters + away, nominated_at=at or now.now)
    )


def _fleet(alive: set[str]) -> FleetBuilder:
    made = fleet(*NAMES)
    for name in NAMES:
        made = made if name in alive else made.unusable(name)
    return made
