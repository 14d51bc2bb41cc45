"""Failovers and absences in a row: which plans get them, and that they are what they say."""

from __future__ import annotations

from dataclasses import replace

from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.plan.failovers import with_failovers
from multikueue_simulator.simulation.plan.plan import Break, Crash, JobPlan, Plan, Replica
from multikueue_simulator.world.world import MANAGER

TWO = (Replica(name="manager-0"), Replica(name="manager-1"))


def plans(replicas: tuple[Replica, ...]) -> list[Plan]:
    """The plans of 500 seeds that got one, from plans in which nothing else happens."""
    bare = Plan(seed=0, replicas=replicas, elected=len(replicas) > 1, jobs=(JobPlan(name="a"),))
    made = (with_failovers(replace(bare, seed=seed)) for seed in range(500))
    return [plan for plan in made if plan.events]


def test_a_standby_is_cut_off_for_longer_than_the_timeout_and_the_other_one_dies_meanwhile() -> None:
    for plan in plans(TWO):
        breaks = [event for event in plan.events if isinstance(event, Break)]
        [crash] = [event for event in plan.events if isinstance(event, Crash)]
        assert {event.replica for event in breaks} == {each.name for each in TWO} - {crash.replica}
        assert all(event.at + plan.timing.lost <= crash.at <= event.at + event.lasts for event in breaks)


def test_a_worker_is_away_twice_and_the_manager_cluster_when_it_is_back() -> None:
    for plan in plans(TWO[:1]):
        breaks = [event for event in plan.events if isinstance(event, Break)]
        [mute] = [event for event in breaks if event.host == MANAGER]
        first, second = (event for event in breaks if event.host == plan.workers[0])
        assert first.lasts < plan.timing.lost
        assert mute.at < first.at + first.lasts < second.at < mute.at + mute.lasts


def test_some_clocks_differ_by_minutes_and_most_do_not() -> None:
    skews = [{replica.skew for replica in plan.replicas} for plan in plans(TWO)]
    assert 0 < sum(1 for each in skews if each != {0.0}) < len(skews) / 2
    assert {skew for each in skews for skew in each} == {0.0, -600.0, -60.0, 60.0, 600.0}


def test_a_seed_has_the_same_each_time_and_most_have_none() -> None:
    drawn_ = [drawn(seed) for seed in range(200)]
    assert 10 < sum(any(job.name == "long" for job in plan.jobs) for plan in drawn_) < 40
    assert [drawn(seed) for seed in range(20)] == drawn_[:20]
