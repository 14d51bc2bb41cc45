"""What comes from a server is bounded, whatever the server is: one file, a table of bounds."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import traceback
import tracemalloc
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import anyio
import anyio.lowlevel
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from multikueue.api.kinds import JOBS, WORKLOADS
from multikueue.api.meta import ObjectKey
from multikueue.errors import ApiError, ClusterUnreachable, Forbidden, Invalid, InvalidObject, MultiKueueError, TooLarge
from multikueue.kube.auth.credentials import Credentials, from_kubeconfig
from multikueue.kube.client import Client, Stream
from multikueue.kube.decode import pieces_of
from multikueue.kube.transport.session import TRANSPORT_ERRORS, ResponseLines, beginning
from tests.kube.following import running
from tests.kube.server import Answer, Script, aborts, client_of, job, lists, names, refuses, says, serving, streams

A = ObjectKey("ns", "a")
MIB = 2**20


def packed(body: bytes, *, status: int = 200) -> Answer:
    return says(gzip.compress(body), status=status, headers={"Content-Encoding": "gzip"})


def limits_of(script: Script) -> list[str | None]:
    return script.queries("limit")


class Blocks:
    """An answer without an end, which counts how much of it was taken."""

    def __init__(self, block: bytes = b"x" * 1000, headers: Mapping[str, str] | None = None) -> None:
        self.taken, self.block = 0, block
        self.status, self.headers, self.content = 200, headers or {}, self

    async def readany(self) -> bytes:
        self.taken += 1
        return self.block

    def close(self) -> None: ...


# How much of one answer.


@pytest.mark.anyio
async def test_no_more_of_a_body_is_read_than_is_needed_to_know_that_it_is_too_large() -> None:
    answer = Blocks()
    assert len(await beginning(answer, 9_500, asyncio.Lock())) == 10_000
    assert answer.taken == 10


@pytest.mark.anyio
async def test_no_more_is_unpacked_than_is_needed_and_others_have_their_turn_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unpacked, turns, unpacker = [0], 0, zlib.decompressobj

    class Counting:
        def __init__(self, wbits: int) -> None:
            self._real = unpacker(wbits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            piece = self._real.decompress(data, most)
            unpacked.append(len(piece))
            return piece

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    monkeypatch.setattr("multikueue.kube.transport.session.zlib.decompressobj", Counting)
    answer = Blocks(gzip.compress(b" " * 40 * MIB), {"Content-Encoding": "gzip"})
    async with anyio.create_task_group() as group:
        group.start_soon(others)
        assert len(await beginning(answer, 9 * MIB, asyncio.Lock())) <= 10 * MIB
        group.cancel_scope.cancel()
    assert answer.taken == 1
    assert sum(unpacked) <= 10 * MIB
    assert max(unpacked) <= MIB
    assert turns >= 9


class Slow(Blocks):
    """An answer of some MiB, a quarter at a time, and how much of all of them is taken and not yet given to who asked."""

    held: ClassVar[list[int]] = []

    def __init__(self, mebibytes: int) -> None:
        super().__init__(b"x" * (MIB // 4))
        self.left = 4 * mebibytes

    async def readany(self) -> bytes:
        await anyio.lowlevel.checkpoint()
        if not self.left:
            return b""
        self.left -= 1
        self.held.append(self.held[-1] + 1 if self.held else 1)
        return self.block


@pytest.mark.anyio
async def test_large_answers_of_one_cluster_come_one_after_the_other() -> None:
    alone = asyncio.Lock()
    Slow.held.clear()

    async def read(mebibytes: int) -> None:
        body = await beginning(Slow(mebibytes), 20 * MIB, alone)
        assert len(body) == mebibytes * MIB
        Slow.held.append(Slow.held[-1] - 4 * mebibytes)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(read, 8)
    assert max(Slow.held) <= 4 * 8 + 4 * 2, "one whole answer, and a quarter of a MiB and a piece of each of the others"


@pytest.mark.anyio
async def test_an_answer_that_is_not_large_waits_for_no_other() -> None:
    alone = asyncio.Lock()
    await alone.acquire()
    with anyio.fail_after(5):
        assert await beginning(Slow(1), 2 * MIB - 1, asyncio.Lock())
        lines = ResponseLines(Blocks(b'{"type":1}\n{"ty'), alone)
        assert [await lines.next() for _ in range(2)] == [b'{"type":1}\n', b'{"ty{"type":1}\n']


class Pieces(Blocks):
    """An answer in these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self.pieces = list(pieces)

    async def readany(self) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


