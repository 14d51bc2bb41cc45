"""The filter `room` and the scorers `room` and `quota`: what they make of what workers have room for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Literal

import pytest

from multikueue.strategy import FlavorRoom, Room, Score, Weighted, Worker
from multikueue.testing import NOW, StrategyWorkloadBuilder, check_strategy, fleet, strategy_workload
from multikueue_strategies.composed import Composed
from multikueue_strategies.room import FreeRoom, MostRoom, QuotaQuality

JOB = strategy_workload().request(cpu=4)
NOBODY = fleet().build()


def cpu(free: int, *, nominal: int = 16, most: int = 16, flavor: str = "default") -> FlavorRoom:
    """Of 16 cores, unless said otherwise."""
    return FlavorRoom(
        flavor=flavor,
        resource="cpu",
        nominal=1000 * nominal,
        used=1000 * (most - free),
        most=1000 * most,
        free=1000 * free,
    )


def gpu(free: int, *, flavor: str = "default") -> FlavorRoom:
    return FlavorRoom(flavor=flavor, resource="nvidia.com/gpu", nominal=8, used=8 - free, most=8, free=free)


def with_room(*quotas: FlavorRoom, doubt: str = "") -> Worker:
    return Worker(name="w1", room=Room(quotas=quotas, doubt=doubt))


UNKNOWN = Worker(name="w1")
LOWER = replace(cpu(0), preemptible=((0, 4000),))
BORROWED = replace(cpu(0), reclaimable=((-5, 4000),))


@pytest.mark.parametrize(
    "part",
    [FreeRoom(), FreeRoom(preempting=True), MostRoom(), MostRoom(fit="tight"), QuotaQuality()],
    ids=["room", "room that may preempt", "most room", "tight", "quota"],
)
def test_it_keeps_the_contract(part: FreeRoom | MostRoom | QuotaQuality) -> None:
    check_strategy(part)


def test_it_is_told_to_those_who_read_it() -> None:
    assert {each.reads for each in (FreeRoom, MostRoom, QuotaQuality)} == {("room",)}


# The filter.


@pytest.mark.parametrize(
    ("workload", "worker", "refusal"),
    [
        pytest.param(JOB, with_room(cpu(4)), "", id="there is just enough"),
        pytest.param(JOB, with_room(cpu(3)), "no room now", id="there is too little"),
        pytest.param(JOB, with_room(cpu(-2)), "no room now", id="more waits than there is"),
        pytest.param(JOB, with_room(cpu(3), cpu(5, flavor="spot")), "", id="there is enough in another flavor"),
        pytest.param(JOB, with_room(cpu(2), cpu(2, flavor="spot")), "no room now", id="flavors do not add up"),
        pytest.param(JOB, with_room(gpu(8)), "", id="only its Kueue may say that it lacks a resource"),
        pytest.param(JOB, with_room(cpu(2, most=3)), "", id="only its Kueue may say that it is too small"),
        pytest.param(
            JOB.request({"nvidia.com/gpu": 1}),
            with_room(cpu(8), gpu(0), cpu(0, flavor="b"), gpu(8, flavor="b")),
            "no room now",
            id="resources of one flavor go together",
        ),
        pytest.param(
            JOB.request({"nvidia.com/gpu": 1}), with_room(cpu(8), gpu(4, flavor="a100")), "", id="groups have their own"
        ),
        pytest.param(JOB.nominated("w1"), with_room(cpu(0)), "", id="its copy is there already"),
        pytest.param(JOB, UNKNOWN, "", id="nobody may know"),
        pytest.param(JOB, with_room(doubt="not read"), "its room is not known yet", id="it is about to be known"),
        pytest.param(JOB, with_room(), "its queue is missing or has no quota", id="its queue leads nowhere"),
        pytest.param(strategy_workload(), with_room(cpu(0)), "", id="it requests nothing"),
    ],
)
def test_the_filter(workload: StrategyWorkloadBuilder, worker: Worker, refusal: str) -> None:
    assert FreeRoom().refuses(workload.build(), worker, NOBODY) == refusal


@pytest.mark.parametrize(("priority", "refusal"), [(1, ""), (0, "no room now")])
def test_what_may_be_preempted_is_room_if_the_operator_says_so(priority: int, refusal: str) -> None:
    worker, job = with_room(LOWER), JOB.priority(priority).build()
    assert FreeRoom(preempting=True).refuses(job, worker, NOBODY) == refusal
    assert FreeRoom().refuses(job, worker, NOBODY) == "no room now"


# The scorers.


@pytest.mark.parametrize(
    ("worker", "score"),
    [
        pytest.param(with_room(cpu(16)), Score(0.8, "room"), id="a quarter is used with it"),
        pytest.param(with_room(cpu(4)), Score(0.5, "room"), id="it fills the worker"),
        pytest.param(with_room(cpu(-12)), Score(1 / 3, "no room"), id="as much waits before it"),
        pytest.param(with_room(cpu(0), cpu(16, flavor="b")), Score(0.8, "room"), id="the flavor used least counts"),
        pytest.param(with_room(cpu(16), doubt="old"), Score(0.65, "room"), id="what is in doubt counts half"),
        pytest.param(with_room(gpu(8)), Score(0.0, "no quota of what it requests"), id="a resource without quota"),
        pytest.param(with_room(cpu(0, most=0)), Score(0.0, "no room"), id="a queue without quota"),
        pytest.param(UNKNOWN, Score(None, "room unknown"), id="nobody may know"),
        pytest.param(with_room(doubt="not read"), Score(None, "room unknown"), id="it is not known yet"),
    ],
)
def test_the_most_room(worker: Worker, score: Score) -> None:
    assert MostRoom().score(JOB.build(), worker, fleet("w1").build()) == score


@pytest.mark.parametrize(
    ("fit", "order"),
    [("most-free", ["empty", "half", "just", "full"]), ("tight", ["just", "half", "empty", "full"])],
)
def test_what_is_preferred(fit: Literal["most-free", "tight"], order: list[str]) -> None:
    free = {"empty": 16, "half": 8, "just": 4, "full": 0}
    part, job, all_ = MostRoom(fit=fit), JOB.build(), fleet().build()
    scores = {name: part.score(job, with_room(cpu(amount)), all_).value or 0.0 for name, amount in free.items()}
    assert sorted(scores, key=lambda name: -scores[name]) == order


@pytest.mark.parametrize(
    ("worker", "score"),
    [
        pytest.param(with_room(cpu(8)), Score(1.0, "own quota"), id="its own quota is enough"),
        pytest.param(with_room(cpu(8, nominal=8)), Score(0.8, "borrowed quota"), id="it would borrow"),
        pytest.param(with_room(BORROWED), Score(0.4, "quota that others borrow"), id="others borrow it"),
        pytest.param(with_room(LOWER), Score(0.2, "quota of lower priorities"), id="others are lower"),
        pytest.param(with_room(cpu(0)), Score(0.0, "no quota now"), id="there is none"),
        pytest.param(with_room(cpu(8), gpu(0)), Score(1.0, "own quota"), id="what it does not request is no matter"),
        pytest.param(with_room(cpu(0), doubt="old"), Score(0.25, "no quota now"), id="what is in doubt counts half"),
        pytest.param(UNKNOWN, Score(None, "room unknown"), id="nobody may know"),
        pytest.param(with_room(gpu(8)), Score(0.0, "no quota of what it requests"), id="a resource without quota"),
    ],
)
def test_the_best_quota(worker: Worker, score: Score) -> None:
    assert QuotaQuality().score(JOB.priority(1).build(), worker, fleet("w1").build()) == score


def test_the_worst_of_its_resources_counts() -> None:
    job = JOB.request({"nvidia.com/gpu": 1}).build()
    assert QuotaQuality().score(job, with_room(cpu(8), gpu(0)), fleet().build()) == Score(0.0, "no quota now")


# Together.


def test_a_choice_of_equal_room_spreads() -> None:
    workers = fleet("w1", "w2", "w3")
    for name in ("w1", "w2", "w3"):
        workers = workers.room(name, cpu(8))
    chosen = Composed(scorers=(Weighted(MostRoom()),))
    first = Counter(
        chosen.nominate(strategy_workload(f"job-{number}").request(cpu=4).build(), workers.build()).clusters[0]
        for number in range(600)
    )
    assert max(first.values()) <= 240


def test_other_room_is_not_written_into_a_workload_that_waits() -> None:
    chosen = Composed(scorers=(Weighted(MostRoom()),))
    before = chosen.nominate(JOB.build(), fleet("w1", "w2").room("w1", cpu(16)).room("w2", cpu(4)).build())
    assert before.clusters == ("w1",)
    waits = replace(JOB.nominated("w1", at=NOW).build(), told=before.reason)
    after = chosen.nominate(waits, fleet("w1", "w2").room("w1", cpu(-8)).room("w2", cpu(16)).build())
    assert (after.clusters, after.reason) == (before.clusters, before.reason)


def test_what_another_strategy_told_is_not_kept() -> None:
    waits = replace(JOB.nominated("w1").build(), told="Nominated by the strategy incremental")
    assert Composed().nominate(waits, fleet("w1").build()).reason == "w1 (1.00)"
