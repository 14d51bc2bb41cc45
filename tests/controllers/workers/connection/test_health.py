"""What becomes of a worker that has trouble."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from itertools import cycle
from typing import Any

import anyio
import pytest

from fakekube.model.wire import Request
from multikueue.api import kinds
from multikueue.controllers.workers.connection.health import HEARTBEAT, Health
from multikueue.dispatch.remote import Reach
from multikueue.errors import ClusterUnreachable
from multikueue.runtime import run_controller
from multikueue.settings import Timings
from multikueue.store.workers.worker import WorkerView
from multikueue.testing import NOW
from multikueue_simulator.time import VirtualLoop
from tests.cluster import Cluster
from tests.controllers.table import Table, table
from tests.controllers.workers.connection.line import TIMINGS

pytestmark = pytest.mark.anyio


def health(timings: Timings = TIMINGS) -> tuple[Health, WorkerView, list[str]]:
    """With what it failed of."""
    worker, failures = WorkerView("w1"), list[str]()
    return Health(worker, timings, lambda: NOW, lambda: failures.append(worker.why), anyio.Event()), worker, failures


async def test_trouble_is_suspect_then_isolated_and_over_at_once() -> None:
    state, worker, failures = health()
    async with anyio.create_task_group() as tasks:
        state.begin(tasks, {HEARTBEAT: "not connected yet"})
        assert state.is_silent
        state.report(HEARTBEAT, "")
        assert state.is_whole
        assert state.contact.is_set()
        assert worker.link.reach is Reach.CONNECTED
        state.report(HEARTBEAT, "no answer")
        with anyio.fail_after(5):
            while worker.link.reach is not Reach.ISOLATED:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        assert (worker.why, len(failures)) == ("no answer", 1)
        state.report(HEARTBEAT, "")
        assert (worker.link.reach, worker.link.since, worker.why) == (Reach.CONNECTED, None, "")


async def test_a_moment_of_trouble_is_not_shown() -> None:
    patient = Timings(suspect_after=timedelta(seconds=30), isolate_after=timedelta(seconds=60))
    state, worker, _ = health(patient)
    async with anyio.create_task_group() as tasks:
        state.begin(tasks, {})
        state.report("workloads", "reset")
        await anyio.wait_all_tasks_blocked()
        assert worker.link.reach is Reach.CONNECTED
        assert not state.is_silent
        state.report("workloads", "")
        await anyio.wait_all_tasks_blocked()
        assert worker.link.reach is Reach.CONNECTED


async def test_a_connection_that_ends_leaves_its_worker_suspect() -> None:
    state, worker, _ = health()
    state.end("the connection ended")
    assert worker.why == "not connected yet"
    worker.connected()
    state.end("the connection ended")
    assert (worker.link.reach, worker.link.since, worker.why) == (Reach.SUSPECT, NOW, "the connection ended")


async def test_trouble_that_ends_just_as_its_time_is_over_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sleep is over, and so nothing is left to cancel."""
    state, worker, _ = health()

    async def ends_with_the_sleep(_seconds: float) -> None:
        state.report(HEARTBEAT, "")

    monkeypatch.setattr(anyio, "sleep", ends_with_the_sleep)
    async with anyio.create_task_group() as tasks:
        state.begin(tasks, {HEARTBEAT: "not connected yet"})
    assert worker.link.reach is Reach.CONNECTED


CALL_TIMEOUT, SLOTS = 10.0, 12


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualLoop}


class Link:
    """Between us and a worker: calls take so many seconds in turn, or get no answer while it `hangs`."""

    def __init__(self, cluster: Cluster, *latencies: float) -> None:
        self.cluster, self.latencies, self.hangs = cluster, cycle(latencies or (0.005,)), False
        self._arrive = cluster.api.before
        cluster.api.before = self._carry

    async def _carry(self, request: Request) -> None:
        await anyio.sleep(CALL_TIMEOUT if self.hangs else next(self.latencies))
        if self.hangs:
            raise ClusterUnreachable(self.cluster.name, "no answer in time")
        await self._arrive(request)


@asynccontextmanager
async def at_work(world: Table, *, admitting: tuple[str, ...] = ()) -> AsyncIterator[None]:
    """The loops of the manager as tasks, for as long as the block lasts; those workers admit what comes."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_admit, world, admitting)
        for loop in world.runnables.loops:
            tasks.start_soon(loop.run, world.world.metrics)
        for name, outbox in world.outboxes.items():
            queue = world.queues.outboxes[name]
            tasks.start_soon(partial(run_controller, name, queue, outbox.reconcile, workers=SLOTS))
        yield
        tasks.cancel_scope.cancel()


async def _admit(world: Table, workers: tuple[str, ...]) -> None:
    while True:
        await anyio.sleep(0.05)
        for name in (body["metadata"]["name"] for body in world.manager.all(kinds.JOBS)):
            for worker in set(workers) & set(world.copies(name)):
                if "status" not in (world.workers[worker].find(kinds.WORKLOADS, world.key(name)) or {}):
                    world.admit(worker, name)


async def admitted_on_all(jobs: int) -> tuple[Table, list[str]]:
    """So many jobs that every worker has admitted, w3 first; nobody was asked for one of them yet."""
    world, names = table(), [f"job{number}" for number in range(jobs)]
    for name in names:
        world.submit(name)
    await world.settle()
    for worker in ("w3", "w1", "w2"):
        for name in names:
            world.admit(worker, name)
        world.time += timedelta(seconds=1)
    return world, names


async def test_a_worker_that_falls_silent_in_a_burst_costs_the_others_a_second() -> None:
    world, names = await admitted_on_all(24)
    link, alarms = Link(world.workers["w3"]), []
    link.hangs = True
    world.outboxes["w3"].breaker.alarm = lambda: alarms.append(anyio.current_time())
    began = anyio.current_time()
    async with at_work(world, admitting=("w1", "w2")):
        await anyio.sleep(1.2)
    made = [name for name in names if world.runs_on(name)]
    assert len(made) == len(names) - SLOTS
    assert not any("w3" in world.runs_on(name) for name in names)
    assert alarms == [pytest.approx(began + 1)]


async def test_what_a_silent_worker_may_have_made_is_made_nowhere_else() -> None:
    world, names = await admitted_on_all(SLOTS)
    Link(world.workers["w3"]).hangs = True
    async with at_work(world, admitting=("w1", "w2")):
        await anyio.sleep(15)
    assert not any(world.runs_on(name) for name in names)


async def test_a_worker_that_is_slow_for_a_moment_wins_again_after_its_sign_of_life() -> None:
    world, names = await admitted_on_all(24)
    Link(world.workers["w3"], 1.1)
    outbox, alarms = world.outboxes["w3"], []

    def sign_of_life() -> None:
        alarms.append(anyio.current_time())
        outbox.breaker.trust()

    outbox.breaker.alarm = sign_of_life
    async with at_work(world):
        await anyio.sleep(10)
    assert alarms
    assert all(world.runs_on(name) == ["w3"] for name in names)


async def test_a_worker_that_answers_late_and_yet_answers_is_not_silent() -> None:
    world, _ = await admitted_on_all(24)
    alarms = []
    link = Link(world.workers["w3"], 0.9, 3.0, 1.8, 2.7)
    world.outboxes["w3"].breaker.alarm = lambda: alarms.append(anyio.current_time())
    async with at_work(world):
        await anyio.sleep(2.95)
        assert alarms == []
        link.hangs, began = True, anyio.current_time()
        await anyio.sleep(5)
    assert len(alarms) == 1, "from then on it is"
    assert began < alarms[0] <= began + 1
