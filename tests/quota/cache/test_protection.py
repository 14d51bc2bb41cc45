"""Workloads that ask not to be preempted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from multikueue.api.kueue.queues import BorrowWithinCohort
from multikueue.api.kueue.workload import NON_PREEMPTIBLE_ANNOTATION
from multikueue.quota.cache.budgets import is_non_preemptible, non_preemptible_problem
from multikueue.quota.engine import Engine, EngineRules
from multikueue.quota.preemption.fair import FairPreemption
from tests.builders import ClusterQueueBuilder, WorkloadBuilder, cluster_queue, limits, local_queue, workload
from tests.quota.builders import Play, key_of, wants
from tests.quota.scenes import Held, Scene, held, needs

RULES: dict[str, Any] = {"within_cluster_queue": "LowerPriority", "reclaim_within_cohort": "Any"}
BORROWING = {**RULES, "borrow_within_cohort": BorrowWithinCohort(policy="LowerPriority")}


def queue(name: str, cpu: Any, rules: dict[str, Any] = RULES) -> ClusterQueueBuilder:
    return cluster_queue(name).cohort("all").quota("default", cpu=cpu).preempt(**rules)


CASES: dict[str, tuple[list[ClusterQueueBuilder], Held, float, FairPreemption | None]] = {
    "in its own queue": ([queue("a", 4)], held("low", "a", 4, -1), 4, None),
    "reclaimed": ([queue("a", 4), queue("b", 0)], held("low", "b", 4, -1), 4, None),
    "reclaimed by one that borrows": (
        [queue("a", 2, BORROWING), queue("b", 2)],
        held("low", "b", 4, -1),
        4,
        None,
    ),
    "fair sharing": ([queue("a", 2), queue("b", 2)], held("low", "b", 4, -1), 2, FairPreemption()),
}


@pytest.mark.parametrize(("tree", "victim", "cpu", "fair"), CASES.values(), ids=CASES.keys())
def test_a_protected_workload_is_never_a_candidate(
    tree: list[ClusterQueueBuilder], victim: Held, cpu: float, fair: FairPreemption | None
) -> None:
    assert list(Scene(tree, [victim], fair).victims("a", needs(cpu=cpu))) == ["low"]
    assert not Scene(tree, [replace(victim, protected=True)], fair).victims("a", needs(cpu=cpu))


def test_others_go_in_its_place() -> None:
    holders = [replace(held("first", "a", 2, -2), protected=True), held("second", "a", 2, -1)]
    assert list(Scene([queue("a", 4)], holders).victims("a", needs(cpu=2))) == ["second"]


def test_one_that_goes_anyhow_makes_room_like_others() -> None:
    leaving = Held("leaving", "a", needs(cpu=4), -1, evicted=True, protected=True)
    assert list(Scene([queue("a", 4)], [leaving]).victims("a", needs(cpu=4))) == ["leaving"]


def guarded(name: str, value: str = "true") -> WorkloadBuilder:
    return wants(name, cpu=4).priority(-1).annotations({NON_PREEMPTIBLE_ANNOTATION: value})


def pressed(builder: WorkloadBuilder, *, allowed: bool) -> Play:
    """A weak workload has all the quota, a strong one wants it."""
    rules = cluster_queue("cq").quota("default", cpu=limits(4)).preempt(within_cluster_queue="LowerPriority")
    play = Play(rules.build(), local_queue("lq", "cq").build(), engine=Engine(EngineRules(has_non_preemptible=allowed)))
    play.submit(builder)
    play.settle()
    play.submit(wants("high", cpu=4).priority(1))
    return play


@pytest.mark.parametrize(
    ("value", "allowed", "evicted"),
    [
        pytest.param("true", True, (), id="asked for and allowed"),
        pytest.param("true", False, ("low",), id="not allowed, as by default"),
        pytest.param("false", True, ("low",), id="not asked for"),
        pytest.param("yes", True, ("low",), id="not understood"),
    ],
)
def test_the_engine_heeds_the_annotation_where_it_is_allowed(
    value: str, allowed: bool, evicted: tuple[str, ...]
) -> None:
    play = pressed(guarded("low", value), allowed=allowed)
    assert tuple(key.name for key in play.engine.scheduler.cycle(play.now).evicted) == evicted


def test_it_is_protected_from_the_moment_it_has_quota() -> None:
    play = Play.with_queue(Engine(EngineRules(has_non_preemptible=True)), cpu=4)
    play.apply(cluster_queue("cq").quota("default", cpu=4).preempt(within_cluster_queue="LowerPriority").build())
    play.submit(guarded("low"))
    assert play.cycle() == ("low",)
    play.submit(wants("high", cpu=4).priority(1))
    assert play.engine.scheduler.cycle(play.now).evicted == []


def test_who_waits_gets_another_look_when_the_protection_ends() -> None:
    play = pressed(guarded("low"), allowed=True)
    play.settle()
    assert not play.workloads[key_of("low")].has("Evicted")
    shown = play.workloads[key_of("low")]
    play.see(msgspec.structs.replace(shown, metadata=msgspec.structs.replace(shown.metadata, annotations={})))
    play.wait(1)
    assert tuple(key.name for key in play.engine.scheduler.cycle(play.now).evicted) == ("low",)


@pytest.mark.parametrize(
    ("annotations", "protected", "problem"),
    [
        ({}, False, ""),
        ({NON_PREEMPTIBLE_ANNOTATION: "true"}, True, ""),
        ({NON_PREEMPTIBLE_ANNOTATION: "false"}, False, ""),
        (
            {NON_PREEMPTIBLE_ANNOTATION: "yes"},
            False,
            'Workload default/w: annotation multikueue.dev/non-preemptible: expected "true" or "false", got "yes"',
        ),
    ],
    ids=["nothing", "true", "false", "nonsense"],
)
def test_reading_the_annotation(annotations: dict[str, str], protected: bool, problem: str) -> None:
    value = workload("w").annotations(annotations).build()
    assert (is_non_preemptible(value), non_preemptible_problem(value)) == (protected, problem)
