"""What a tenant may do at worst beside an innocent job. `make hostile` plays much more of it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import anyio
import pytest

from multikueue.api.kinds import JOBS
from multikueue.api.meta import ObjectMeta
from multikueue.jobs.framework.workloads import workload_name
from testbed import objects
from testbed.client import ApiError, Kind, eventually
from testbed.objects import JOB, WORKLOAD, Object
from tests.real.harness import Manager, Team, played
from tests.real.skipping import SIMULATED

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120)]

DIGITS = "9" * 5000
Make = Callable[[str], Object]


@pytest.fixture(autouse=True)
def alive(manager: Manager) -> Iterator[None]:
    """Whatever a test does, the process that began it goes on."""
    yield
    assert manager.alive, "the manager has ended"


def odd_job(namespace: str, **more: object) -> Object:
    return objects.job("odd", namespace, managed_by=objects.MULTIKUEUE_CONTROLLER, **more)  # type: ignore[arg-type]


def odd_workload(namespace: str, *, name: str = "odd", cpu: str = "100m") -> Object:
    """A Workload that somebody makes by hand."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    pods = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queueName": "main", "podSets": [pods]},
    }


async def an_innocent_job_runs(crew: Team, name: str = "innocent") -> None:
    """From its beginning to its end."""
    async with played(crew):
        await crew.submit(name)
        await crew.finished(name)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda namespace: odd_job(namespace, requests={"cpu": DIGITS}), id="a Job, 5,000 digits"),
        pytest.param(lambda namespace: odd_job(namespace, requests={"cpu": "1e10000000"}), id="a Job, 1e10000000"),
        pytest.param(lambda namespace: odd_workload(namespace, cpu=DIGITS), id="a Workload, 5,000 digits"),
        pytest.param(lambda namespace: odd_workload(namespace, cpu="1e999999999"), id="a Workload, 1e999999999"),
    ],
)
async def test_a_quantity_without_measure_costs_nobody_else_anything(crew: Team, make: Make) -> None:
    body = await crew.manager.create(make(crew.namespace))
    try:
        await an_innocent_job_runs(crew)
    finally:
        await crew.manager.delete(Kind(body["apiVersion"], body["kind"]), "odd", crew.namespace)


@pytest.mark.skipif(SIMULATED, reason="needs a real API server: a simulated one reads no deeper than Python")
@pytest.mark.parametrize("queue", ["main", None], ids=["in a queue", "in none"])
@pytest.mark.parametrize("depth", [1_500, 9_990])
async def test_a_job_too_deep_to_be_read_costs_nobody_else_anything(crew: Team, queue: str | None, depth: int) -> None:
    body = odd_job(crew.namespace, queue=queue)
    fields = {"manager": "m", "operation": "Update", "apiVersion": "batch/v1", "fieldsType": "FieldsV1"}
    body["metadata"]["managedFields"] = [{**fields, "time": "2026-01-01T00:00:00Z", "fieldsV1": "DEEP"}]
    nested = '{"f:a":' * depth + "{}" + "}" * depth
    path = f"/apis/batch/v1/namespaces/{crew.namespace}/jobs"
    await crew.manager.request("POST", path, body=json.dumps(body).replace('"DEEP"', nested).encode())
    try:
        async with played(crew):
            await crew.submit("innocent")
            await eventually(lambda: _is_complete(crew, "innocent"), timeout=40)
    finally:  # nobody else can list the jobs here as long as it is there
        await crew.manager.request("DELETE", f"{path}/odd", body={"propagationPolicy": "Background"})


async def test_of_two_jobs_for_which_one_name_is_left_both_run(crew: Team) -> None:
    """As two long names do that share all that is kept of them."""
    long = f"{'x' * 53}-1"
    made = await crew.submit(long, queue=None)
    taken = workload_name(JOBS, ObjectMeta(name=long, uid=made["metadata"]["uid"]))
    await crew.manager.create(odd_workload(crew.namespace, name=taken))
    async with played(crew):
        labels = {objects.QUEUE_LABEL: "main"}
        await crew.manager.patch(JOB, long, {"metadata": {"labels": labels}}, crew.namespace)
        await crew.finished(long)


async def test_an_evicted_job_runs_again_beside_one_that_is_patched_without_pause(crew: Team) -> None:
    """Retries and timers have their turn, whoever is busy."""
    await crew.submit("busy", queue="nowhere")
    await crew.submit("innocent")
    worker = await crew.runs_on("innocent")
    await eventually(lambda: crew.is_true("Admitted", "innocent"))
    async with patched(crew, "busy"):
        await crew.clients[worker].delete(JOB, "innocent", crew.namespace)
        await eventually(lambda: _was_evicted(crew, "innocent"), timeout=40)
        await crew.complete(await crew.runs_on("innocent"), "innocent")
        await crew.finished("innocent")


@asynccontextmanager
async def patched(crew: Team, name: str) -> AsyncIterator[None]:
    """A job that somebody patches, again and again, in several lanes."""

    async def lane(number: int) -> None:
        count = 0
        while True:
            count += 1
            with contextlib.suppress(ApiError):
                patch = {"metadata": {"annotations": {f"lane{number}": str(count)}}}
                await crew.manager.patch(JOB, name, patch, crew.namespace)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(lane, number)
        yield
        tasks.cancel_scope.cancel()


async def _is_complete(crew: Team, name: str) -> bool:
    body = await crew.job(name)
    complete = objects.condition(body, "Complete")
    return complete is not None and complete["status"] == "True"


async def _was_evicted(crew: Team, name: str) -> bool:
    return bool((await crew.workload(name)).get("status", {}).get("schedulingStats"))
