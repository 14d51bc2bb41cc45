"""Lives in which one thing does not work at all, for as long as they last: what counts, and where the log goes."""

from __future__ import annotations

import pytest

from multikueue_simulator.simulation.plan.partial import FailObservers, FillLog, Partial
from multikueue_simulator.simulation.plan.plan import JobPlan, Plan
from multikueue_simulator.simulation.runs.life import live

JOBS = tuple(JobPlan(name=f"job{number}", at=5.0 + number, cpu=2, seconds=8.0) for number in range(6))


@pytest.mark.parametrize(
    "fault",
    [
        FailObservers(at=0.5, lasts=200.0, replica="manager-0"),
        FillLog(at=0.0, lasts=200.0, what="gone"),
        FillLog(at=0.0, lasts=200.0, what="unread"),
    ],
    ids=["no count succeeds", "nobody reads the log any more", "the log is full"],
)
def test_what_only_looks_holds_nothing_up(fault: Partial) -> None:
    plan = Plan(seed=1, jobs=JOBS, adversaries=(fault,))
    assert live(plan).violation is None
