from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from time import monotonic
from typing import Any

import anyio
import pytest
import trustme
from aiohttp import web
from aiohttp.http_writer import StreamWriter

from multikueue.api.kinds import CLUSTER_QUEUES, JOBS, Kind
from multikueue.api.meta import Object, ObjectKey
from multikueue.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    InvalidObject,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from multikueue.kube.client import Call, Client
from multikueue.kube.credentials import Credentials
from multikueue.kube.decode import Stub
from multikueue.kube.tokens import FixedToken, Grant
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

A = ObjectKey("ns", "a")
FOUND = says(job("a", version=7))
VERSIONED = {"metadata": {"resourceVersion": "6"}}


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

    def on_garbage(cluster: str, kind: Kind[Any], about: Object | Stub, _why: str) -> None:
        told.append((cluster, kind.kind, about.key))

    bad = job("b", metadata={"labels": 1})
    async with client_of(lists(job("a"), bad), on_garbage=on_garbage) as (client, _):
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


# Errors.


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refuses(403, "Forbidden"), Forbidden),
        (refuses(409, "AlreadyExists"), AlreadyExists),
        (refuses(409, "Conflict"), Conflict),
        (refuses(410, "Expired"), Expired),
        (refuses(422, "Invalid"), Invalid),
        (refuses(429), Throttled),
        (refuses(500), ServerError),
        (says(b"<html>Bad Gateway</html>", status=502, kind="text/html"), ServerError),
        (says(b"", status=429), Throttled),
        (says(b"", status=302, headers={"Location": "http://127.0.0.1:9/"}), ApiError),
    ],
)
async def test_an_error_is_an_error_of_its_kind_and_never_a_success(answer: Answer, kind: type[ApiError]) -> None:
    async with client_of(answer) as (client, script):
        with pytest.raises(ApiError) as caught:
            await client.create(JOBS, "ns", {})
    assert type(caught.value) is kind
    assert "create /apis/batch/v1/namespaces/ns/jobs" in str(caught.value)
    assert len(script.requests) == 1


async def test_an_answer_that_is_no_json_is_no_answer() -> None:
    async with client_of(says(b"<html>log in</html>", kind="text/html")) as (client, _):
        with pytest.raises(ClusterUnreachable, match="the answer is no JSON: b'<html>log in"):
            await client.get(JOBS, A)


async def test_an_answer_of_another_shape_names_the_field() -> None:
    async with client_of(says(job("a", metadata={"name": 5}))) as (client, _):
        with pytest.raises(InvalidObject) as caught:
            await client.get(JOBS, A)
    assert (caught.value.field, caught.value.expected) == ("$.metadata.name", "`str`, got `int`")
    assert "get /apis/batch/v1/namespaces/ns/jobs/a of cluster w1" in caught.value.object


# Retries.


@pytest.mark.parametrize("failure", [aborts, refuses(500), refuses(503), says(b"", status=502)])
async def test_a_read_is_tried_again(failure: Answer) -> None:
    async with client_of(failure, failure, FOUND) as (client, script):
        assert (await client.get(JOBS, A)).key == A
    assert len(script.requests) == 3


async def test_it_ends_after_two_retries() -> None:
    async with client_of(refuses(500)) as (client, script):
        with pytest.raises(ServerError):
            await client.get(JOBS, A)
    assert len(script.requests) == 3


@pytest.mark.parametrize("failure", [aborts, refuses(500)])
@pytest.mark.parametrize(
    ("call", "times"),
    [
        pytest.param(lambda c: c.create(JOBS, "ns", VERSIONED), 1, id="create"),
        pytest.param(lambda c: c.merge_patch(JOBS, A, {"spec": {}}), 1, id="patch of whatever is there"),
        pytest.param(lambda c: c.merge_patch(JOBS, A, VERSIONED), 2, id="patch of a version"),
        pytest.param(lambda c: c.delete(JOBS, A), 1, id="delete of a name"),
        pytest.param(lambda c: c.delete(JOBS, A, uid="u"), 2, id="delete of an object"),
    ],
)
async def test_a_write_whose_answer_is_lost_is_repeated_only_if_it_is_guarded(
    call: Any, times: int, failure: Answer
) -> None:
    async with client_of(failure, FOUND) as (client, script):
        if times == 1:
            with pytest.raises((ClusterUnreachable, ServerError)):
                await call(client)
        else:
            await call(client)
    assert len(script.requests) == times


async def test_an_unguarded_write_on_a_connection_lost_meanwhile_is_not_repeated_by_the_library() -> None:
    async with client_of(FOUND, aborts, FOUND) as (client, script):
        await client.get(JOBS, A)
        with pytest.raises(ClusterUnreachable):
            await client.delete(JOBS, A)
    assert len(script.requests) == 2


