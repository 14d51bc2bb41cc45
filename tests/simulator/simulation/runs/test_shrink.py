"""From a plan that fails to the smallest one that fails too."""

from __future__ import annotations

from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.plan.plan import Crash, Cut, JobPlan, Plan, Replica
from multikueue_simulator.simulation.runs.shrink import shrunk

CULPRIT = Crash(at=5.0, lasts=8.0)
PLAN = Plan(
    seed=1,
    replicas=(Replica(name="manager-0", skew=2.0), Replica(name="manager-1")),
    elected=True,
    strategy="incremental",
    options={"step": 1},
    jobs=tuple(JobPlan(name=f"job{number}") for number in range(5)),
    events=(*(Cut(at=float(number), host="worker1") for number in range(9)), CULPRIT),
)


def has_a_crash(plan: Plan) -> bool:
    return any(isinstance(event, Crash) for event in plan.events)


def test_what_does_not_matter_falls_away() -> None:
    smallest = shrunk(PLAN, has_a_crash)
    (event,) = smallest.events
    assert isinstance(event, Crash)
    assert event.lasts <= 1.0
    assert len(smallest.jobs) == 1
    assert (smallest.replicas, smallest.elected) == ((Replica(name="manager-0"),), False)
    assert (smallest.strategy, smallest.options) == ("all-at-once", {})


def test_what_matters_together_stays_together() -> None:
    def needs_two(plan: Plan) -> bool:
        return {3.0, 7.0} <= {event.at for event in plan.events if isinstance(event, Cut)}

    assert [event.at for event in shrunk(PLAN, needs_two).events] == [3.0, 7.0]


def test_no_more_lives_are_spent_than_allowed() -> None:
    spent: list[Plan] = []

    def fails(plan: Plan) -> bool:
        spent.append(plan)
        return True

    shrunk(PLAN, fails, lives=3)
    assert len(spent) == 3


def test_a_plan_that_cannot_be_smaller_is_left_as_it_is() -> None:
    plan = drawn(3)
    assert shrunk(plan, lambda smaller: False) == plan
