"""Objects that cannot be read, through all controllers at once."""

from __future__ import annotations

from typing import Any

import pytest

from multikueue.api import kinds
from multikueue.api.jobs.job import JobKey
from multikueue.api.meta import ObjectKey
from tests.controllers.table import NAMESPACE, job_body, table
from tests.controllers.workloads.main_job import running

pytestmark = pytest.mark.anyio


# What is there and cannot be read is neither gone nor done.
async def test_a_workload_that_cannot_be_read_keeps_its_running_job() -> None:
    world = await running()
    world.start()
    local = world.store.workloads.get(world.key())
    assert local is not None
    world.store.workloads.remove(local)
    world.store.workloads.unreadable[world.key()] = "odd"
    for cluster in world.workers.values():
        cluster.calls.clear()
    world.queues.workloads.add(world.key())
    for outbox in world.queues.outboxes.values():
        outbox.add(world.key())
    await world.settle()
    assert [cluster.calls for cluster in world.workers.values()] == [[], [], []]
    assert world.runs_on() == ["w1"]


async def test_a_job_that_runs_here_goes_on_while_its_workload_cannot_be_read() -> None:
    world = table()
    world.manager.change(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"), {"spec": {"admissionChecksStrategy": None}})
    world.manager.put(kinds.JOBS, job_body("job", managed=False))
    await world.settle()
    key, name = ObjectKey(NAMESPACE, "job"), world.key()
    assert (world.manager.find(kinds.JOBS, key) or {})["spec"]["suspend"] is False
    world.start()
    local = world.store.workloads.get(name)
    assert local is not None
    world.store.workloads.remove(local)
    world.store.workloads.unreadable[name] = "odd"
    world.manager.calls.clear()
    world.queues.jobs.add(JobKey("Job.batch", *key))
    await world.settle()
    assert world.manager.writes() == []
    assert (
        "WorkloadUnreadable",
        f"the Workload {name.name}, which may be the job's, cannot be read: odd",
    ) in world.said()


async def test_a_job_that_is_nested_too_deeply_to_be_compared_says_so_and_others_go_on() -> None:
    world, deep = table(), dict[str, Any]()
    for _ in range(600):
        deep = {"a": deep}
    body = job_body("deep")
    body["spec"]["template"]["spec"]["affinity"] = deep
    world.manager.put(kinds.JOBS, body)
    world.submit()
    await world.settle()
    assert world.said() == [("Unreadable", "it is nested too deeply")]
    assert world.copies() == ["w1", "w2", "w3"]


async def test_a_remote_job_that_cannot_be_read_is_not_taken_for_gone() -> None:
    world = await running()
    worker = world.store.worker("w1")
    (job,) = worker.jobs
    worker.jobs.of(kinds.JOBS).unreadable[job.key] = "odd"
    worker.jobs.remove(job)
    world.queues.workloads.add(world.key())
    await world.settle()
    (check,) = world.status()["admissionChecks"]
    assert check["state"] == "Ready"
    assert world.runs_on() == ["w1"]
