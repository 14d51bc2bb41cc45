"""A world under pressure, on virtual time: how long the manager's queues get, and what comes when."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import anyio
import msgspec

from fakekube.model.wire import Request, Response, Watch
from fakekube.network.transport import Line
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.runtime import WorkQueue
from multikueue.settings import Cluster, Dispatch, InForce, Settings
from multikueue_simulator.time import VirtualClock, process_now
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import MANAGER, NAMESPACE, Layout, Share, World
from tests.controllers.table import AT_ONCE
from tests.costs.counting import Counts, counted

__all__ = ["OTHERS", "Play", "playing"]

OTHERS = "others"
"""Another tenant's namespace."""

NAME = "manager"
ROOM = 1000
"""CPUs of each worker."""

PATIENCE = 600.0
"""Seconds, virtual ones."""


@dataclass
class Pressure:
    """An observer of the manager's line, and of its queues: the most at a time."""

    longest_queue: int = 0
    jobs_made: list[str] = field(default_factory=list)
    """On workers, in the order in which they were asked for."""

    def arriving(self, _line: Line, host: str, request: Request) -> None:
        if host != MANAGER and request.method == "POST" and request.path.endswith("/jobs"):
            self.jobs_made.append(msgspec.json.decode(request.body)["metadata"]["name"])

    def arrived(self, _line: Line, host: str, request: Request, answer: Response | Watch) -> None:
        """Nothing is known of it that matters here."""


@dataclass
class Play:
    """A manager at work."""

    world: World
    pressure: Pressure
    counts: Counts

    def submit(self, number: int, *, namespace: str = NAMESPACE, word: str = "job", seconds: float = 1.0) -> list[str]:
        names = [f"{word}-{index:04}" for index in range(number)]
        for name in names:
            body = objects.job(name, namespace, queue="main", seconds=seconds)
            self.world.manager.create(kinds.JOBS, body)
        return names

    def has_ended(self, name: str, namespace: str = NAMESPACE) -> bool:
        job = self.world.manager.stored(kinds.JOBS, ObjectKey(namespace, name))
        return job is not None and "completionTime" in job.get("status", {})

    async def until(self, condition: Callable[[], bool]) -> float:
        """Seconds until it holds."""
        began = anyio.current_time()
        with anyio.fail_after(PATIENCE):
            while not condition():  # noqa: ASYNC110  # virtual time: a look costs nothing
                await anyio.sleep(0.1)
        return anyio.current_time() - began


@asynccontextmanager
async def playing(*, workers: int = 3, cpu: int = 1000, at_once: int = 64) -> AsyncIterator[Play]:
    """`cpu`: the quota of the queue; `at_once`: how many workloads are looked at at a time."""
    names = [f"worker-{number}" for number in range(workers)]
    layout = Layout(queues=(Share("main", cpu),), workers=tuple(Share(name, ROOM) for name in names))
    world = World(layout, clock=VirtualClock(), seed=1)
    world.apply_fixtures()
    for site in world.sites:
        where = "main" if site is world.manager else site.name
        site.create(kinds.NAMESPACES, objects.namespace(OTHERS))
        site.create(kinds.LOCAL_QUEUES, objects.local_queue("main", OTHERS, cluster_queue=where))
    settings = Settings(
        cluster=Cluster(namespace=layout.secrets),
        dispatch=Dispatch(gc_interval=timedelta(), concurrency=at_once),
        retention=AT_ONCE,
    )
    pressure, counts = Pressure(), Counts()
    async with anyio.create_task_group() as tasks:
        await world.start(tasks)
        manager = world.add_manager(NAME, InForce(settings), observer=pressure)
        with counted(NAME, counts), _measured(pressure):
            await manager.begin(tasks).wait()
            await anyio.sleep(10)
            counts.clear()
            yield Play(world, pressure, counts)
        tasks.cancel_scope.cancel()


@contextmanager
def _measured(pressure: Pressure) -> Iterator[None]:
    add = WorkQueue.add

    def watched(queue: WorkQueue[Any], *arguments: Any) -> None:
        add(queue, *arguments)
        if process_now() == NAME:
            pressure.longest_queue = max(pressure.longest_queue, len(queue))

    with patch.object(WorkQueue, "add", watched):
        yield