@settings(max_examples=200)
@given(st.lists(st.text("ab\n", max_size=5).map(str.encode), max_size=8).map(lambda pieces: [p for p in pieces if p]))
def test_lines_are_those_of_the_text_however_it_comes(pieces: list[bytes]) -> None:
    async def read() -> list[bytes]:
        lines, found = ResponseLines(Pieces(*pieces), asyncio.Lock()), []
        while line := await lines.next():
            found.append(line)
        return found

    assert anyio.run(read) == b"".join(pieces).splitlines(keepends=True)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "pieces", [(b"{}\n" * 100_000,), (b"x" * 100_000, b"x" * 100_000 + b"\n")], ids=["many", "long"]
)
async def test_lines_that_were_handed_out_are_kept_no_longer(pieces: Sequence[bytes]) -> None:
    lines, read = ResponseLines(Pieces(*pieces), asyncio.Lock()), 0
    while read < sum(map(len, pieces)):
        read += len(await lines.next())
    assert lines._block == b""


@pytest.mark.anyio
async def test_a_line_that_is_longer_than_any_object_is_the_end_of_a_watch() -> None:
    stream, endless = Stream("w1"), Blocks(b"x" * MIB)
    stream.attach(endless, asyncio.Lock())
    with pytest.raises(ClusterUnreachable, match="watch: a line of more than 10 MiB"):
        await stream.line()
    assert endless.taken == 11


@pytest.mark.anyio
async def test_a_packed_answer_arrives_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its size is to that of the pieces."""
    monkeypatch.setattr("multikueue.kube.transport.session._PIECE", 64)
    monkeypatch.setattr("multikueue.kube.transport.session._PACKED_PIECE", 7)
    for size in (0, 1, 63, 64, 65, 128, 5000):
        body = json.dumps("<é" * size).encode()
        async with client_of(packed(body)) as (client, script):
            assert await client.request("GET", "/version") == body
        assert script.requests[0].headers["Accept-Encoding"] == "gzip"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("body", "packing", "said"),
    [
        pytest.param(b"{}", "gzip", "the answer is no gzip", id="none"),
        pytest.param(gzip.compress(b"{}" * 99)[:-3], "gzip", "the answer's gzip has no end", id="cut off"),
        pytest.param(gzip.compress(b"{}") + b"x" * 99, "gzip", "goes on behind its gzip", id="more behind it"),
        pytest.param(b"{}", "br", "packed as br, which nobody asked for", id="another packing"),
    ],
)
async def test_an_answer_that_cannot_be_unpacked_is_none(body: bytes, packing: str, said: str) -> None:
    async with client_of(says(body, headers={"Content-Encoding": packing})) as (client, _):
        with pytest.raises(ClusterUnreachable, match=said):
            await client.request("POST", "/version")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("call", "said"),
    [
        pytest.param(
            lambda c: c.get(JOBS, A), r"get /apis/batch/v1/namespaces/ns/jobs/a: .* more than 10 MiB", id="an object"
        ),
        pytest.param(lambda c: c.create(JOBS, "ns", {}), "more than 10 MiB", id="the answer to a write"),
        pytest.param(lambda c: c.request("GET", "/version"), r"get /version: .* more than 10 MiB", id="anything"),
    ],
)
async def test_an_answer_that_is_larger_than_it_can_be_is_given_up_and_not_asked_for_again(
    call: Callable[[Client], Any], said: str
) -> None:
    async with client_of(packed(b" " * 40 * MIB)) as (client, script):
        with pytest.raises(TooLarge, match=said):
            await call(client)
        assert len(script.requests) == 1


@pytest.mark.anyio
async def test_an_object_may_be_as_large_as_a_server_keeps_any() -> None:
    async with client_of(packed(json.dumps(job("a", spec={"x": "<" * 9 * MIB})).encode())) as (client, _):
        assert (await client.get(JOBS, A)).key == A


@pytest.mark.anyio
async def test_a_large_error_is_that_error_with_a_short_text() -> None:
    async with client_of(packed(b'{"kind":"Status","message":"' + b"m" * 20 * MIB, status=422)) as (client, _):
        with pytest.raises(Invalid) as caught:
            await client.get(JOBS, A)
    assert len(str(caught.value)) < 1200


@pytest.mark.anyio
async def test_a_value_that_is_none_of_its_kind_is_not_told_in_full() -> None:
    odd = job("a", status={"conditions": [{"type": "Finished", "status": "x" * MIB, "message": ""}]})
    async with client_of(says(odd)) as (client, _):
        with pytest.raises(InvalidObject, match="Invalid enum value 'xxx") as caught:
            await client.get(WORKLOADS, A)
    assert len(str(caught.value)) < 1200


# How much of one list.


@pytest.mark.anyio
@pytest.mark.parametrize("cluster", ["", "w1"], ids=["the manager", "a worker"])
async def test_a_page_of_large_objects_is_asked_for_again_with_fewer(
    cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And smaller ones behind them come in larger pages again."""
    monkeypatch.setattr("multikueue.kube.client.LARGEST_PAGE", 8_000)
    sizes = [5_000, 5_000, *[100] * 14]

    async def pages(request: web.BaseRequest) -> web.StreamResponse:
        start, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        end = min(start + limit, len(sizes))
        items = [job(f"{n}", spec={"x": "x" * sizes[n]}) for n in range(start, end)]
        return await lists(*items, cont=str(end) if end < len(sizes) else "")(request)

    script = Script(pages)
    async with serving(script) as url, Client.connect(Credentials(server=url), cluster=cluster) as client:
        page = await client.list(JOBS, page=8)
    assert names(page.items) == [str(n) for n in range(len(sizes))]
    assert limits_of(script) == ["8", "2", "1", "1", "1", "2", "4", "8"]


