"""Calls to an API server: what is sent, and what is made of the answer."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from aiohttp import web
from aiohttp.http_writer import StreamWriter

from multikueue.api.kind import Kind
from multikueue.api.kinds import CLUSTER_QUEUES, JOBS
from multikueue.api.meta import Object, ObjectKey
from multikueue.errors import (
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Invalid,
    InvalidObject,
    NotFound,
    ServerError,
    Unauthorized,
)
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.client import Call, Client
from multikueue.kube.decode import Stub
from tests.kube.calling import FOUND, A, read
from tests.kube.server import (
    Answer,
    Script,
    aborts,
    client_of,
    deep_job,
    hangs,
    job,
    lists,
    names,
    refuses,
    says,
    serving,
    streams,
)

pytestmark = pytest.mark.anyio


# What goes over the wire.
async def test_get_answers_the_object() -> None:
    async with client_of(FOUND) as (client, script):
        item = await client.get(JOBS, A)
    assert (item.key, item.version, bytes(item.spec)) == (A, 7, b'{"parallelism": 1}')
    assert script.asked == ["GET /apis/batch/v1/namespaces/ns/jobs/a"]
    assert script.requests[0].headers["Authorization"] == "Bearer t"
    assert "Content-Type" not in script.requests[0].headers


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        pytest.param(
            lambda c: c.create(JOBS, "ns", {"a": 1}),
            ("POST", "/apis/batch/v1/namespaces/ns/jobs?fieldManager=multikueue", "application/json"),
            id="create",
        ),
        pytest.param(
            lambda c: c.create(CLUSTER_QUEUES, "", {"a": 1}, dry_run=True),
            (
                "POST",
                "/apis/kueue.x-k8s.io/v1beta2/clusterqueues?fieldManager=multikueue&dryRun=All",
                "application/json",
            ),
            id="create of a cluster-scoped object, only tried",
        ),
        pytest.param(
            lambda c: c.merge_patch(JOBS, A, {"a": 1}, subresource="status"),
            (
                "PATCH",
                "/apis/batch/v1/namespaces/ns/jobs/a/status?fieldManager=multikueue",
                "application/merge-patch+json",
            ),
            id="merge patch of the status",
        ),
        pytest.param(
            lambda c: c.json_patch(JOBS, A, [{"op": "test", "path": "/a", "value": 1}], manager="m&m"),
            (
                "PATCH",
                "/apis/batch/v1/namespaces/ns/jobs/a?fieldManager=m%26m",
                "application/json-patch+json",
            ),
            id="JSON patch",
        ),
        pytest.param(
            lambda c: c.apply(JOBS, A, {"a": 1}, manager="kueue admission", force=True, subresource="status"),
            (
                "PATCH",
                "/apis/batch/v1/namespaces/ns/jobs/a/status?fieldManager=kueue%20admission&force=true",
                "application/apply-patch+yaml",
            ),
            id="apply",
        ),
        pytest.param(
            lambda c: c.request("POST", "/version", body=b"{}", params={"dryRun": "All", "x": "a b"}),
            ("POST", "/version?dryRun=All&x=a+b", "application/json"),
            id="anything",
        ),
    ],
)
async def test_each_write_says_what_it_is_and_who_we_are(call: Any, expected: tuple[str, str, str]) -> None:
    async with client_of(FOUND) as (client, script):
        await call(client)
    [request] = script.requests
    assert (request.method, request.raw_path, request.headers["Content-Type"]) == expected


async def test_a_body_of_bytes_goes_out_as_it_is() -> None:
    body = b'{ "spec" : {"unknown":null} }'
    async with client_of(FOUND) as (client, script):
        await client.create(JOBS, "ns", body)
    assert script.bodies == [body]


async def test_a_large_body_goes_out_whole_and_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection keeps a buffer for TLS as long as it lives, as large as the largest piece that it was given."""
    body = json.dumps({"x": "y" * 2**20}).encode()
    sizes: list[int] = []
    write = StreamWriter.write

    async def noting(self: StreamWriter, chunk: Any, **options: Any) -> None:
        sizes.append(len(chunk))
        await write(self, chunk, **options)

    monkeypatch.setattr(StreamWriter, "write", noting)
    async with client_of(FOUND) as (client, script):
        await client.create(JOBS, "ns", body)
    assert script.bodies == [body]
    assert max(sizes) <= 2**18


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../../../api/v1/secrets", "a%2Fb"])
async def test_no_name_leads_to_another_path(name: str) -> None:
    async with client_of(FOUND) as (client, script):
        with pytest.raises(Invalid, match="cannot be the namespace or name"):
            await client.get(JOBS, ObjectKey("ns", name))
        with pytest.raises(Invalid):
            await client.create(JOBS, name, {})
    assert script.requests == []


