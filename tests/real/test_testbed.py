"""The testbed does what it promises: real control planes, Kueue, misbehaving links, counted calls, and a clean end."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import anyio
import pytest

from fakekube.front_end.audit import Call
from testbed import objects, ocm
from testbed.bed import Testbed, unique
from testbed.client import ApiError, Client, Kind, eventually
from testbed.controllers import GARBAGE, JOBS, NAMESPACES
from testbed.jobs import complete_job, fail_job
from testbed.kueue import shipped_configuration
from testbed.objects import JOB, WORKLOAD
from testbed.plane import ControlPlane
from testbed.queues import manager_setup, workers_setup
from tests.real.skipping import needs_programs

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(180), needs_programs("this is its own test")]


@pytest.fixture(name="bed", scope="module")
async def _bed(anyio_backend: str) -> AsyncIterator[Testbed]:
    async with Testbed.start(workers=2, controllers={"worker2": [JOBS, GARBAGE, NAMESPACES]}) as bed:
        yield bed


@pytest.fixture(name="namespace")
async def _namespace(bed: Testbed) -> str:
    name = unique("team")
    await workers_setup(bed.workers, namespace=name)
    return name


async def _start_of(client: Client, namespace: str, name: str) -> bool:
    body = await client.get(JOB, name, namespace)
    return body["spec"]["suspend"] is False


async def _is_finished(client: Client, namespace: str) -> bool:
    (workload,) = await client.list(WORKLOAD, namespace)
    return objects.condition(workload, "Finished") is not None


async def test_all_control_planes_answer(bed: Testbed) -> None:
    assert list(bed.planes) == ["manager", "worker1", "worker2"]
    for plane in bed.planes.values():
        async with plane.client() as client:
            assert plane.release.kubernetes.encode() in await client.request("GET", "/version")


@pytest.mark.parametrize("worker", ["worker1", "worker2"], ids=["without kube-controller-manager", "with one"])
async def test_a_job_is_admitted_and_completed(bed: Testbed, namespace: str, worker: str) -> None:
    async with bed.planes[worker].client() as client:
        await client.create(objects.job("one", namespace))
        await eventually(lambda: _start_of(client, namespace, "one"))
        done = await complete_job(client, namespace, "one")
        assert objects.condition(done, "Complete") is not None
        await eventually(lambda: _is_finished(client, namespace))


@pytest.mark.parametrize("worker", ["worker1", "worker2"], ids=["without kube-controller-manager", "with one"])
async def test_a_job_is_admitted_and_fails(bed: Testbed, namespace: str, worker: str) -> None:
    async with bed.planes[worker].client() as client:
        await client.create(objects.job("one", namespace))
        await eventually(lambda: _start_of(client, namespace, "one"))
        await fail_job(client, namespace, "one")
        await eventually(lambda: _is_finished(client, namespace))


async def test_a_job_without_quota_waits(bed: Testbed, namespace: str) -> None:
    async with bed.workers[0].client() as client:
        await client.create(objects.job("big", namespace, requests={"cpu": "1000"}))
        (workload,) = await eventually(lambda: client.list(WORKLOAD, namespace))
        reserved = await eventually(lambda: _condition(client, workload, "QuotaReserved"))
        assert reserved["status"] == "False"


async def test_old_versions_are_converted_by_kueue(bed: Testbed, namespace: str) -> None:
    async with bed.workers[0].client() as client:
        path = f"/apis/kueue.x-k8s.io/v1beta1/clusterqueues/{namespace}"
        assert b'"apiVersion":"kueue.x-k8s.io/v1beta1"' in await client.request("GET", path)


async def test_the_audit_log_counts_a_create_exactly_once(bed: Testbed, namespace: str) -> None:
    plane = bed.workers[0]
    mark = await plane.audit.settled()
    async with plane.client(user_agent="counted/1.0") as client:
        await client.create(objects.job("one", namespace))
    until = await plane.audit.settled()
    assert plane.audit.since(mark, until)[Call("admin", "counted", "create", "jobs")] == 1
    names = [event.name for event in plane.audit.events(mark, until) if event.call.agent == "counted"]
    assert names[-1] == "one"


async def test_a_user_without_rights_is_refused_until_they_are_granted(bed: Testbed) -> None:
    plane = bed.workers[0]
    async with plane.client("manager") as client:
        with pytest.raises(ApiError, match="403 Forbidden"):
            await client.list(JOB)
        await plane.grant("manager", [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}])
        assert isinstance(await eventually(lambda: _allowed(client)), bool)


async def test_a_service_account_gets_a_token_and_loses_it(bed: Testbed, namespace: str) -> None:
    plane = bed.workers[0]
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list"]}]
    token = await plane.service_account_token("multikueue", namespace=namespace, rules=rules)
    async with Client(plane.url, ca=plane.ca, token=token) as limited, plane.client() as admin:
        await eventually(lambda: _allowed(limited))
        await admin.delete(Kind("v1", "ServiceAccount"), "multikueue", namespace)
        with pytest.raises(ApiError, match="401"):
            await eventually(lambda: _refused(limited), timeout=20)  # tokens are cached for 10 s


async def test_each_mode_of_a_link_shows_in_a_request(bed: Testbed) -> None:
    plane = bed.workers[0]
    link = bed.link(plane)
    assert await _outcome(plane, link.url) == "ok"
    link.latency(0.1)
    began = time.monotonic()
    assert await _outcome(plane, link.url) == "ok"
    assert time.monotonic() - began > 0.4  # TLS and the request: two round trips
    for mode, outcome in {
        "hang": "timeout",
        "mute": "timeout",
        "blackhole": "timeout",
        "reset": "reset",
        "refuse": "refused",
        "ok": "ok",
    }.items():
        getattr(link, mode)()
        patience = 1 if outcome == "timeout" else 30
        assert (mode, await _outcome(plane, link.url, patience=patience)) == (mode, outcome)


async def test_a_muted_write_takes_effect_though_its_answer_is_lost(bed: Testbed, namespace: str) -> None:
    plane = bed.workers[0]
    link = bed.link(plane)
    async with plane.client(server=link.url) as client, plane.client() as witness:
        await client.list(JOB, namespace)
        link.mute()
        answers: list[object] = []

        async def create() -> None:
            answers.append(await client.create(objects.job("unsure", namespace)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(create)
            await eventually(lambda: witness.get(JOB, "unsure", namespace))
            tasks.cancel_scope.cancel()
    assert answers == []


async def test_a_killed_plane_comes_back_on_its_port_with_its_objects(bed: Testbed) -> None:
    plane, name = bed.manager, unique("kept")
    async with plane.client() as client:
        await client.create(objects.namespace(name))
    for end in (plane.kill, plane.stop):
        await end()
        assert await _outcome(plane, plane.url) == "refused"
        await plane.restart()
    async with plane.client() as client:
        assert await client.find(objects.NAMESPACE, name) is not None


async def test_kueue_itself_can_be_the_manager(bed: Testbed, namespace: str) -> None:
    kueue = await bed.start_kueue(bed.manager)
    try:
        assert kueue.configuration["clientConnection"] == shipped_configuration(kueue.release)["clientConnection"]
        workers = {plane.name: plane.kubeconfig() for plane in bed.workers}
        await manager_setup(bed.manager, workers, namespace=namespace)
        async with bed.manager.client() as client:
            await eventually(lambda: _is_active(client, namespace), timeout=30)
            await client.create(objects.job("one", namespace, managed_by=objects.MULTIKUEUE_CONTROLLER))
            chosen = await eventually(lambda: _worker_of(bed, namespace), timeout=30)
            async with chosen.client() as worker:
                await complete_job(worker, namespace, "one")
            await eventually(lambda: _is_finished(client, namespace), timeout=30)
            # Not the admitted ones: a job that is over at once may be so before its admission is noted.
            assert "kueue_quota_reserved_workloads_total" in await kueue.metrics()
    finally:
        await bed.stop_kueue(bed.manager)
    async with bed.manager.client() as client:
        await client.create(objects.job("two", namespace))  # no webhook is left that nobody answers


async def test_placements_are_decided(bed: Testbed) -> None:
    plane, namespace = bed.manager, unique("fleet")
    controller = await bed.start_placement(plane)
    async with plane.client() as client:
        await client.create(objects.namespace(namespace))
        for name in ("worker1", "worker2"):
            await ocm.register_cluster(client, name, labels={"region": "west"})
        await ocm.bind_set(client, namespace)
        await client.create(ocm.placement("west", namespace, labels={"region": "west"}))
        await eventually(lambda: _decided(client, namespace, ["worker1", "worker2"]), timeout=30)
    await controller.stop()


async def test_nothing_is_left_behind() -> None:
    async with Testbed.start(workers=0) as bed:
        folder, processes = bed.folder, [process.pid for process in bed.processes]
        assert folder.is_dir()
    assert not folder.exists()
    assert [pid for pid in processes if _exists(pid)] == []


def _exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def _condition(client: Client, workload: objects.Object, name: str) -> objects.Object | None:
    metadata = workload["metadata"]
    return objects.condition(await client.get(WORKLOAD, metadata["name"], metadata["namespace"]), name)


async def _allowed(client: Client) -> bool:
    try:
        await client.list(JOB)
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


async def _refused(client: Client) -> bool:
    await client.list(JOB)
    return False


async def _is_active(client: Client, name: str) -> bool:
    active = objects.condition(await client.get(objects.CLUSTER_QUEUE, name), "Active")
    return active is not None and active["status"] == "True"


async def _worker_of(bed: Testbed, namespace: str) -> ControlPlane | None:
    for plane in bed.workers:
        async with plane.client() as client:
            if await client.find(JOB, "one", namespace) is not None:
                return plane
    return None


async def _decided(client: Client, namespace: str, expected: list[str]) -> bool:
    return await ocm.decided_clusters(client, "west", namespace) == expected


async def _outcome(plane: ControlPlane, server: str, *, patience: float = 30) -> str:
    """What a client with so many seconds of patience meets."""
    try:
        async with plane.client(server=server, timeout=patience) as client:
            await client.request("GET", "/version")
    except TimeoutError:
        return "timeout"
    except aiohttp.ClientConnectorError as error:
        return "refused" if isinstance(error.os_error, ConnectionRefusedError) else "reset"
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
        return "reset"
    return "ok"
