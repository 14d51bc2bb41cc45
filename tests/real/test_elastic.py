"""Elastic jobs with real workers: a batch Job changes its parallelism while it runs, standalone and beside a real Kueue."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.from_thread
import pytest

from testbed import objects
from testbed.bed import Testbed
from testbed.client import Kind, eventually
from testbed.controllers import GARBAGE, JOBS, ControllerManager
from testbed.objects import JOB, WORKLOAD, Object
from tests.real.harness import Manager, Team, complaints, team
from tests.real.neighbours import CORE, Neighbourhood, neighbourhood
from tests.real.skipping import needs_testbed

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    needs_testbed("workers whose Kueue has a feature gate on, and whose Jobs have pods"),
]

POD = Kind("v1", "Pod")
ELASTIC = "kueue.x-k8s.io/elastic-job"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
REPLACED = ("WorkloadSliceReplaced", "OutOfSync")
"""Kueue ends a slice by either: by the second where it sees the new size of the job before the new slice is admitted."""
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GATE = {"ElasticJobsViaWorkloadSlices": True}
BESIDE: Object = {**CORE, "feature_gates": {**CORE["feature_gates"], **GATE}}
SETTINGS = {"INTEGRATIONS__ELASTIC_JOBS": "true"}
MARKS = itertools.count()


@asynccontextmanager
async def elastic_workers(bed: Testbed) -> AsyncIterator[None]:
    """Kueue of all workers with its feature gate on, and Kubernetes' own controller of Jobs there, which makes pods."""
    made: list[ControllerManager] = []
    try:
        for plane in bed.workers:
            await bed.start_kueue(plane, frameworks=bed.plan.frameworks, feature_gates=GATE)
            made.append(ControllerManager(plane, [JOBS, GARBAGE]))
            await made[-1].start()
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for each in made:
                await each.kill()
            for plane in bed.workers:
                options = {"configuration": bed.plan.worker_configuration, "frameworks": bed.plan.frameworks}
                await bed.start_kueue(plane, **options)


@pytest.fixture(scope="module")
def elastic(bed: Testbed) -> Iterator[Testbed]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(elastic_workers(bed)),
    ):
        yield bed


@asynccontextmanager
async def elsewhere(members: Team) -> AsyncIterator[None]:
    """The flavors of the workers lead to other nodes than that of the manager cluster: a slice that is made of a job that runs
    has the latter's demands."""
    places = [(members.manager, "at-home"), *((client, "on-the-worker") for client in members.clients.values())]
    try:
        for client, pool in places:
            await client.patch(objects.RESOURCE_FLAVOR, "default", {"spec": {"nodeLabels": {"example.com/pool": pool}}})
        yield
    finally:
        with anyio.CancelScope(shield=True):
            for client, _ in places:
                await client.patch(objects.RESOURCE_FLAVOR, "default", {"spec": {"nodeLabels": None}})


@pytest.fixture(params=["standalone", "beside Kueue"])
async def crew(elastic: Testbed, request: pytest.FixtureRequest) -> AsyncIterator[Team]:
    async with AsyncExitStack() as stack:
        home: Testbed | Neighbourhood = elastic
        if request.param == "standalone":
            manager = await stack.enter_async_context(Manager(elastic, **SETTINGS).running())  # type: ignore[arg-type]
        else:
            home = await stack.enter_async_context(neighbourhood(elastic))
            found = await home.arrange(BESIDE, "dispatch", **SETTINGS)
            assert found is not None
            manager = found
        try:
            members = await stack.enter_async_context(team(home))  # type: ignore[arg-type]  # all that a team needs
            await members.all_active(manager)
            async with elsewhere(members):
                yield members
        except BaseException as error:
            error.add_note(f"the manager's log ends with:\n{manager.tail()}")
            raise
        assert not complaints(manager)


async def running(crew: Team, parallelism: int) -> str:
    """A job of that size that runs; answers on which worker."""
    managed_by = objects.MULTIKUEUE_CONTROLLER
    body = objects.job("job", crew.namespace, parallelism=parallelism, completions=50, managed_by=managed_by)
    body["metadata"]["annotations"] = {ELASTIC: "true"}
    await crew.manager.create(body)
    await has_size(crew, parallelism)
    return await crew.runs_on()