async def test_a_create_is_repeated_when_the_server_says_that_it_did_not_take_it() -> None:
    async with client_of(refuses(429, headers={"Retry-After": "0"}), FOUND) as (client, script):
        await client.create(JOBS, "ns", {})
    assert len(script.requests) == 2


async def test_a_retry_after_beyond_the_deadline_is_the_callers_business() -> None:
    async with client_of(refuses(429, headers={"Retry-After": "40"}), FOUND) as (client, script):
        with pytest.raises(Throttled) as caught:
            await client.get(JOBS, A)
    assert (caught.value.after, len(script.requests)) == (40.0, 1)


async def test_a_conflict_is_never_repeated() -> None:
    async with client_of(refuses(409, "Conflict"), FOUND) as (client, script):
        with pytest.raises(Conflict):
            await client.merge_patch(JOBS, A, VERSIONED)
    assert len(script.requests) == 1


# Deadlines and cancellation.


async def test_a_server_that_does_not_answer_costs_no_more_than_the_deadline() -> None:
    async with client_of(hangs, call_timeout=0.2) as (client, _):
        started = monotonic()
        with pytest.raises(
            ClusterUnreachable, match=r"cluster w1 is unreachable: get jobs: no answer in time"
        ) as raised:
            await client.get(JOBS, A)
        assert raised.value.sent
    assert monotonic() - started < 1


async def test_a_body_that_never_ends_is_no_answer() -> None:
    async with client_of(streams(b'{"kind":', then="silence"), call_timeout=0.2) as (client, _):
        with pytest.raises(ClusterUnreachable, match="no answer in time"):
            await client.get(JOBS, A)


async def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: nobody else gets the port, nobody answers
        server = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with Client.connect(Credentials(server=server), cluster="w1", call_timeout=0.05) as client:
            with pytest.raises(ClusterUnreachable, match=r"no connection: .*Connect call failed") as raised:
                await client.get(JOBS, A)
            assert not raised.value.sent


async def test_cancellation_passes_and_leaves_the_client_usable() -> None:
    async with client_of(hangs, FOUND) as (client, _):
        with anyio.move_on_after(0.1) as scope:
            await client.get(JOBS, A)
        assert scope.cancelled_caught
        assert (await client.get(JOBS, A)).key == A


async def test_a_client_that_was_closed_is_unreachable() -> None:
    async with client_of(FOUND) as (client, _):
        pass
    started = monotonic()
    with pytest.raises(ClusterUnreachable, match="given up"):
        await client.get(JOBS, A)
    assert monotonic() - started < 0.05


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


# Credentials.


