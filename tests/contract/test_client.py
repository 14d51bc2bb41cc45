"""The manager's own client and reflector: what production code sends, as it sends it; and the client of its tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from multikueue.api.jobs.job import Job, job_spec
from multikueue.api.kinds import EVENTS, JOBS, LEASES
from multikueue.api.kubernetes.builtins import record_of
from multikueue.api.meta import ObjectKey
from multikueue.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound, Unauthorized
from multikueue.kube.cluster_client import WatchingClient
from multikueue.kube.reflector import Reflector
from multikueue.store.caches.cache import Cache
from tests.contract.builders import job, lease
from tests.contract.server import Server
from tests.contract.space import Space, eventually

pytestmark = pytest.mark.anyio

OTHER_UID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
async def client(server: Server) -> AsyncIterator[WatchingClient]:
    async with server.controllers_client() as connected:
        yield connected


async def test_what_is_created_is_read(client: WatchingClient, space: Space) -> None:
    made = await client.create(JOBS, space.namespace, job("a", parallelism=2))
    assert made.key == ObjectKey(space.namespace, "a")
    assert await client.get(JOBS, made.key) == made


async def test_errors_are_what_they_are_called(client: WatchingClient, space: Space) -> None:
    made = await client.create(JOBS, space.namespace, job("a"))
    with pytest.raises(AlreadyExists):
        await client.create(JOBS, space.namespace, job("a"))
    with pytest.raises(NotFound):
        await client.get(JOBS, ObjectKey(space.namespace, "nothing"))
    with pytest.raises(Invalid):
        await client.merge_patch(JOBS, made.key, {"spec": {"completions": 9}})


async def test_a_dry_run_makes_nothing(client: WatchingClient, space: Space) -> None:
    made = await client.create(JOBS, space.namespace, job("a"), dry_run=True)
    with pytest.raises(NotFound):
        await client.get(JOBS, made.key)


async def test_a_patch_of_an_older_version_is_a_conflict(client: WatchingClient, space: Space) -> None:
    made = await client.create(JOBS, space.namespace, job("a"))
    body = {"metadata": {"resourceVersion": made.metadata.resource_version}, "spec": {"suspend": False}}
    patched = await client.merge_patch(JOBS, made.key, body)
    assert job_spec(patched).suspend is False
    with pytest.raises(Conflict):
        await client.merge_patch(JOBS, made.key, body)
    with pytest.raises(Conflict):
        await client.merge_patch(JOBS, made.key, body, subresource="status")


async def test_a_status_is_written_apart(client: WatchingClient, space: Space) -> None:
    made = await client.create(JOBS, space.namespace, job("a", suspend=False))
    body = {"metadata": {"resourceVersion": made.metadata.resource_version}, "status": {"active": 1}}
    patched = await client.merge_patch(JOBS, made.key, body, subresource="status")
    assert patched.metadata.generation == made.metadata.generation
    assert patched.version > made.version


async def test_an_apply_creates_and_changes(client: WatchingClient, space: Space) -> None:
    key = ObjectKey(space.namespace, "a")
    await client.apply(LEASES, key, lease("a", holderIdentity="one"), manager="one", force=False)
    with pytest.raises(Conflict):
        await client.apply(LEASES, key, lease("a", holderIdentity="two"), manager="two", force=False)
    taken = await client.apply(LEASES, key, lease("a", holderIdentity="two"), manager="two", force=True)
    assert record_of(taken).holder_identity == "two"


async def test_a_deletion_tells_whether_it_is_gone(client: WatchingClient, space: Space) -> None:
    held = job("held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    for body in (held, job("free")):
        made = await client.create(JOBS, space.namespace, body)
        with pytest.raises(Conflict):
            await client.delete(JOBS, made.key, uid=OTHER_UID)
        left = await client.delete(JOBS, made.key, uid=made.metadata.uid)
        assert (left is None) == (body is not held)
    with pytest.raises(NotFound):
        await client.delete(JOBS, ObjectKey(space.namespace, "free"))


async def test_a_list_is_whole_whatever_its_pages(client: WatchingClient, space: Space) -> None:
    for number in range(5):
        body = job(f"job-{number}")
        body["metadata"]["labels"] = {"even": str(number % 2 == 0)}
        made = await client.create(JOBS, space.namespace, body)
    page = await client.list(JOBS, namespace=space.namespace, page=2)
    assert [item.metadata.name for item in page.items] == [f"job-{number}" for number in range(5)]
    assert int(page.resource_version) >= made.version
    even = await client.list(JOBS, namespace=space.namespace, label_selector="even=True", page=2)
    assert [item.metadata.name for item in even.items] == ["job-0", "job-2", "job-4"]


async def test_an_event_is_sent(client: WatchingClient, space: Space) -> None:
    about = {"apiVersion": "batch/v1", "kind": "Job", "namespace": space.namespace, "name": "j", "uid": "u"}
    body = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "j.0123456789abcdef", "namespace": space.namespace},
        "involvedObject": about,
        "type": "Normal",
        "reason": "Tested",
        "message": "some words",
        "source": {"component": "multikueue"},
        "reportingComponent": "multikueue",
        "firstTimestamp": "2026-01-02T03:04:05Z",
        "lastTimestamp": "2026-01-02T03:04:05Z",
        "count": 1,
    }
    made = await client.create(EVENTS, space.namespace, body)
    assert made.metadata.name == "j.0123456789abcdef"


async def test_a_probe_passes_for_whoever_is_known(server: Server) -> None:
    for user in ("admin", "manager"):
        async with server.client(user) as client:
            await client.probe(10)


async def test_who_may_not_is_told_so(server: Server) -> None:
    async with server.client("manager") as client:
        with pytest.raises(Forbidden):
            await client.list(JOBS)


async def test_who_is_nobody_is_told_so(server: Server) -> None:
    async with server.client("stranger") as client:
        with pytest.raises(Unauthorized):
            await client.probe(10)


# --- the reflector ---------------------------------------------------------------------------------------------------


async def shows(cache: Cache[Job], **versions: int) -> bool:
    return {item.metadata.name: item.version for item in cache} == versions


async def test_a_reflector_holds_what_is_there(client: WatchingClient, space: Space) -> None:
    old = await client.create(JOBS, space.namespace, job("old"))
    cache, states = Cache[Job](), list[bool]()

    def told(stands: bool, _why: str) -> None:
        states.append(stands)

    reflector = Reflector(client, JOBS, cache, on_state=told, namespace=space.namespace)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reflector.run)
        await reflector.synced.wait()
        assert await shows(cache, old=old.version)

        new = await client.create(JOBS, space.namespace, job("new"))
        await eventually(lambda: shows(cache, old=old.version, new=new.version))

        new = await client.merge_patch(JOBS, new.key, {"spec": {"parallelism": 3}})
        await client.delete(JOBS, old.key)
        await eventually(lambda: shows(cache, new=new.version))
        assert states == [True]
        tasks.cancel_scope.cancel()


async def test_a_reflector_of_a_selection_loses_what_leaves_it(client: WatchingClient, space: Space) -> None:
    body = job("a")
    body["metadata"]["labels"] = {"app": "x"}
    made = await client.create(JOBS, space.namespace, body)
    cache = Cache[Job]()
    reflector = Reflector(
        client, JOBS, cache, on_state=lambda *_: None, namespace=space.namespace, label_selector="app=x"
    )
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reflector.run)
        await reflector.synced.wait()
        assert await shows(cache, a=made.version)
        await client.merge_patch(JOBS, made.key, {"metadata": {"labels": {"app": "y"}}})
        await eventually(lambda: shows(cache))
        tasks.cancel_scope.cancel()
