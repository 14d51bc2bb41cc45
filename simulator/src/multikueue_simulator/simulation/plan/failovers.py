"""Failovers and absences in a row, which single events hardly ever make: they need several things to go wrong in order.

Each plan gets them by a random generator of its own, so that other plans stay the same.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from fakekube.network.link import State
from multikueue_simulator.simulation.plan import plan as plans
from multikueue_simulator.simulation.plan.plan import Event, JobPlan, Plan
from multikueue_simulator.world.world import MANAGER

__all__ = ["with_failovers"]

SHARE = 0.12
"""The share of plans that get one."""

SKEWED, SKEWS = 0.25, (-600.0, -60.0, 60.0, 600.0)
"""The share of these in which clocks of managers differ by minutes, and by how many seconds each of them does."""


def with_failovers(plan: Plan) -> Plan:
    """In some plans a standby cannot reach the workers and takes over; in others each worker goes away twice, and the
    manager cluster is away when it comes back. One job runs all the while."""
    luck = random.Random(f"misfortune {plan.seed}")  # noqa: S311  # not a secret
    if luck.random() >= SHARE or plan.has_dispatcher:
        return plan
    events = _standby_alone(luck, plan) if len(plan.replicas) > 1 else _away_twice(luck, plan)
    longest = JobPlan(
        name="long", at=round(luck.uniform(0.5, 3.0), 3), queue=plan.jobs[0].queue, seconds=luck.choice((60.0, 120.0))
    )
    if luck.random() < SKEWED:
        plan = replace(plan, replicas=tuple(replace(each, skew=luck.choice(SKEWS)) for each in plan.replicas))
    planned = sorted((*plan.events, *events), key=lambda event: event.at)
    return replace(plan, jobs=(*plan.jobs, longest), events=tuple(planned))


def _standby_alone(luck: random.Random, plan: Plan) -> tuple[Event, ...]:
    """One replica has broken links to some or all workers, and the other one dies meanwhile."""
    cut, dies = luck.sample([replica.name for replica in plan.replicas], 2)
    begins = round(luck.uniform(0.0, 25.0), 3)
    lasts = round(plan.timing.lost + luck.uniform(10.0, 50.0), 3)
    death = round(begins + plan.timing.lost + luck.uniform(0.0, 8.0), 3)
    workers = plan.workers if luck.random() < 0.7 else tuple(luck.sample(plan.workers, len(plan.workers) - 1))
    state: Any = luck.choice((State.REFUSE, State.HANG, State.MUTE))
    breaks = (plans.Break(at=begins, lasts=lasts, replica=cut, host=worker, state=state) for worker in workers)
    return (*breaks, plans.Crash(at=death, lasts=luck.choice((5.0, 60.0, 300.0)), replica=dies))


def _away_twice(luck: random.Random, plan: Plan) -> tuple[Event, ...]:
    """All workers are away, come back for a while, and are away again. While they are back, nothing can be written."""
    timing, replica = plan.timing, plan.replicas[0].name
    first = round(luck.uniform(10.0, 25.0), 3)
    away = round(min(timing.lost - 2.0, luck.uniform(7.0, 15.0)), 3)
    back = round(2 * timing.heartbeat + timing.call + luck.uniform(6.0, 10.0), 3)
    again = round(luck.choice((0.4, 0.8, 1.5)) * timing.lost, 3)
    second = first + away + back
    breaks = (
        plans.Break(at=at, lasts=lasts, replica=replica, host=worker, state=State.REFUSE)
        for worker in plan.workers
        for at, lasts in ((first, away), (second, again))
    )
    mute = plans.Break(at=first + away - 1.0, lasts=back + 6.0, replica=replica, host=MANAGER, state=State.REFUSE)
    return (*breaks, mute)
