"""What idle workers cost: counted on virtual time, for requests are the same on any machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache

import anyio
import anyio.abc

from fakekube.model.wire import Request, Response, Watch
from fakekube.network.link import Weather
from fakekube.network.transport import Line
from multikueue.controllers.reconcile.context import BEGINNINGS
from multikueue.controllers.workers.connection.heartbeat import SIGNS_PER_SECOND
from multikueue.settings import Cluster, Dispatch, InForce, Settings
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world.world import MANAGER, Layout, Share, World
from tests.costs.fleet import quickly

START, MINUTES = 60.0, 5
"""Seconds until all workers are connected, and minutes at rest."""

LEAST = timedelta(seconds=2)
"""The heartbeat interval that ships."""


@dataclass
class Asked:
    """An observer of the manager's line: what workers are asked, and how many of them at once."""

    requests: Counter[str] = field(default_factory=Counter)
    watches: Counter[str] = field(default_factory=Counter)
    first_at: dict[str, float] = field(default_factory=dict)

    def arriving(self, _line: Line, host: str, _request: Request) -> None:
        if host != MANAGER:
            self.first_at.setdefault(host, anyio.current_time())

    def arrived(self, _line: Line, host: str, _request: Request, answer: Response | Watch) -> None:
        if host != MANAGER:
            (self.watches if isinstance(answer, Watch) else self.requests)[host] += 1


@cache
def at_rest(workers: int) -> tuple[float, float]:
    """Requests to each worker in a minute, and watches."""
    with quickly():
        return run(lambda: _at_rest(workers))


async def _at_rest(workers: int) -> tuple[float, float]:
    asked = Asked()
    async with anyio.create_task_group() as tasks:
        await _begin(workers, asked, tasks)
        await anyio.sleep(START)
        assert len(asked.requests) == workers
        asked.requests.clear()
        asked.watches.clear()
        await anyio.sleep(60 * MINUTES)
        tasks.cancel_scope.cancel()
    each = workers * MINUTES
    return asked.requests.total() / each, asked.watches.total() / each


async def _begin(workers: int, asked: Asked, tasks: anyio.abc.TaskGroup, *, away: float = 0.0) -> World:
    names = [f"worker-{number}" for number in range(workers)]
    layout = Layout(workers=tuple(Share(name, 4) for name in names))
    world = World(layout, clock=VirtualClock(), seed=1)
    world.apply_fixtures()
    for name in names:
        if away:
            world.network.link("manager", name).weather = Weather(latency=(away / 2, away / 2))
    settings = Settings(cluster=Cluster(namespace=layout.secrets), dispatch=Dispatch(gc_interval=timedelta()))
    manager = world.add_manager("manager", InForce(settings), observer=asked)
    await manager.begin(tasks).wait()
    return world


def test_a_few_workers_are_asked_for_a_sign_of_life_at_the_interval_of_the_settings() -> None:
    requests, _ = at_rest(3)
    assert 60 / LEAST.total_seconds() * 0.95 <= requests <= 60 / LEAST.total_seconds() * 1.1


def test_many_workers_are_asked_no_more_together_than_so_many_times_a_second() -> None:
    workers = 100
    requests, watches = at_rest(workers)
    assert requests <= 60 * SIGNS_PER_SECOND / workers + 2 * watches
    assert requests < 60 / LEAST.total_seconds() / 2


def test_watches_start_over_every_few_minutes_only_however_many_workers_there_are() -> None:
    """Two of each worker, each for five to ten minutes."""
    assert max(at_rest(workers)[1] for workers in (3, 100)) <= 2 / 4


async def _first_contacts(workers: int) -> list[float]:
    asked = Asked()
    async with anyio.create_task_group() as tasks:
        await _begin(workers, asked, tasks, away=0.2)
        await anyio.sleep(START)
        tasks.cancel_scope.cancel()
    return sorted(asked.first_at.values())


def test_connections_to_many_workers_begin_some_at_a_time() -> None:
    """Each takes some round trips of 200 ms, and nobody is asked before there is room."""
    with quickly():
        times = run(lambda: _first_contacts(3 * BEGINNINGS))
    assert len(times) == 3 * BEGINNINGS
    assert times[BEGINNINGS] - times[0] >= 0.4
    assert times[2 * BEGINNINGS] - times[BEGINNINGS] >= 0.4
    assert times[-1] - times[0] <= 10
