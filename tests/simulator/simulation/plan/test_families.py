"""A share of the seeds has work that tries each flavor; all others are as before."""

from __future__ import annotations

from dataclasses import replace

from multikueue_simulator.simulation.plan import families
from multikueue_simulator.simulation.plan.draw import _Draft, drawn
from multikueue_simulator.simulation.plan.families import with_families
from multikueue_simulator.simulation.plan.plan import Event

SEEDS = range(1500)
WITH = [plan for plan in map(drawn, SEEDS) if plan.layout.migration is not None]


def test_a_share_of_the_seeds_has_families_and_no_other_manager_of_quota() -> None:
    assert 0.03 < len(WITH) / len(SEEDS) < 0.1
    assert not any(plan.layout.core or plan.adversaries for plan in WITH)
    assert {plan.layout.migration for plan in WITH} == {"RetainFirstAdmission", "TryPreferredFlavors"}


def test_each_flavor_has_room_for_each_job() -> None:
    for plan in WITH:
        assert min(flavor.cpu for flavor in plan.layout.flavors) >= max(job.total for job in plan.jobs)


def test_nothing_else_of_a_seed_moves() -> None:
    for plan in WITH:
        bare = _Draft(plan.seed).plan()
        mine = tuple(event for event in plan.events if type(event).__module__ != families.__name__)
        assert mine == bare.events
        layout = replace(plan.layout, flavors=(), migration=None)
        assert replace(plan, layout=layout, events=mine, jobs=bare.jobs) == bare


def test_a_seed_has_the_same_family_each_time() -> None:
    bare = _Draft(WITH[0].seed).plan()
    assert with_families(bare) == with_families(bare) == WITH[0]


def test_every_kind_comes_up_and_can_be_told() -> None:
    kinds = {kind for name in families.__all__ if isinstance(kind := getattr(families, name), type)}
    found = [event for plan in WITH for event in plan.events if type(event) in kinds]
    assert {type(event) for event in found} == {kind for kind in kinds if issubclass(kind, Event)}
    assert all(event.describe() for event in found)
    assert all(list(plan.events) == sorted(plan.events, key=lambda event: event.at) for plan in WITH)
