"""From seeds to plans: always the same, within what a life can bear, and everything comes up somewhere."""

from __future__ import annotations

import pytest

from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.draw import AT_HOME_FROM, drawn
from multikueue_simulator.simulation.plan.plan import Event

SEEDS = range(1500)
AT_HOME = range(AT_HOME_FROM, AT_HOME_FROM + 40)


def kinds_of_events() -> set[type[Event]]:
    found = {kind for name in plans.__all__ if issubclass(kind := getattr(plans, name), Event)}
    return found - {Event, plans.Adversity}


def test_a_seed_has_one_plan() -> None:
    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


def test_every_kind_of_event_comes_up() -> None:
    found = {type(event) for seed in (*SEEDS, *AT_HOME) for event in drawn(seed).events}
    assert kinds_of_events() - found == set()


def test_all_strategies_and_both_ways_to_lead_come_up() -> None:
    found = [drawn(seed) for seed in range(300)]
    assert {plan.strategy for plan in found} == {"all-at-once", "composed", "external", "incremental"}
    assert {len(plan.replicas) for plan in found} == {1, 2}


def test_all_roles_come_up() -> None:
    found = [drawn(seed) for seed in SEEDS]
    assert {(plan.layout.core, plan.has_dispatcher) for plan in found} == {(False, False), (True, False), (True, True)}
    for plan in found:
        if plan.has_dispatcher:
            assert [replica.nominates for replica in plan.replicas] == [False, True]
            assert not plan.elected
            assert not any(isinstance(event, plans.StrategyChange) for event in plan.events)


def test_the_manager_cluster_is_a_worker_too_from_a_seed_on() -> None:
    assert not any(drawn(seed).layout.home for seed in SEEDS)
    found = [drawn(seed) for seed in AT_HOME]
    assert all(plan.layout.home and not plan.layout.core and not plan.adversaries for plan in found)
    assert {plan.layout.is_home_last for plan in found} == {True, False}


def test_some_jobs_fit_the_queue_and_no_worker_until_one_grows_after_all_trouble() -> None:
    found = [(plan, job) for plan in map(drawn, range(300)) for job in plan.jobs if job.room]
    assert found
    for plan, job in found:
        assert max(share.cpu for share in plan.layout.workers) < job.total <= plan.layout.queues[0].cpu
        assert job.room in plan.workers
        assert plan.ends == job.room_at > max(event.at + event.lasts for event in (*plan.events, plans.Event()))


@pytest.mark.parametrize("seed", range(0, 1500, 50))
def test_a_plan_is_in_order_and_every_job_fits_somewhere(seed: int) -> None:
    plan = drawn(seed)
    assert [event.at for event in plan.events] == sorted(event.at for event in plan.events)
    workers = plan.layout.workers if len(plan.workers) < 20 else plan.layout.workers[-1:]  # of many only one has room
    smallest = min(share.cpu for share in (*workers, *plan.layout.queues))
    assert all(job.total <= smallest for job in plan.jobs if not job.room)
    assert {job.queue for job in plan.jobs} <= {queue.name for queue in plan.layout.queues}
    assert plan.ends >= max(job.at for job in plan.jobs)


def test_all_that_composed_may_look_at_comes_up() -> None:
    found = [plan for plan in map(drawn, range(600)) if plan.strategy == "composed"]
    options = " ".join(str(plan.options) for plan in found)
    for part in ("price", "spend", "versions", "room", "hedge", "lowest"):
        assert f"'{part}'" in options, part
    assert any(plan.layout.prices.workers and plan.layout.prices.most for plan in found)
    assert any(plan.layout.prices.workers and not plan.layout.prices.most for plan in found)
