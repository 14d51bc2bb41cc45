"""Concurrent Admission (KEP 8691): runs whose first queue has several flavors, and work that tries each of them.

They come from a random generator of their own, so that all other runs stay as they are.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import get_args

from multikueue_simulator.simulation.plan.plan import Event, Plan
from multikueue_simulator.simulation.plan.when import When
from multikueue_simulator.world.world import Migration, Share

__all__ = ["DeactivateVariant", "DeleteVariant", "SwitchPolicy", "with_families"]

SHARE = 0.08
"""The share of runs with variants, among those with neither a Kueue on the manager cluster nor adversaries."""

PAUSES = (2.0, 5.0, 20.0, 45.0)
"""Seconds with another policy, or none."""

LONG = 40.0
"""Seconds of some jobs: what becomes of a family shows while its parent runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchPolicy(Event):
    """The policy becomes another one, or goes; it comes back after `lasts`."""

    migration: Migration | None

    def describe(self) -> str:
        return f"an admin has the concurrentAdmissionPolicy of the first queue be {self.migration or 'none'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfVariant(Event):
    """`number` selects one of the variants of a job."""

    job: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteVariant(_OfVariant):
    def describe(self) -> str:
        return f"a user deletes variant {self.number} of job {self.job}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeactivateVariant(_OfVariant):
    def describe(self) -> str:
        return f"a user deactivates variant {self.number} of job {self.job}"


def with_families(plan: Plan) -> Plan:
    """The plan with several flavors and a policy for its first queue, if its seed draws them."""
    luck = random.Random(f"families {plan.seed}")  # noqa: S311  # not a secret
    is_other = plan.layout.core or plan.adversaries or any(job.room for job in plan.jobs)
    if luck.random() >= SHARE or is_other:
        return plan
    # Each flavor has room for any job, so that all of them may be tried.
    jobs = tuple(replace(job, seconds=luck.choice((job.seconds, job.seconds, LONG))) for job in plan.jobs)
    least = max(job.total for job in jobs)
    flavors = tuple(Share(f"spare{number}", least + luck.choice((0, 2, 8))) for number in range(luck.choice((1, 1, 2))))
    layout = replace(plan.layout, flavors=flavors, migration=luck.choice(get_args(Migration)))
    plan = replace(plan, layout=layout, jobs=jobs)
    events = tuple(_event(plan, luck) for _ in range(luck.choice((0, 1, 2, 3))))
    return replace(plan, events=tuple(sorted((*plan.events, *events), key=lambda event: event.at)))


def _event(plan: Plan, luck: random.Random) -> Event:
    job = luck.choice(plan.jobs)
    at = round(max(0.0, job.at + luck.choice((luck.uniform(0.0, job.seconds + 1.0), luck.expovariate(1.0)))), 3)
    when, number = When.drawn(luck, at), luck.randrange(3)
    lasts, migration = luck.choice(PAUSES), luck.choice((None, None, *get_args(Migration)))
    return luck.choice(
        (
            SwitchPolicy(**when(lasts), migration=migration),
            DeleteVariant(**when(), job=job.name, number=number),
            DeactivateVariant(**when(), job=job.name, number=number),
        )
    )