class Rotating:
    """A token source that gives one token after the other."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = iter(tokens)

    async def __call__(self) -> Grant:
        return Grant(next(self.tokens))


async def only_new(request: web.BaseRequest) -> web.StreamResponse:
    ok = request.headers.get("Authorization") == "new"
    return await (FOUND if ok else refuses(401, "Unauthorized"))(request)


async def test_a_refused_token_is_renewed_once() -> None:
    script = Script(only_new)
    credentials = Rotating("old", "new")
    async with serving(script) as url, Client.connect(Credentials(server=url, token=credentials)) as client:
        assert (await client.get(JOBS, A)).key == A
    assert [request.headers["Authorization"] for request in script.requests] == ["old", "new"]


async def test_a_create_that_was_refused_for_its_token_is_sent_again() -> None:
    script = Script(only_new)
    async with serving(script) as url, Client.connect(Credentials(server=url, token=Rotating("old", "new"))) as client:
        await client.create(JOBS, "ns", {"a": 1})
    assert script.bodies == [b'{"a":1}'] * 2


async def test_a_token_that_stays_refused_is_an_error() -> None:
    async with client_of(refuses(401, "Unauthorized")) as (client, script):
        with pytest.raises(Unauthorized):
            await client.get(JOBS, A)
    assert len(script.requests) == 1


async def test_a_stream_renews_a_refused_token_too() -> None:
    script = Script(only_new)
    async with (
        serving(script) as url,
        Client.connect(Credentials(server=url, token=Rotating("old", "new"))) as client,
        client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=1) as stream,
    ):
        assert json.loads(await stream.line())["kind"] == "Job"
    assert len(script.requests) == 2


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


# Streams.


async def read(client: Client, *, idle: float = 1.0) -> list[bytes]:
    lines = []
    async with client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=idle) as stream:
        while line := await stream.line():
            lines.append(line)
    return lines


async def test_a_stream_is_read_line_by_line_to_its_end() -> None:
    async with client_of(streams(b"1\n", b"2\n")) as (client, _):
        assert await read(client) == [b"1\n", b"2\n"]


async def test_a_line_of_nine_mebibytes_is_read_and_one_of_eleven_is_not() -> None:
    """A Job of 1.5 MiB may have nine in JSON."""
    async with client_of(streams(b"x" * 9 * 2**20 + b"\n"), streams(b"x" * 11 * 2**20 + b"\n")) as (client, _):
        assert len((await read(client))[0]) == 9 * 2**20 + 1
        with pytest.raises(ClusterUnreachable, match="watch: "):
            await read(client)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        pytest.param(refuses(404, "NotFound"), NotFound, id="404"),
        pytest.param(refuses(410, "Expired"), Expired, id="410"),
        pytest.param(says(b"<html>", status=502, kind="text/html"), ServerError, id="HTML 502"),
        pytest.param(says(b"", status=429), Throttled, id="an empty 429"),
        pytest.param(says(b"", status=204), ClusterUnreachable, id="a success that is no stream"),
    ],
)
async def test_an_error_is_never_read_as_a_stream(answer: Answer, kind: type[Exception]) -> None:
    async with client_of(answer) as (client, _):
        with pytest.raises(kind):
            await read(client)


async def test_opening_a_stream_has_a_deadline_although_reading_has_none() -> None:
    async with client_of(hangs, call_timeout=0.1) as (client, _):
        with pytest.raises(ClusterUnreachable, match="no answer in time"):
            await read(client, idle=60)


async def test_silence_ends_a_stream() -> None:
    async with client_of(streams(b"1\n", then="silence")) as (client, _):
        with pytest.raises(ClusterUnreachable, match="watch: no answer in time"):
            await read(client, idle=0.1)


async def test_a_lost_connection_ends_a_stream_with_an_error() -> None:
    async with client_of(streams(b"1\n", then="abort")) as (client, _):
        with pytest.raises(ClusterUnreachable, match="watch: "):
            await read(client)


async def test_a_stream_can_be_read_without_waiting_for_the_end_of_a_line() -> None:
    async with (
        client_of(streams(b"1\n2", then="silence")) as (client, _),
        client.stream("/api/v1/namespaces/a/pods/p/log", {}, idle=1) as stream,
    ):
        assert await stream.line() == b"1\n"
        assert await stream.piece() == b"2"
        with pytest.raises(ClusterUnreachable):
            await stream.piece()


async def test_streams_do_not_take_the_places_of_calls() -> None:
    answers = [streams(b"1\n", then="silence"), streams(b"1\n", then="silence"), FOUND]
    async with client_of(*answers, limit=1) as (client, _), AsyncExitStack() as open_streams:
        for _ in range(2):
            stream = await open_streams.enter_async_context(client.stream("/apis/batch/v1/jobs", {}, idle=5))
            await stream.line()
        with anyio.fail_after(2):
            assert (await client.get(JOBS, A)).key == A


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


# TLS.

AUTHORITY = trustme.CA()


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    """A server called w1.test that asks for a certificate of our authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue_cert("w1.test").configure_cert(context)
    AUTHORITY.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture
async def tls_server(server_tls: ssl.SSLContext) -> AsyncIterator[str]:
    async def who(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        certificate: Mapping[str, Any] = request.transport.get_extra_info("peercert")
        return await says(job(certificate["subjectAltName"][0][1]))(request)

    async with serving(who, tls=server_tls) as url:
        yield url


def identified(server: str, *, authority: trustme.CA = AUTHORITY, name: str = "w1.test") -> Credentials:
    ours = AUTHORITY.issue_cert("us@example.com")
    return Credentials(
        server=server,
        authority=authority.cert_pem.bytes(),
        certificate=ours.cert_chain_pems[0].bytes(),
        key=ours.private_key_pem.bytes(),
        tls_server_name=name,
    )


async def test_a_client_certificate_is_presented_to_a_server_that_is_verified(tls_server: str) -> None:
    async with Client.connect(identified(tls_server)) as client:
        assert (await client.get(JOBS, A)).key.name == "us@example.com"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"name": "other.test"}, id="another name"),
        pytest.param({"authority": trustme.CA()}, id="another authority"),
    ],
)
async def test_a_server_that_is_not_who_it_should_be_is_unreachable(tls_server: str, options: Any) -> None:
    async with Client.connect(identified(tls_server, **options), call_timeout=0.1) as client:
        with pytest.raises(ClusterUnreachable, match=r"TLS: .*certificate verify failed"):
            await client.get(JOBS, A)


async def test_a_certificate_of_a_plugin_is_presented(tls_server: str) -> None:
    ours = AUTHORITY.issue_cert("plugin@example.com")
    grant = Grant("", ours.cert_chain_pems[0].bytes(), ours.private_key_pem.bytes())

    async def plugin() -> Grant:
        return grant

    authority = AUTHORITY.cert_pem.bytes()
    credentials = Credentials(server=tls_server, authority=authority, tls_server_name="w1.test", token=plugin)
    async with Client.connect(credentials) as client:
        assert (await client.get(JOBS, A)).key.name == "plugin@example.com"