async def test_an_odd_name_is_quoted() -> None:
    async with client_of(FOUND) as (client, script):
        await client.get(JOBS, ObjectKey("ns", "system:a?b c"))
    assert script.requests[0].raw_path.endswith("/jobs/system%3Aa%3Fb%20c")


async def test_the_server_may_live_below_a_path() -> None:
    script = Script(FOUND)
    async with serving(script) as url, Client.connect(Credentials(server=f"{url}/k8s/c-1")) as client:
        await client.get(JOBS, A)
    assert script.asked == ["GET /k8s/c-1/apis/batch/v1/namespaces/ns/jobs/a"]


# Lists.
async def test_a_list_is_fetched_in_pages() -> None:
    async with client_of(lists(job("a"), job("b"), cont="c1"), lists(job("c"), version="11")) as (client, script):
        page = await client.list(JOBS, label_selector="x in (a,b)", page=2)
    assert (names(page.items), page.resource_version, page.undecodable) == (["a", "b", "c"], "11", {})
    assert script.asked == ["GET /apis/batch/v1/jobs"] * 2
    assert (script.queries("limit"), script.queries("continue")) == (["2", "2"], [None, "c1"])
    assert script.queries("labelSelector") == ["x in (a,b)"] * 2


async def test_a_list_of_one_namespace() -> None:
    async with client_of(lists()) as (client, script):
        assert await client.list(JOBS, namespace="ns") is not None
    assert script.asked == ["GET /apis/batch/v1/namespaces/ns/jobs"]


async def test_a_list_whose_next_page_expired_is_fetched_in_one_piece() -> None:
    answers = [lists(job("a"), cont="c1"), refuses(410, "Expired"), lists(job("a"), job("b"), version="12")]
    async with client_of(*answers) as (client, script):
        page = await client.list(JOBS, page=1)
    assert (names(page.items), page.resource_version) == (["a", "b"], "12")
    assert (script.queries("limit"), script.queries("continue")) == (["1", "1", None], [None, "c1", None])


async def test_items_may_be_null() -> None:
    async with client_of(says({"metadata": {"resourceVersion": "3"}, "items": None})) as (client, _):
        page = await client.list(JOBS)
    assert (page.items, page.resource_version) == ((), "3")


async def test_an_object_out_of_shape_is_reported_and_left_out() -> None:
    told: list[tuple[str, str, ObjectKey | None]] = []

    def on_undecodable(cluster: str, kind: Kind[Any], about: Object | Stub, _why: str) -> None:
        told.append((cluster, kind.kind, about.key))

    bad = job("b", metadata={"labels": 1})
    async with client_of(lists(job("a"), bad), on_undecodable=on_undecodable) as (client, _):
        page = await client.list(JOBS)
    assert (names(page.items), page.undecodable.keys()) == (["a"], {ObjectKey("ns", "b")})
    assert told == [("w1", "Job", ObjectKey("ns", "b"))]


async def test_a_single_answer_nested_too_deeply_is_no_object() -> None:
    async with client_of(says(deep_job("a"))) as (client, _):
        with pytest.raises(InvalidObject, match="not nested too deeply"):
            await client.get(JOBS, A)


# Deleting.
async def test_a_delete_that_is_done_answers_none() -> None:
    async with client_of(says({"kind": "Status", "status": "Success"})) as (client, script):
        assert await client.delete(JOBS, A, uid="u", resource_version="5", propagation="Foreground") is None
    assert json.loads(script.bodies[0]) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


async def test_a_delete_that_finalizers_hold_answers_the_object() -> None:
    held = job("a", metadata={"deletionTimestamp": "2026-11-21T10:00:00Z", "finalizers": ["x/y"]})
    async with client_of(says(held)) as (client, script):
        item = await client.delete(JOBS, A)
    assert item is not None
    assert item.metadata.finalizers == ("x/y",)
    assert json.loads(script.bodies[0])["propagationPolicy"] == "Background"
    assert "preconditions" not in json.loads(script.bodies[0])


