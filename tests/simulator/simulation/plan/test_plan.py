"""Plans are values, and can be told."""

from __future__ import annotations

import pytest

from fakekube.network.link import State, Weather
from multikueue_simulator.simulation.plan.draw import drawn
from multikueue_simulator.simulation.plan.plan import Break, Crash, JobPlan, Plan, Storm


def test_a_plan_ends_with_its_last_event_or_job() -> None:
    jobs = (JobPlan(name="a", at=3.0),)
    assert Plan(seed=1).ends == 0
    assert Plan(seed=1, jobs=jobs).ends == 3
    assert Plan(seed=1, jobs=jobs, events=(Crash(at=2.0, lasts=4.0),)).ends == 6


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Crash(replica="manager-1"), "manager-1 dies"),
        (Break(host="worker1", state=State.HANG), "the link from manager-0 to worker1 is in state hang"),
        (Storm(host="worker1", weather=Weather(late=0.5)), "bad weather from manager-0 to worker1: late 50%"),
    ],
    ids=["crash", "break", "storm"],
)
def test_events_are_told_in_words(event: Crash | Break | Storm, text: str) -> None:
    assert event.describe() == text


def test_everything_that_is_drawn_can_be_told() -> None:
    for seed in range(300):
        plan = drawn(seed)
        assert all([job.describe() for job in plan.jobs] + [event.describe() for event in plan.events])