async def scale(crew: Team, parallelism: int) -> None:
    await crew.manager.patch(JOB, "job", {"spec": {"parallelism": parallelism}}, crew.namespace)
    await has_size(crew, parallelism)


async def has_size(crew: Team, parallelism: int) -> None:
    """The job has so many pods that may run, and its status at home says so; one Workload has quota for them."""

    async def reached() -> bool:
        assert (await crew.job()).get("status", {}).get("active") == parallelism
        (workload,) = [w for w in await crew.manager.list(WORKLOAD, crew.namespace) if not ended(w)]
        assert workload["spec"]["podSets"][0]["count"] == parallelism
        assert all(check["state"] == "Ready" for check in workload["status"]["admissionChecks"])
        ((worker, job),) = (await crew.remote_jobs()).items()
        assert job["metadata"]["labels"][PREBUILT] == workload["metadata"]["name"]
        pods = [pod for pod in await crew.clients[worker].list(POD, crew.namespace) if not leaving(pod)]
        gated = [pod for pod in pods if pod["spec"].get("schedulingGates")]
        if gated:
            await news_of_pods(crew, worker)
        assert (len(pods), gated) == (parallelism, [])
        return True

    await eventually(reached, timeout=40)


def leaving(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


async def news_of_pods(crew: Team, worker: str) -> None:
    """Kueue takes the gates away when a Job changes, from the pods that its cache has by then. Where there are kubelets,
    the next news of any pod changes the Job; here a mark does."""
    mark = {"metadata": {"annotations": {"testbed/news": str(next(MARKS))}}}
    await crew.clients[worker].patch(JOB, "job", mark, crew.namespace)


def ended(workload: Object) -> str:
    finished = objects.condition(workload, "Finished")
    return str(finished["reason"]) if finished is not None and finished["status"] == "True" else ""


async def uids(crew: Team) -> dict[str, str]:
    return {worker: job["metadata"]["uid"] for worker, job in (await crew.remote_jobs()).items()}


async def test_a_job_scaled_down_goes_on_with_its_workload(crew: Team) -> None:
    await running(crew, 5)
    before, workload = await uids(crew), await crew.workload()
    for size in (4, 3, 1):
        await scale(crew, size)
    assert await uids(crew) == before
    (left,) = await crew.manager.list(WORKLOAD, crew.namespace)
    assert left["metadata"]["uid"] == workload["metadata"]["uid"]
    assert [ended(copy) for copy in (await crew.copies()).values()] == [""]


async def test_a_job_scaled_up_goes_on_as_another_slice_on_the_same_worker(crew: Team) -> None:
    where = await running(crew, 2)
    before, workload = await uids(crew), await crew.workload()
    await scale(crew, 4)
    assert await uids(crew) == before
    old, new = sorted(await crew.manager.list(WORKLOAD, crew.namespace), key=lambda w: not ended(w))
    assert old["metadata"]["uid"] == workload["metadata"]["uid"]
    assert ended(old) in REPLACED
    assert new["metadata"]["annotations"][REPLACES] == f"{crew.namespace}/{old['metadata']['name']}"
    assert crew.worker_of(new["status"]["clusterName"]) == where
    copies = await crew.clients[where].list(WORKLOAD, crew.namespace)
    running_copy, replaced_copy = sorted(map(ended, copies))
    assert (running_copy, replaced_copy in REPLACED) == ("", True)


async def test_it_goes_up_and_down_and_nothing_is_left_of_it(crew: Team) -> None:
    await running(crew, 1)
    before = await uids(crew)
    for size in (3, 2, 6, 5, 1, 4):
        await scale(crew, size)
    assert await uids(crew) == before
    await crew.manager.delete(JOB, "job", crew.namespace)

    async def nothing() -> bool:
        assert not await crew.manager.list(WORKLOAD, crew.namespace)
        for client in crew.clients.values():
            assert not await client.list(WORKLOAD, crew.namespace)
            assert not await client.list(JOB, crew.namespace)
        return True

    await eventually(nothing, timeout=40)
