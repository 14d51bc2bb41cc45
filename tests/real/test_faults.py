"""Workers that go away at the worst of moments, and come back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from testbed import objects
from testbed.bed import Testbed, unique
from testbed.client import eventually
from testbed.kubeconfig import dump
from testbed.objects import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG
from testbed.plane import ControlPlane
from tests.real.harness import Manager, Starts, Team, starts, team
from tests.real.skipping import needs_programs

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("calm"),
]

MODES = ("hang", "blackhole", "reset", "refuse")


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    """The absence of a worker is shown after 3 s, and none is lost while a test has to be quick to bring it back."""
    return {
        "DISPATCH__WORKER_LOST_TIMEOUT": "10m",
        "DISPATCH__HEARTBEAT_INTERVAL": "500ms",
        "TIMINGS__SUSPECT_AFTER": "1s",
        "TIMINGS__ISOLATE_AFTER": "3s",
        "TIMINGS__RECONNECT_CAP": "2s",
    }


@pytest.fixture
async def started(crew: Team) -> AsyncIterator[Starts]:
    async with starts(crew) as record:
        yield record


@pytest.fixture
async def impatient(crew: Team, manager: Manager) -> AsyncIterator[None]:
    """A worker counts as lost soon after its absence is shown."""
    async with manager.reborn(DISPATCH__WORKER_LOST_TIMEOUT="8s"):
        await manager.ready()
        yield


@pytest.fixture
async def unmoved(crew: Team, manager: Manager) -> AsyncIterator[None]:
    """No moment of trouble is so long that it is shown, though the machine may stop in it."""
    async with manager.reborn(TIMINGS__ISOLATE_AFTER="30s"):
        await manager.ready()
        yield


# A worker is away, and what it is asked for waits.


@pytest.mark.parametrize("mode", MODES)
async def test_a_worker_away_before_dispatch_is_left_out_until_it_is_back(crew: Team, mode: str) -> None:
    getattr(crew.links["worker1"], mode)()
    await crew.active("worker1", status="False")
    await crew.stop("worker2", "worker3")
    await crew.submit()
    await crew.waiting(2)
    assert set((await crew.workload())["status"]["nominatedClusterNames"]) == {
        crew.cluster("worker2"),
        crew.cluster("worker3"),
    }
    crew.links["worker1"].ok()
    assert await crew.winner() == "worker1"  # nobody else would take it, so it comes back into play by itself
    await crew.active("worker1")


@pytest.mark.parametrize("mode", MODES)
async def test_a_worker_away_for_less_than_the_timeout_keeps_its_job_and_brings_its_result(
    crew: Team, started: Starts, mode: str
) -> None:
    await crew.submit()
    worker = await started.first()
    await eventually(lambda: crew.is_true("Admitted"))
    getattr(crew.links[worker], mode)()
    await crew.complete(worker)  # it ends while nobody can see it
    await crew.active(worker, status="False")
    assert not (await crew.workload())["status"].get("schedulingStats")
    crew.links[worker].ok()
    done = await crew.finished()
    assert done["status"]["succeeded"] == 1
    assert list((await started.settled()).runs["job"].values()) == [worker]


@pytest.mark.usefixtures("unmoved")
async def test_a_moment_of_trouble_evicts_nothing_and_is_not_shown(crew: Team, started: Starts) -> None:
    await crew.submit()
    worker = await started.first()
    await eventually(lambda: crew.is_true("Admitted"))
    before = await crew.active(worker)
    for mode in MODES:
        getattr(crew.links[worker], mode)()
        await anyio.sleep(1)
        crew.links[worker].ok()
        await anyio.sleep(1.5)
    await crew.complete(worker)
    await crew.finished()
    assert not (await crew.workload())["status"].get("schedulingStats")
    assert await crew.active(worker) == before
    assert not (await started.settled()).twice()


async def test_an_answer_lost_while_the_job_is_made_starts_nothing_twice(crew: Team, started: Starts) -> None:
    for link in crew.links.values():
        link.latency(0.5)
    await crew.submit()
    worker = await started.seen()
    # The job is there, and the answer that says so is still on its way, unless this machine was very slow just now.
    crew.links[worker].mute()
    for other in crew.links.keys() - {worker}:
        crew.links[other].ok()
    await crew.active(worker, status="False")
    assert (await crew.remote_jobs()).keys() == {worker}
    crew.links[worker].drop()
    crew.links[worker].ok()
    assert await crew.winner() == worker
    await crew.complete(worker)
    await crew.finished()
    assert list((await started.settled()).runs["job"].values()) == [worker]


@pytest.mark.usefixtures("impatient")
async def test_an_answer_that_never_comes_is_given_up_with_its_worker(crew: Team, started: Starts) -> None:
    for link in crew.links.values():
        link.latency(0.5)
    await crew.submit()
    first = await started.seen()
    crew.links[first].mute()
    for other in crew.links.keys() - {first}:
        crew.links[other].ok()
    second = (await started.times(2))[1]
    assert second != first
    assert await crew.winner() == second
    crew.links[first].drop()
    crew.links[first].ok()
    await eventually(lambda: _is_only_on(crew, second), timeout=30)
    await crew.complete(second)
    await crew.finished()
    assert list((await started.settled()).runs["job"].values()) == [first, second]


async def _is_only_on(crew: Team, worker: str) -> bool:
    return (await crew.remote_jobs()).keys() == {worker} and (await crew.copies()).keys() == {worker}


# The manager dies as well.


@pytest.mark.timeout(240)
async def test_a_restart_does_not_set_the_clock_of_a_lost_worker_back(
    crew: Team, started: Starts, manager: Manager
) -> None:
    """Some of the time passes while nobody is there who could count. What is left is more than the minute that each worker has
    after a start."""
    timeout, nobody = 90, 15
    async with manager.reborn(DISPATCH__WORKER_LOST_TIMEOUT=f"{timeout}s"):
        await manager.ready()
        await crew.submit()
        first = await started.first()
        await eventually(lambda: crew.is_true("Admitted"))
        lost = time.monotonic()
        crew.links[first].reset()
        await crew.active(first, status="False")
        manager.kill()
        await anyio.sleep(lost + nobody - time.monotonic())
        again = time.monotonic()
        manager.start()
        await manager.ready()
        await eventually(lambda: _is_evicted(crew), timeout=2 * timeout)
        evicted = time.monotonic()
        assert evicted - lost >= timeout
        assert evicted - again < timeout
        second = (await started.times(2))[1]
        crew.links[first].ok()
        await crew.complete(second)
        await crew.finished()
        assert list((await started.settled()).runs["job"].values()) == [first, second]


async def _is_evicted(crew: Team) -> bool:
    return bool((await crew.workload())["status"].get("schedulingStats"))


async def test_a_restart_while_a_nominated_worker_is_away_makes_no_second_job(
    crew: Team, started: Starts, manager: Manager
) -> None:
    """The job was made there, the manager died before it was told, and the next process cannot see that worker."""
    for link in crew.links.values():
        link.latency(0.5)
    await crew.submit()
    worker = await started.seen()
    manager.kill()
    for link in crew.links.values():
        link.ok()
    crew.links[worker].refuse()
    manager.start()
    await manager.ready()
    await anyio.sleep(1)
    crew.links[worker].ok()
    assert await crew.winner() == worker
    await crew.complete(worker)
    await crew.finished()
    assert list((await started.settled()).runs["job"].values()) == [worker]


@needs_programs("nobody on its workers collects what a deleted job leaves behind")
async def test_a_job_whose_copy_is_deleted_before_its_last_status_came_home_ends(crew: Team, manager: Manager) -> None:
    """Somebody cleans up on the worker while nobody looks; the workload's copy still says how the job ended."""
    await crew.submit()
    worker = await crew.runs_on()
    await eventually(lambda: crew.is_true("Admitted"))
    manager.kill()
    await crew.complete(worker)
    await eventually(lambda: _copy_is_finished(crew, worker))
    await crew.clients[worker].delete(objects.JOB, "job", crew.namespace)
    manager.start()
    await manager.ready()
    done = await crew.finished()
    assert objects.condition(done, "Complete") is not None
    assert await crew.is_true("Finished")