@pytest.mark.anyio
async def test_one_object_that_is_larger_than_a_page_may_be_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.kube.client.LARGEST_PAGE", 8_000)
    async with client_of(lists(job("a", spec={"x": "x" * 9_000}))) as (client, script):
        with pytest.raises(TooLarge, match=r"list /apis/batch/v1/jobs: the answer has more than 0.0076"):
            await client.list(JOBS, page=8)
    assert limits_of(script) == ["8", "2", "1"]


@pytest.mark.anyio
async def test_a_list_that_leads_to_itself_has_an_end() -> None:
    async with client_of(lists(job("a"), cont="more")) as (client, script):
        with pytest.raises(ClusterUnreachable, match="list jobs: the next page is the same page forever"):
            await client.list(JOBS)
    assert len(script.requests) == 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("item", "count"), [("0", 25_000), ("{}", 99_000), ("{}", 200_000), ('{"metadata":{}}', 100_000)]
)
async def test_a_page_of_tiny_items_takes_little_more_than_itself(
    item: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are more than a worker may show objects; of those without a name few are reported."""
    monkeypatch.setattr("multikueue.kube.client.MOST_OBJECTS", count - 1)
    page = b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join([item.encode()] * count) + b"]}"
    assert len(list(pieces_of(page))) > 1, "what is compiled once does not count"
    async with client_of(says(page)) as (client, _):
        tracemalloc.start()
        try:
            with pytest.raises(TooLarge, match=r"more than \d+ objects"):
                await client.list(JOBS, page=1, is_wanted=lambda _: False)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 4 * len(page) + 12 * 2**20


@pytest.mark.anyio
async def test_what_is_not_wanted_is_let_go_page_by_page() -> None:
    async with client_of(lists(job("a"), job("no"), cont="x"), lists(job("not"), job("b"))) as (client, _):
        page = await client.list(JOBS, is_wanted=lambda item: not item.key.name.startswith("no"))
    assert [item.key.name for item in page.items] == ["a", "b"]


@pytest.mark.anyio
async def test_a_list_has_only_so_many_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.kube.client._MOST_PAGES", 7)

    async def circle(request: web.BaseRequest) -> web.StreamResponse:
        return await lists(cont="b" if request.query.get("continue") == "a" else "a")(request)

    async with client_of(circle) as (client, script):
        with pytest.raises(TooLarge, match="list jobs: it has more than 7 pages"):
            await client.list(JOBS)
    assert len(script.requests) == 7


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("bound", "most"),
    [pytest.param("MOST_OBJECTS", 3, id="too many"), pytest.param("LARGEST_COLLECTION", 600, id="too much")],
)
async def test_a_worker_shows_only_so_many_objects_and_the_manager_cluster_any(
    bound: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"multikueue.kube.client.{bound}", most)
    script = Script(lists(job("a"), job("b"), cont="1"), lists(job("c"), {"metadata": {"name": "d", "labels": 1}}))
    async with serving(script) as url:
        async with Client.connect(Credentials(server=url), cluster="w1") as worker:
            with pytest.raises(TooLarge, match=r"list jobs: there are more than .* objects or .* MiB"):
                await worker.list(JOBS)
        async with Client.connect(Credentials(server=url)) as manager:
            assert names((await manager.list(JOBS)).items) == ["c"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        pytest.param("0 1 2 3 4 5 6 7 8", ["replace 10", "upsert 3"], id="all are wanted"),
        pytest.param("0 1 2", ["replace 10"], id="what is left out counts too"),
    ],
)
async def test_what_a_watch_adds_is_bounded_as_a_list_is(
    wanted: str, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multikueue.kube.client.MOST_OBJECTS", 3)
    few, many = [job(f"{n}", version=n) for n in range(3)], [job(f"{n}", version=n) for n in range(9)]
    flood = streams(*({"type": "ADDED", "object": each} for each in many[3:]), then="silence")
    async with running(lists(*few), flood, lists(*many), wanted=lambda name: name in wanted) as run:
        await run.until(lambda: (False, "list jobs: there are more than 3 objects or 512 MiB") in run.states)
        assert run.sink.told == told


@pytest.mark.anyio
async def test_many_changes_of_few_objects_are_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list tells that there are few."""
    monkeypatch.setattr("multikueue.kube.client.LARGEST_COLLECTION", 2_000)
    busy = streams(*({"type": "MODIFIED", "object": job("a", version=n)} for n in range(11, 60)), then="silence")
    async with running(lists(job("a")), busy, lists(job("a"), version="60"), streams(then="silence")) as run:
        await run.until(lambda: "replace 60" in run.sink.told)
        assert run.states == [(True, "")]


# What an error shows.


def kubeconfig(server: str, proxy: str) -> dict[str, Any]:
    cluster = {"server": server, "proxy-url": proxy}
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
    }


