"""A job on a worker that was left out of the caches, since nothing here knew it, and the workload it turns out to be of."""

from __future__ import annotations

import pytest

from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectKey
from multikueue.errors import ServerError
from multikueue.store.caches import unknown_objects
from tests.cluster import Fault
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio


def _fine(_verb: str, _plural: str) -> None:
    """No fault."""


def _fails(failing: str) -> Fault:
    """Each call of one verb fails."""
    return lambda verb, _: ServerError(500, "InternalError", "later") if verb == failing else None


async def started_untold(monkeypatch: pytest.MonkeyPatch) -> Table:
    """A process has started a job on w2, and could not record this. The next one sees the workers' objects before its
    own, and leaves them all out."""
    world = table()
    world.submit()
    await world.settle()
    world.manager.fault = _fails("patch")
    world.admit("w2")
    await world.settle()
    world.manager.fault = _fine
    assert world.runs_on() == ["w2"]
    assert "clusterName" not in world.status()
    monkeypatch.setattr(unknown_objects, "MOST", 0)
    world.workers["w2"].fault = _fails("get")
    world.start()
    assert list(world.store.worker("w2").jobs) == []
    await world.settle()
    world.admit("w1")
    await world.settle()
    return world


async def test_a_workload_does_not_start_beside_its_job_that_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = await started_untold(monkeypatch)
    assert world.runs_on() == ["w2"]
    world.workers["w2"].fault = _fine
    world.queues.outboxes["w2"].add(world.key())
    await world.settle()
    assert world.runs_on() == ["w2"]
    assert world.status()["clusterName"] == "w2"


async def test_a_workload_starts_elsewhere_once_its_job_that_was_left_out_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await started_untold(monkeypatch)
    (job,) = world.workers["w2"].all(JOBS)
    world.workers["w2"].drop(JOBS, ObjectKey(job["metadata"]["namespace"], job["metadata"]["name"]))
    assert world.runs_on() == []
    world.workers["w2"].fault = _fine
    world.queues.outboxes["w2"].add(world.key())
    await world.settle()
    assert world.runs_on() == ["w1"]