async def _copy_is_finished(crew: Team, worker: str) -> bool:
    copy = (await crew.copies()).get(worker)
    return copy is not None and objects.condition(copy, "Finished") is not None


# The API server itself ends.


async def test_an_api_server_that_is_killed_and_restarted_in_time_keeps_its_jobs(
    bed: Testbed, manager: Manager
) -> None:
    async with team(bed) as crew, starts(crew) as started:
        await crew.all_active(manager)
        names = [f"job{number:02d}" for number in range(12)]
        await crew.submit_all(names[:6])
        for name in names[:6]:
            await crew.winner(name)
        sick = await crew.winner(names[0])
        async with _killed(bed, sick):
            await crew.submit_all(names[6:])
            others = {await crew.winner(name) for name in names[6:]}
            assert sick not in others
            await crew.active(sick, status="False", timeout=40)
        await crew.active(sick, timeout=60)
        for name in names:
            await crew.complete(await started.first(name), name)
        assert set((await crew.all_over()).values()) == {"Complete"}
        assert not (await started.settled()).twice()


@pytest.mark.usefixtures("impatient")
async def test_an_api_server_that_is_back_too_late_finds_its_job_taken_away(crew: Team, started: Starts) -> None:
    await crew.submit()
    first = await started.first()
    await eventually(lambda: crew.is_true("Admitted"))
    async with _killed(crew.bed, first):
        second = (await started.times(2, timeout=60))[1]
        assert await crew.winner() == second != first
    await eventually(lambda: _is_only_on(crew, second), timeout=60)
    await crew.complete(second)
    await crew.finished()
    assert list((await started.settled()).runs["job"].values()) == [first, second]


@asynccontextmanager
async def _killed(bed: Testbed, worker: str) -> AsyncIterator[None]:
    """Without its API server. Its Kueue starts over after that: by itself it would take its time to connect again."""
    await bed.planes[worker].kill()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await bed.planes[worker].restart()
            await bed.kueues[worker].kill()
            await bed.kueues[worker].restart()


# A worker lacks what we need.


async def test_a_cluster_without_kueue_says_so_and_costs_the_others_nothing(crew: Team, bed: Testbed) -> None:
    async with _bare_plane(bed) as plane:
        name = f"{crew.namespace}-bare"
        await crew.manager.apply(objects.kubeconfig_secret(name, dump(plane.kubeconfig())))
        await crew.manager.apply(objects.multikueue_cluster(name, secret=name))
        clusters = [name, *(crew.cluster(worker) for worker in crew.links)]
        await crew.manager.apply(objects.multikueue_config(crew.namespace, clusters=clusters))
        try:
            await crew.submit()
            assert await crew.winner() in crew.links
            await crew.active("bare", status="False", message="the server has no kind Workload")
        finally:
            await crew.manager.delete(MULTIKUEUE_CLUSTER, name)
            await crew.manager.delete(MULTIKUEUE_CONFIG, crew.namespace)


@asynccontextmanager
async def _bare_plane(bed: Testbed) -> AsyncIterator[ControlPlane]:
    """A cluster as it comes: no Kueue, not even its CRDs."""
    plane = await bed.start_plane(unique("bare"), crds=())
    try:
        yield plane
    finally:
        with anyio.CancelScope(shield=True):
            await plane.kill()
