"""Simulated clusters as a bed: it is what a `Testbed` is to its tests, and says what it is not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from testbed import objects
from testbed.bed import MANAGER, unique
from testbed.client import ApiError, Client, Kind, eventually
from testbed.contexts import Unsupported
from testbed.controllers import GARBAGE, JOBS, NAMESPACES, SERVICE_ACCOUNTS
from testbed.objects import JOB, WORKLOAD
from testbed.plane import ADMINISTRATORS
from testbed.queues import workers_setup
from testbed.sandbox import SandboxBed, SandboxPlane
from tests.real.skipping import skipping

pytestmark = pytest.mark.anyio

CONFIG_MAP = Kind("v1", "ConfigMap")
CLUSTER_PROFILE = Kind("multicluster.x-k8s.io/v1alpha1", "ClusterProfile")
READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}


@pytest.fixture(name="bed", scope="module")
async def _bed(anyio_backend: str) -> AsyncIterator[SandboxBed]:
    async with SandboxBed.start(workers=1, controllers={MANAGER: [GARBAGE]}) as bed:
        yield bed


@pytest.fixture(name="worker")
def _worker(bed: SandboxBed) -> SandboxPlane:
    return bed.planes["worker1"]


@pytest.fixture(name="client")
async def _client(worker: SandboxPlane) -> AsyncIterator[Client]:
    async with worker.client() as client:
        yield client


def note(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}


async def test_planes_are_called_as_in_a_testbed(bed: SandboxBed) -> None:
    assert list(bed.planes) == [MANAGER, "worker1"]
    assert [plane.name for plane in bed.workers] == ["worker1"]
    assert not bed.foreign
    assert len({plane.url for plane in bed.planes.values()}) == 2


async def test_what_a_plane_has_outlives_its_end(worker: SandboxPlane, client: Client) -> None:
    made = await client.create(note(unique("kept")))
    await worker.kill()
    async with worker.client() as other:
        with pytest.raises(aiohttp.ClientConnectorError):
            await other.request("GET", "/version")
    await worker.restart()
    async with worker.client() as other:
        assert await other.get(CONFIG_MAP, made["metadata"]["name"], "default") == made


async def test_resource_versions_tell_what_came_first_on_whatever_plane(bed: SandboxBed, client: Client) -> None:
    async with bed.manager.client() as manager:
        made = [await there.create(note(unique("order"))) for there in (client, manager, client)]
    versions = [int(body["metadata"]["resourceVersion"]) for body in made]
    assert versions == sorted(versions)
    assert len(set(versions)) == 3


async def test_users_have_the_rights_that_they_are_granted(worker: SandboxPlane) -> None:
    async with worker.client("manager") as client:
        with pytest.raises(ApiError, match="cannot list"):
            await client.list(CONFIG_MAP)
        await worker.grant("manager", [READ])
        await client.list(CONFIG_MAP)


async def test_an_account_has_a_token_with_rights(worker: SandboxPlane) -> None:
    token = await worker.service_account_token("reader", namespace="default", rules=[READ])
    async with Client(worker.url, ca=worker.ca, token=token) as client:
        await client.list(CONFIG_MAP)
        with pytest.raises(ApiError, match="cannot list"):
            await client.list(JOB)


async def test_a_certificate_of_the_beds_authority_lets_in(worker: SandboxPlane) -> None:
    certificate = worker.identity.authority.issue("anne", groups=(ADMINISTRATORS,))
    async with Client(worker.url, ca=worker.ca, certificate=certificate) as client:
        await client.list(CONFIG_MAP)


async def test_calls_are_in_the_audit_log(worker: SandboxPlane, client: Client) -> None:
    mark = await worker.audit.settled()
    await client.create(note(unique("counted")))
    counted = worker.audit.since(mark, await worker.audit.settled())
    assert {(call.user, call.verb, call.resource): count for call, count in counted.items() if call.is_write} == {
        ("admin", "create", "configmaps"): 1
    }


async def test_a_link_before_a_plane_may_misbehave(bed: SandboxBed, worker: SandboxPlane) -> None:
    link = bed.link(worker)
    async with worker.client(server=link.url) as client:
        await client.request("GET", "/version")
        link.refuse()
        with pytest.raises(aiohttp.ClientError):
            await client.request("GET", "/version")


async def test_a_plane_more_has_the_kinds_it_is_to_have(bed: SandboxBed) -> None:
    bare, usual = await bed.start_plane(unique("bare"), crds=()), await bed.start_plane(unique("usual"))
    for plane, knows in ((bare, False), (usual, True)):
        async with plane.client() as client:
            groups = await client.request("GET", "/apis")
        assert (b"kueue.x-k8s.io" in groups) is knows
    await bed.install(bare, ["clusterprofile"])
    async with bare.client() as client:
        assert await client.list(CLUSTER_PROFILE) == []


async def admitted_job(worker: SandboxPlane, client: Client) -> tuple[str, str]:
    """Namespace and name of a job that the simulated Kueue lets run."""
    namespace = unique("queue")
    await workers_setup([worker], namespace=namespace)
    await client.create(objects.job("job", namespace))

    async def runs() -> bool:
        job = await client.get(JOB, "job", namespace)
        return not job["spec"]["suspend"]

    await eventually(runs)
    return namespace, "job"


async def test_a_job_that_runs_goes_on_until_the_test_says_otherwise(
    bed: SandboxBed, worker: SandboxPlane, client: Client
) -> None:
    namespace, name = await admitted_job(worker, client)
    controllers = await bed.start_controllers(worker, [JOBS, NAMESPACES])

    async def has_pods() -> bool:
        return bool((await client.get(JOB, name, namespace))["status"].get("active"))

    await eventually(has_pods)
    await controllers.kill()


async def test_the_rules_of_kueues_webhooks_hold_as_long_as_it_is_there(
    bed: SandboxBed, worker: SandboxPlane, client: Client
) -> None:
    namespace, _ = await admitted_job(worker, client)
    (workload,) = await client.list(WORKLOAD, namespace)
    workload["spec"]["podSets"][0]["count"] = 7

    async def change() -> None:
        await client.patch(WORKLOAD, workload["metadata"]["name"], {"spec": workload["spec"]}, namespace)

    with pytest.raises(ApiError, match="field is immutable"):
        await change()
    await bed.kueues[worker.name].kill()
    with pytest.raises(ApiError, match="failed calling webhook"):
        await change()
    await bed.kueues[worker.name].restart()
    await bed.stop_kueue(worker)
    assert worker.name not in bed.kueues
    await change()
    await bed.start_kueue(worker)


async def _touch_etcd(bed: SandboxBed) -> None:
    _ = bed.etcd


async def _touch_programs(bed: SandboxBed) -> None:
    _ = bed.programs


UNSUPPORTED: dict[str, Callable[[SandboxBed], Awaitable[object]]] = {
    "a real etcd": _touch_etcd,
    "the programs of the testbed": _touch_programs,
    "a real Kueue": lambda bed: bed.kueues["worker1"].metrics(),
    "a real Kueue, for its feature gates": lambda bed: bed.start_kueue(bed.manager, feature_gates={"A": True}),
    "kube-controller-manager's serviceaccount-controller": lambda bed: bed.start_controllers(
        bed.manager, [SERVICE_ACCOUNTS]
    ),
    "OCM's placement controller": lambda bed: bed.start_placement(bed.manager),
    "OCM's registration controller": lambda bed: bed.start_registration(bed.manager),
    "the CRDs of ray": lambda bed: bed.install(bed.manager, ["ray"]),
}


@pytest.mark.parametrize("needs", UNSUPPORTED)
async def test_what_needs_a_real_component_skips_a_test_and_says_so(bed: SandboxBed, needs: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=f"^needs {needs}$"), skipping():
        await UNSUPPORTED[needs](bed)


async def test_the_process_of_a_plane_is_not_there_to_be_frozen(worker: SandboxPlane) -> None:
    with pytest.raises(Unsupported, match="process of its own"):
        worker.process.pause()
    assert not hasattr(worker, "processes")
