"""From a failing plan to the smallest plan that still violates the same invariant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from fakekube.network.link import CALM
from multikueue_simulator.simulation.plan.plan import Event, Plan
from multikueue_simulator.simulation.runs.life import live

__all__ = ["Fails", "invariant_broken_by", "shrunk"]

T = TypeVar("T")

Fails = Callable[[Plan], bool]


def invariant_broken_by(plan: Plan) -> str:
    """The invariant that a plan violates; empty if none."""
    violation = live(plan).violation
    return violation.invariant if violation is not None else ""


def shrunk(plan: Plan, fails: Fails, *, lives: int = 400) -> Plan:
    """A smaller plan that still fails, after at most `lives` runs."""
    budget = _Budget(fails, lives)
    while True:
        smaller = next((each for each in _smaller(plan) if budget.fails(each)), None)
        if smaller is None:
            return plan
        plan = smaller


class _Budget:
    def __init__(self, fails: Fails, lives: int) -> None:
        self._fails, self._left = fails, lives

    def fails(self, plan: Plan) -> bool:
        self._left -= 1
        return self._left >= 0 and self._fails(plan)


def _smaller(plan: Plan) -> Iterator[Plan]:
    """The plans that are one step smaller, the biggest steps first."""
    for adversaries in _with_less(plan.adversaries):
        yield replace(plan, adversaries=adversaries)
    for events in _with_less(plan.events):
        yield replace(plan, events=events)
    for jobs in _with_less(plan.jobs):
        if jobs:
            yield replace(plan, jobs=jobs, events=tuple(e for e in plan.events if _concerns(e, jobs)))
    if len(plan.replicas) > 1:
        one = plan.replicas[:1]
        events = tuple(e for e in plan.events if getattr(e, "replica", one[0].name) == one[0].name)
        yield replace(plan, replicas=one, events=events)
    if plan.elected and len(plan.replicas) == 1:
        yield replace(plan, elected=False)
    if any(replica.skew for replica in plan.replicas):
        yield replace(plan, replicas=tuple(replace(replica, skew=0.0) for replica in plan.replicas))
    if plan.strategy != "all-at-once":
        yield replace(plan, strategy="all-at-once", options={})
    if plan.weather != CALM:
        yield replace(plan, weather=CALM)
    yield from _simpler_events(plan)


def _with_less(items: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    """The items without a half, a quarter, ... a single one."""
    size = len(items)
    while size:
        size = size // 2 if size > 1 else 0
        chunk = size or 1
        if len(items) == 0:
            return
        for start in range(0, len(items), chunk):
            yield items[:start] + items[start + chunk :]


def _concerns(event: Event, jobs: tuple[object, ...]) -> bool:
    name = getattr(event, "job", None)
    return name is None or any(getattr(job, "name", None) == name for job in jobs)


def _simpler_events(plan: Plan) -> Iterator[Plan]:
    """The plans with one event shorter, or at a time instead of at a write."""
    for number, event in enumerate(plan.events):
        for simpler in _simpler(event):
            yield replace(plan, events=(*plan.events[:number], simpler, *plan.events[number + 1 :]))


def _simpler(event: Event) -> Iterator[Event]:
    if event.lasts > 1.0:
        yield replace(event, lasts=round(event.lasts / 2, 1))