async def test_a_proxy_of_the_kubeconfig_is_used() -> None:
    script = Script(FOUND)
    async with serving(script) as proxy, Client.connect(Credentials(server="http://w1.test", proxy=proxy)) as client:
        assert (await client.get(JOBS, A)).key == A
    assert str(script.requests[0].headers["Host"]) == "w1.test"


# Other credentials.


def held(answer: Answer, go: anyio.Event, asked: anyio.Event) -> Answer:
    """That answer, once `go` is set; `asked` is set when the question has come."""

    async def wait(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await go.wait()
        return await answer(request)

    return wait


def tokens(script: Script) -> list[str | None]:
    return [request.headers.get("Authorization") for request in script.requests]


async def test_what_is_asked_after_a_change_goes_to_the_new_server_with_the_new_token() -> None:
    async with client_of(FOUND) as (client, old), client_of(FOUND) as (other, new):
        before = client.route
        await client.get(JOBS, A)
        client.take_over(other)
        await client.get(JOBS, A)
        assert (len(old.requests), len(new.requests)) == (1, 1)
        assert client.route is not before


async def test_the_client_taken_over_may_be_closed() -> None:
    script = Script(FOUND)
    async with client_of(hangs) as (client, _), serving(script) as url:
        async with Client.connect(Credentials(server=url, token=FixedToken("Bearer new"))) as other:
            client.take_over(other)
        await client.get(JOBS, A)
        assert tokens(script) == ["Bearer new"]


async def test_a_write_under_way_is_let_finish() -> None:
    go, asked, answers = anyio.Event(), anyio.Event(), []
    async with client_of(held(FOUND, go, asked)) as (client, old), client_of(FOUND) as (other, new):

        async def create() -> None:
            answers.append(await client.create(JOBS, "ns", job("a")))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(create)
            await asked.wait()
            client.take_over(other)
            go.set()
        assert names(answers) == ["a"]
        assert (len(old.requests), len(new.requests)) == (1, 0)


async def test_a_write_refused_for_its_token_meanwhile_is_sent_with_the_new_one() -> None:
    go, asked = anyio.Event(), anyio.Event()
    refusing = held(refuses(401, "Unauthorized"), go, asked)
    async with client_of(refusing) as (client, old), client_of(FOUND) as (other, new):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.create, JOBS, "ns", job("a"))
            await asked.wait()
            client.take_over(other)
            go.set()
        assert (old.asked, new.asked) == (["POST /apis/batch/v1/namespaces/ns/jobs"],) * 2


async def test_a_stream_ends_for_its_reader_as_if_by_itself() -> None:
    async with (
        client_of(streams(b"one\n", then="silence")) as (client, _),
        client_of(FOUND) as (other, _),
        client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=60) as stream,
    ):
        assert await stream.line() == b"one\n"
        async with anyio.create_task_group() as tasks:
            lines = []

            async def read() -> None:
                lines.append(await stream.line())

            tasks.start_soon(read)
            await anyio.wait_all_tasks_blocked()
            client.take_over(other)
        assert lines == [b""]
        assert await stream.line() == b""


async def test_a_stream_that_is_being_opened_ends_too() -> None:
    go, asked = anyio.Event(), anyio.Event()
    async with client_of(held(hangs, go, asked)) as (client, _), client_of(FOUND) as (other, _):
        lines = []

        async def read() -> None:
            async with client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=60) as stream:
                lines.append(await stream.line())

        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read)
                await asked.wait()
                client.take_over(other)
        assert lines == [b""]
        go.set()


async def test_no_call_fails_when_the_old_token_is_revoked_at_the_very_moment_of_the_change() -> None:
    good, made, enough = {"Bearer one"}, 0, 60

    async def server(request: web.BaseRequest) -> web.StreamResponse:
        await anyio.sleep(0.001)
        return await (FOUND if request.headers["Authorization"] in good else refuses(401, "Unauthorized"))(request)

    def credentials(token: str) -> Credentials:
        return Credentials(server=url, token=FixedToken(f"Bearer {token}"))

    async with (
        serving(server) as url,
        Client.connect(credentials("one")) as client,
        Client.connect(credentials("two")) as other,
    ):

        async def work() -> None:
            nonlocal made, good
            while made < enough:
                await client.create(JOBS, "ns", job("a"))
                made += 1
                if made == enough // 2:
                    good = {"Bearer two"}
                    client.take_over(other)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(work)
    assert made >= enough
