"""What becomes of a worker that has trouble."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from multikueue.controllers.workers.connection.health import HEARTBEAT, Health
from multikueue.dispatch.remote import Reach
from multikueue.settings import Timings
from multikueue.store.workers.worker import WorkerView
from multikueue.testing import NOW
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
