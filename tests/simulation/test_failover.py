"""Lives in which another manager takes over, or the same one starts over: no worker is lost by what only a standby missed."""

from __future__ import annotations

import pytest

from fakekube.network.link import State
from multikueue_simulator.simulation.plan.plan import Break, Crash, JobPlan, Plan, Replica
from multikueue_simulator.simulation.runs.life import live
from multikueue_simulator.world.world import MANAGER

WORKERS = ("worker1", "worker2", "worker3")
LONG = (JobPlan(name="long", at=2.0, seconds=200.0),)


def retried_at(plan: Plan) -> list[float]:
    """When the job was taken from its worker, in seconds of the world."""
    outcome = live(plan, describe=True)
    assert outcome.violation is None
    return [at for at, text in outcome.trace.lines if text.startswith("log: workload.retried")]


@pytest.mark.parametrize("state", [State.HANG, State.REFUSE], ids=lambda state: state.name.lower())
@pytest.mark.parametrize(
    ("cut", "healed", "dies"),
    [(20.0, 86.0, 60.0), (0.0, 86.0, 60.0), (40.0, 115.0, 60.0), (59.0, 80.0, 60.0), (1.0, 150.0, 100.0)],
    ids=str,
)
def test_a_standby_that_takes_over_gives_each_worker_its_time(
    state: State, cut: float, healed: float, dies: float
) -> None:
    """manager-1 leads and reaches all workers until it dies; manager-0 reaches none from `cut` to `healed`."""
    breaks = (Break(at=cut, lasts=healed - cut, replica="manager-0", host=worker, state=state) for worker in WORKERS)
    plan = Plan(
        seed=3,
        elected=True,
        replicas=(Replica(name="manager-0"), Replica(name="manager-1")),
        jobs=LONG,
        events=(*breaks, Crash(at=dies, lasts=600.0, replica="manager-1")),
    )
    assert retried_at(plan) == []


@pytest.mark.parametrize(
    ("away", "manager_away", "lost_at"),
    [
        pytest.param(((20.0, 15.0), (54.0, 60.0)), (36.0, 25.0), 74.0, id="the return could not be written"),
        pytest.param(((20.0, 15.0), (36.5, 8.0), (54.0, 60.0)), (35.0, 30.0), 74.0, id="nor that of two"),
        pytest.param(((61.0, 90.0),), (36.0, 15.0), 81.0, id="one loss"),
        pytest.param(((5.0, 90.0),), None, 25.0, id="soon after the start"),
    ],
)
def test_each_loss_counts_by_itself(
    away: tuple[tuple[float, float], ...], manager_away: tuple[float, float] | None, lost_at: float
) -> None:
    """`worker_lost_timeout` is 20 s in these lives."""
    breaks = [Break(at=at, lasts=lasts, host=worker, state=State.REFUSE) for worker in WORKERS for at, lasts in away]
    if manager_away is not None:
        at, lasts = manager_away
        breaks.append(Break(at=at, lasts=lasts, host=MANAGER, state=State.REFUSE))
    [at] = retried_at(Plan(seed=3, jobs=LONG, events=tuple(breaks)))
    assert lost_at <= at <= lost_at + 2


@pytest.mark.parametrize("down", [1.0, 30.0, 100.0])
def test_after_a_restart_an_old_loss_counts_whole_and_each_worker_has_a_minute(down: float) -> None:
    breaks = tuple(Break(at=20.0, lasts=400.0, host=worker, state=State.REFUSE) for worker in WORKERS)
    crash = Crash(at=30.0, lasts=down, replica="manager-0")
    [at] = retried_at(Plan(seed=3, jobs=LONG, events=(*breaks, crash)))
    assert 30 + down + 60 <= at <= 30 + down + 65