@pytest.mark.anyio
@pytest.mark.parametrize("server", ["https://w1.test", "http://w1.test"])
@pytest.mark.parametrize("answer", [refuses(403), aborts], ids=["refused", "broken"])
async def test_a_proxy_learns_its_password_and_nobody_else_does(server: str, answer: Answer) -> None:
    script = Script(answer)
    async with serving(script) as url:
        found = await from_kubeconfig(kubeconfig(server, url.replace("http://", "http://me:S3CRET@")))
        async with Client.connect(found, cluster="w1") as client:
            with pytest.raises((ClusterUnreachable, Forbidden)) as caught:
                await client.get(JOBS, A)
    told = "Basic " + base64.b64encode(b"me:S3CRET").decode()
    assert script.requests[0].headers["Proxy-Authorization"] == told
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(found)
    assert "S3CRET" not in shown
    assert told not in shown


@pytest.mark.anyio
async def test_a_server_behind_a_proxy_never_learns_the_proxys_password() -> None:
    """TLS is spoken through a tunnel, and only who digs it is told."""
    assert (await from_kubeconfig(kubeconfig("https://w1.test", "http://me:pw@p"))).proxy == "http://p"


# Whatever a server says.


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "name", "items", "continue", "kind", "details", "retryAfterSeconds", "status", "spec", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)
BODIES = st.binary(max_size=200) | JSON.map(lambda tree: json.dumps(tree).encode())
LINES = st.sampled_from(
    [
        b"Retry-After: 1e300",
        b"Retry-After: -1",
        b"Content-Encoding: gzip",
        b"Content-Encoding: br",
        b"Content-Length: 7",
        b"Content-Length: -1",
        b"Transfer-Encoding: chunked",
        b"Location: http://u:p@elsewhere/",
        b"Connection: close",
        b"Set-Cookie: a=b",
    ]
) | st.binary(max_size=30)
STATUSES = st.sampled_from(
    [100, 101, 200, 201, 204, 206, 301, 304, 400, 401, 404, 409, 410, 429, 500, 503, 599, 0, 999]
)


def asks() -> Mapping[str, Callable[[Client], Any]]:
    return {
        "get": lambda c: c.get(JOBS, A),
        "list": lambda c: c.list(JOBS),
        "create": lambda c: c.create(JOBS, "ns", {"a": 1}),
        "delete": lambda c: c.delete(JOBS, A),
        "watch": follow,
    }


async def follow(client: Client) -> None:
    async with client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=1) as stream:
        while await stream.line():
            pass


async def outcome(raw: bytes, call: Callable[[Client], Any]) -> BaseException | None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(raw)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        credentials = Credentials(server=f"http://127.0.0.1:{port}")
        async with Client.connect(credentials, cluster="w1", call_timeout=0.3) as client:
            try:
                await call(client)
            except Exception as error:  # noqa: BLE001  # it is looked at
                return error
    return None


@settings(max_examples=50)
@given(st.sampled_from(sorted(asks())), STATUSES, st.lists(LINES, max_size=4), BODIES)
def test_whatever_a_server_answers_is_an_object_or_an_error_of_ours(
    name: str, status: int, headers: list[bytes], body: bytes
) -> None:
    raw = b"\r\n".join([b"HTTP/1.1 %d Some" % status, *headers, b"", body])
    error = anyio.run(outcome, raw, asks()[name])
    assert error is None or isinstance(error, MultiKueueError), repr(error)
    if isinstance(error, ApiError):
        assert error.after is None or 0 <= error.after <= 120


class Gone(Blocks):
    """An answer whose connection is closed already when more of it is asked for."""

    async def readany(self) -> bytes:
        raise RuntimeError("Connection closed.")


@pytest.mark.anyio
async def test_a_connection_that_is_gone_before_anybody_waits_for_more_is_a_broken_one() -> None:
    stream = Stream("w1")
    stream.attach(Gone(), asyncio.Lock())
    with pytest.raises(ClusterUnreachable, match="Connection closed"):
        await stream.line()
    with pytest.raises(TRANSPORT_ERRORS):
        await beginning(Gone(), 100, asyncio.Lock())