async def test_a_delete_that_answers_with_what_it_removed_is_done() -> None:
    async with client_of(FOUND) as (client, _):
        assert await client.delete(JOBS, A) is None


async def test_a_delete_of_nothing_is_not_found() -> None:
    async with client_of(refuses(404, "NotFound")) as (client, _):
        with pytest.raises(NotFound):
            await client.delete(JOBS, A, uid="u")


async def test_no_more_calls_than_the_limit_are_in_flight() -> None:
    flying = peak = 0

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal flying, peak
        flying += 1
        peak = max(peak, flying)
        await anyio.sleep(0.01)
        flying -= 1
        return await FOUND(request)

    async with client_of(slow, limit=3) as (client, script), anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(client.get, JOBS, A)
    assert (peak, len(script.requests)) == (3, 12)


# Probing.
async def test_a_probe_asks_what_only_the_authenticated_may_know() -> None:
    async with client_of(says({"kind": "APIVersions"})) as (client, script):
        await client.probe(1.0)
    assert script.asked == ["GET /api"]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refuses(401), Unauthorized),
        (refuses(403), Forbidden),
        (refuses(500), ServerError),
        (aborts, ClusterUnreachable),
    ],
)
async def test_a_probe_tries_once_and_says_why(answer: Answer, kind: type[Exception]) -> None:
    async with client_of(answer) as (client, script):
        with pytest.raises(kind):
            await client.probe(1.0)
    assert len(script.requests) == 1


async def test_a_probe_has_a_deadline_of_its_own() -> None:
    async with client_of(hangs) as (client, _):
        with pytest.raises(ClusterUnreachable):
            await client.probe(0.1)


# Accounting.
async def test_each_request_is_reported_with_what_became_of_it() -> None:
    calls: list[Call] = []
    answers = [
        FOUND,
        refuses(500),
        FOUND,
        refuses(409, "Conflict"),
        aborts,
        lists(job("a"), cont="x"),
        lists(),
        streams(b"1\n"),
        FOUND,
        hangs,
    ]
    async with client_of(*answers, on_call=calls.append) as (client, _):
        await client.get(JOBS, A)
        await client.get(JOBS, A)
        with pytest.raises(Conflict):
            await client.merge_patch(JOBS, A, {}, subresource="status")
        with pytest.raises(ClusterUnreachable):
            await client.create(JOBS, "ns", {})
        await client.list(JOBS)
        await read(client)
        await client.request("POST", "/api/v1/namespaces/ns/serviceaccounts/sa/token", body={})
        with anyio.move_on_after(0.05):
            await client.apply(JOBS, A, {}, manager="m", force=False)
    assert {call.cluster for call in calls} == {"w1"}
    assert all(0 <= call.seconds < 5 for call in calls)
    assert [(call.verb, call.plural, call.subresource, call.status) for call in calls] == [
        ("get", "jobs", "", "200"),
        ("get", "jobs", "", "ServerError"),
        ("get", "jobs", "", "200"),
        ("patch", "jobs", "status", "Conflict"),
        ("create", "jobs", "", "ClusterUnreachable"),
        ("list", "jobs", "", "200"),
        ("list", "jobs", "", "200"),
        ("watch", "jobs", "", "200"),
        ("create", "serviceaccounts", "token", "200"),
        ("apply", "jobs", "", "Cancelled"),
    ]


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues", ("list", "clusterqueues", "")),
        ("GET", "/apis/batch/v1/namespaces/ns/jobs", ("list", "jobs", "")),
        ("GET", "/apis/batch/v1/namespaces/ns/jobs/a/status", ("get", "jobs", "status")),
        ("GET", "/api/v1/namespaces/ns", ("get", "namespaces", "")),
        ("POST", "/apis/batch/v1/namespaces/ns/jobs", ("create", "jobs", "")),
        ("GET", "/apis/kueue.x-k8s.io", ("get", "api", "")),
        ("GET", "/api", ("get", "api", "")),
        ("GET", "/version", ("get", "version", "")),
    ],
)
async def test_a_request_by_its_path_is_counted_as_an_audit_log_counts_it(
    method: str, path: str, told: tuple[str, str, str]
) -> None:
    calls: list[Call] = []
    async with client_of(FOUND, on_call=calls.append) as (client, _):
        await client.request(method, path)
    assert [(call.verb, call.plural, call.subresource) for call in calls] == [told]
