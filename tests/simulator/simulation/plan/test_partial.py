"""Faults of a part: which plans get them, that others stay as they are, and that each is told in words of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from multikueue_simulator.simulation.plan.adversaries import control
from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.plan.partial import (
    DropField,
    FailObservers,
    FailWebhook,
    FillLog,
    Nameless,
    Partial,
    RefuseVerb,
    ShareField,
    TakenOver,
    with_partial_faults,
)
from multikueue_simulator.simulation.plan.plan import Crash, JobPlan, Outage, Plan, RestartKueue
from multikueue_simulator.world.world import MANAGER, Layout

BARE = Plan(seed=0, jobs=(JobPlan(name="a", at=3.0),), events=(Crash(at=5.0),))
SEEDS = range(3000)


def afflicted(plan: Plan = BARE) -> list[Plan]:
    made = (with_partial_faults(replace(plan, seed=seed)) for seed in SEEDS)
    return [each for each in made if each.adversaries]


def acts() -> list[Partial]:
    found = [*afflicted(), *afflicted(replace(BARE, layout=Layout(core=True)))]
    return [act for plan in found for act in plan.adversaries if isinstance(act, Partial)]


def test_few_plans_have_any_and_half_of_those_nothing_else() -> None:
    plans = afflicted()
    assert 0.06 * len(SEEDS) < len(plans) < 0.14 * len(SEEDS)
    assert 0.3 * len(plans) < sum(1 for plan in plans if not plan.events) < 0.8 * len(plans)


def test_a_seed_has_the_same_each_time() -> None:
    assert [drawn(seed) for seed in range(40)] == [drawn(seed) for seed in range(40)]


def test_all_kinds_come_up_each_with_its_own_words() -> None:
    found = acts()
    kinds = {DropField, FailObservers, FailWebhook, FillLog, Nameless, RefuseVerb, ShareField, TakenOver}
    assert {type(act) for act in found} == kinds
    assert all(act.describe() and act.patience >= 0 for act in found)
    words = {type(act): act.describe().split()[0] for act in found}
    assert len(words) == len(kinds)


def test_a_fault_of_a_worker_is_compared_with_a_worker_that_is_of_no_use() -> None:
    plan = replace(BARE, events=())
    there = FailWebhook(at=1.0, lasts=9.0, host="worker1", kind="jobs", operations=("CREATE",))
    reads = RefuseVerb(at=1.0, lasts=9.0, host="worker1", kind="jobs", verb="watch")
    home = replace(there, host=MANAGER)
    assert control(replace(plan, adversaries=(there,))) == replace(
        plan, events=(RestartKueue(at=1.0, lasts=9.0, worker="worker1"),)
    )
    assert control(replace(plan, adversaries=(reads,))) == replace(
        plan, events=(Outage(at=1.0, lasts=9.0, host="worker1"),)
    )
    assert control(replace(plan, adversaries=(home,))) is None
    assert control(replace(plan, adversaries=(replace(there, operations=("UPDATE",)),))) is None


@pytest.mark.parametrize(
    ("kind", "expected"), [("events", True), ("workloads/status", True), ("jobs/status", False)], ids=str
)
def test_some_faults_keep_managers_from_saying_anything(kind: str, expected: bool) -> None:
    act = RefuseVerb(host=MANAGER, kind=kind, verb="patch")
    assert act.mutes is expected
    assert not replace(act, host="worker1").mutes


def test_names_fail_for_some_workers_and_never_for_all() -> None:
    for plan in afflicted():
        nameless = {act.host for act in plan.adversaries if isinstance(act, Nameless)}
        together = [act for act in plan.adversaries if isinstance(act, Nameless)]
        assert len(together) < 2 * len(plan.workers)
        assert not nameless or nameless <= set(plan.workers)


def test_more_workers_than_a_workload_names_are_beside_a_kueue_that_reviews() -> None:
    many = [
        plan
        for plan in map(with_partial_faults, (replace(BARE, seed=seed) for seed in SEEDS))
        if len(plan.workers) > 20
    ]
    assert many
    assert all(plan.layout.core and plan.layout.is_reviewed for plan in many)
    assert all(job.cpu > share.cpu for plan in many for job in plan.jobs for share in plan.layout.workers[:21])
