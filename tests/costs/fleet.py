"""The manager that ships, with so many simulated workers, on virtual time: what each job costs it, by strategy."""

from __future__ import annotations

import gc
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import structlog

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.runtime import concurrency
from multikueue.settings import Cluster, Dispatch, InForce, Settings, TraceExport
from multikueue.telemetry import logger
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, PLACEMENT, Layout, Share, World
from tests.controllers.table import AT_ONCE
from tests.costs.counting import FUNCTIONS, Calls, Counts, counted, functions_counted
from tests.strategies.distributions import HEADER, LAST_ONLY, distribution

__all__ = ["COPIES", "STRATEGIES", "Costs", "Strategy", "costs", "counted_anew", "quickly"]

Costs = Mapping[str, float]
"""By what is counted: how often on the average, for one job."""

COPIES = 3
"""How many workers a strategy takes that does not take all."""

ROOM = 10_000
"""CPUs of each queue: more than is ever asked for."""

CALM = 10.0
"""Seconds in which whatever a job leaves behind is put in order."""

RARE = timedelta(days=1)
"""Between two signs of life, so that none is counted for a job."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A strategy as an AdmissionCheck names it. It has a queue of its own, named like it."""

    name: str
    options: Mapping[str, object]
    takes_all: bool = False

    @property
    def check(self) -> str:
        return f"by-{self.name}"


STRATEGIES: Sequence[Strategy] = (
    Strategy("all-at-once", {}, takes_all=True),
    Strategy("incremental", {"step": COPIES}),
    Strategy("external", {"placement": f"{NAMESPACE}/{PLACEMENT}"}),
    Strategy("users-own", {"count": COPIES}),
)


@cache
def costs(workers: int, jobs: int, warm_ups: int = 1) -> Mapping[str, Costs]:
    """By strategy: what each of so many jobs costs, one after the other."""
    return counted_anew(workers, jobs, warm_ups)


def counted_anew(workers: int, jobs: int, warm_ups: int = 1, *, traces: str = "") -> Mapping[str, Costs]:
    """The same, counted once more. `traces`: where the manager sends them."""
    with quickly(), _users_own():
        return run(lambda: _costs(workers, jobs, warm_ups, traces))


async def _costs(workers: int, jobs: int, warm_ups: int, traces: str) -> Mapping[str, Costs]:
    counts: Counts = Counter()
    world = World(_layout(workers), clock=VirtualClock(), seed=1)
    _furnish(world)
    found: dict[str, dict[str, float]] = {}
    async with anyio.create_task_group() as tasks:
        await world.start(tasks)
        manager = world.add_manager("manager", InForce(_settings(world, traces)), observer=Calls(counts))
        with counted(manager.name, counts):
            await manager.begin(tasks).wait()
            await anyio.sleep(CALM)
            for strategy in STRATEGIES:
                await _jobs(world, strategy, warm_ups, "warm")
                counts.clear()
                await _jobs(world, strategy, jobs, "job")
                found[strategy.name] = {label: count / jobs for label, count in counts.items()}
                if not strategy.takes_all:
                    with functions_counted(counts, process=manager.name):
                        await _jobs(world, strategy, 1, "last")
                    found[strategy.name][FUNCTIONS] = counts[FUNCTIONS]
        tasks.cancel_scope.cancel()
    return found


async def _jobs(world: World, strategy: Strategy, number: int, word: str) -> None:
    """Each runs to its end before the next one is submitted."""
    for index in range(number):
        name = f"{word}-{strategy.name}-{index}"
        world.manager.create(kinds.JOBS, objects.job(name, NAMESPACE, queue=strategy.name))
        await anyio.sleep(CALM)
        job = world.manager.stored(kinds.JOBS, ObjectKey(NAMESPACE, name))
        assert job is not None
        assert "completionTime" in job["status"], f"{name} did not finish: {job['status']}"
        left = [worker.name for worker in world.workers.values() if worker.site.all(kinds.WORKLOADS)]
        assert not left, f"{name} is still on {left}"


def _layout(workers: int) -> Layout:
    names = [f"worker-{number}" for number in range(workers)]
    return Layout(
        queues=tuple(Share(strategy.name, ROOM) for strategy in STRATEGIES),
        workers=tuple(Share(name, ROOM) for name in names),
        placement=tuple(names[:COPIES]),
    )


def _furnish(world: World) -> None:
    world.apply_fixtures()
    for strategy in STRATEGIES:
        annotations = objects.strategy_annotations(strategy.name, strategy.options)
        world.manager.create(kinds.ADMISSION_CHECKS, objects.admission_check(strategy.check, annotations=annotations))
        spec = {"admissionChecksStrategy": {"admissionChecks": [{"name": strategy.check}]}}
        world.manager.patch(kinds.CLUSTER_QUEUES, ObjectKey("", strategy.name), {"spec": spec})


def _settings(world: World, traces: str) -> Settings:
    dispatch = Dispatch(heartbeat_interval=RARE, gc_interval=timedelta())
    return Settings(
        cluster=Cluster(namespace=world.layout.secrets),
        dispatch=dispatch,
        retention=AT_ONCE,
        traces=TraceExport(endpoint=traces),
    )


@contextmanager
def _users_own() -> Iterator[None]:
    """A strategy of somebody else's is installed. On virtual time it is asked on the spot, and not in a thread."""
    with tempfile.TemporaryDirectory() as folder, patch.object(concurrency, "Thread", _OnTheSpot):
        site = distribution(Path(folder), "costs_of_others", HEADER + LAST_ONLY, users_own="LastOnly")
        with patch.object(sys, "path", [str(site), *sys.path]):
            yield


class _OnTheSpot:
    """What would run in a thread of its own, run at once."""

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...], **_options: object) -> None:
        self._target, self._args = target, args

    def start(self) -> None:
        self._target(*self._args)


@contextmanager
def quickly() -> Iterator[None]:
    """Without logs and without looks for garbage, which cost more than all the rest where there are many workers. Loggers
    are found as where they are cached for the life of a process."""
    silent = structlog.wrap_logger(None, wrapper_class=structlog.make_filtering_bound_logger("critical")).bind()
    gc.collect()
    gc.disable()
    try:
        with patch.object(logger._Logger, "__getattr__", lambda _, name: getattr(silent, name)):
            yield
    finally:
        gc.enable()
