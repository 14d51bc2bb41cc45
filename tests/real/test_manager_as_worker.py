"""The manager cluster as a worker of its own queue: a job runs there or on a worker, by the flavor that gives it quota."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from multikueue.api.kueue.queues import MANAGER_TOO_ANNOTATION
from testbed import objects
from testbed.bed import Testbed
from testbed.client import eventually
from testbed.controllers import JOBS, SERVICE_ACCOUNTS, ControllerManager
from testbed.jobs import complete_job
from testbed.objects import CLUSTER_QUEUE, JOB, RESOURCE_FLAVOR, Object
from tests.real.harness import Manager, Team
from tests.real.skipping import needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("calm", "job_controller"),
    needs_testbed("a Job controller of the manager cluster"),
]


@pytest.fixture
async def job_controller(bed: Testbed) -> AsyncIterator[None]:
    """Kubernetes' own writes the status of jobs that are not managed by somebody else, so also of those on workers."""
    made = ControllerManager(bed.manager, {JOBS, SERVICE_ACCOUNTS})
    await made.start()
    yield
    await made.stop()


async def places(crew: Team, *, here: str) -> None:
    """The queue has so many cores on the manager cluster, and then those of its workers."""
    flavor = f"here-{crew.namespace}"
    if await crew.manager.find(RESOURCE_FLAVOR, flavor) is None:
        await crew.manager.create(objects.resource_flavor(flavor, node_labels={"pool": "here"}))
    body = await crew.manager.get(CLUSTER_QUEUE, crew.namespace)
    (group,) = body["spec"]["resourceGroups"]
    there = group["flavors"][-1]
    quotas = [{"name": name, "nominalQuota": here if name == "cpu" else "10Gi"} for name in group["coveredResources"]]
    group["flavors"] = [{"name": flavor, "resources": quotas}, there]
    checks = {"admissionChecks": [{"name": crew.namespace, "onFlavors": [there["name"]]}]}
    await crew.manager.patch(
        CLUSTER_QUEUE,
        crew.namespace,
        {
            "metadata": {"annotations": {MANAGER_TOO_ANNOTATION: "true"}},
            "spec": {"resourceGroups": [group], "admissionChecksStrategy": checks},
        },
    )


async def submit(crew: Team, name: str) -> None:
    await crew.manager.create(objects.job(name, crew.namespace, requests={"cpu": "1", "memory": "100Mi"}))


async def runs_here(crew: Team, name: str) -> Object:
    async def started() -> Object | None:
        body = await crew.job(name)
        return None if body["spec"]["suspend"] else body

    return await eventually(started)


async def test_a_job_runs_here_or_on_a_worker_and_ends_the_same_way(crew: Team, manager: Manager) -> None:
    await places(crew, here="1")
    await submit(crew, "first")
    body = await runs_here(crew, "first")
    assert body["spec"]["template"]["spec"]["nodeSelector"] == {"pool": "here"}
    await submit(crew, "second")
    worker = await crew.runs_on("second")
    assert (await crew.job("second"))["spec"]["suspend"] is True
    assert await crew.copies("first") == {}
    manager.kill()
    manager.start()
    await manager.ready()
    await crew.complete(worker, "second")
    done = await crew.finished("second")
    await crew.manager.patch(JOB, "second", {"metadata": {"annotations": {"looked-at": "again"}}}, crew.namespace)
    await complete_job(crew.manager, crew.namespace, "first")
    await crew.finished("first")
    assert (await crew.job("second"))["status"] == done["status"]
    assert done["status"]["succeeded"] == 1


async def test_what_its_worker_evicts_may_run_here_next(crew: Team) -> None:
    await places(crew, here="0")
    await submit(crew, "job")
    worker = await crew.runs_on()
    await places(crew, here="1")
    await crew.stop(worker, policy="HoldAndDrain")
    await runs_here(crew, "job")
    await crew.clean("job")
    assert "clusterName" not in (await crew.workload())["status"]


async def test_whoever_starts_it_here_too_is_stopped(crew: Team) -> None:
    await places(crew, here="0")
    await submit(crew, "job")
    worker = await crew.runs_on()
    await crew.manager.patch(JOB, "job", {"spec": {"suspend": False}}, crew.namespace)

    async def is_held() -> bool:
        return (await crew.job())["spec"]["suspend"] is True

    await eventually(is_held)
    assert await crew.runs_on() == worker
