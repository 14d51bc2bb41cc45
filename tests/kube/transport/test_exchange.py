"""A call on the wire: what the server gets, and what becomes of the connection."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import aiohttp
import anyio
import pytest
from yarl import URL

from fakekube.front_end.authority import Authority
from multikueue.kube.transport.connector import MOST_UNASKED
from multikueue.kube.transport.exchange import LARGE_REQUEST, _free_write_buffer
from multikueue.kube.transport.session import NOT_SENT, Session, open_session

pytestmark = pytest.mark.anyio

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
TIMEOUT = aiohttp.ClientTimeout(total=10)

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Says `answers` in turn, each to one request, whatever it is; remembers requests and connections."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while True:
            self.requests.append(await _request(reader))
            writer.write(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0)
    return head + await reader.readexactly(length)


@contextlib.asynccontextmanager
async def session_to(play: Play) -> AsyncIterator[tuple[Session, URL]]:
    served = set[asyncio.Task[None]]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await play(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    session = open_session(user_agent="x")
    try:
        yield session, URL(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/apis/a%2Fb?c=d", encoded=True)
    finally:
        await session.close()
        server.close()
        await asyncio.wait(served) if served else None


async def body_of(session: Session, url: URL, method: str = "GET", **options: object) -> bytes:
    async with session.request(method, url, **{"timeout": TIMEOUT, **options}) as answer:
        body = b""
        while block := await answer.content.readany():
            body += block
        return body


async def test_a_request_is_one_piece_with_all_its_headers() -> None:
    server = Server(ANSWER)
    async with session_to(server) as (session, url):
        assert await body_of(session, url, "POST", data=b"body", headers={"Content-Type": "y"}) == b"{}"
    first, *headers = server.requests[0].removesuffix(b"\r\n\r\nbody").split(b"\r\n")
    assert first == b"POST /apis/a%2Fb?c=d HTTP/1.1"
    assert set(headers) == {
        b"Host: %s" % url.authority.encode(),
        b"User-Agent: x",
        b"Accept: application/json",
        b"Content-Type: y",
        b"Content-Length: 4",
    }


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
async def test_a_write_without_a_body_says_so(method: str) -> None:
    server = Server(ANSWER)
    async with session_to(server) as (session, url):
        await body_of(session, url, method)
    assert b"\r\nContent-Length: 0\r\n" in server.requests[0]


@pytest.mark.parametrize("text", ["a\r\nHost: evil", "a\nb", "a\rb", "a\0b"])
async def test_a_header_is_one_line(text: str) -> None:
    server = Server(ANSWER)
    async with session_to(server) as (session, url):
        with pytest.raises(ValueError, match="control character"):
            await body_of(session, url, headers={"Authorization": text})
    assert server.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ANSWER, id="with its length"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", id="chunked"
        ),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\n\r\n" + ANSWER, id="after a hint"),
    ],
)
async def test_a_connection_serves_one_call_after_the_other(answer: bytes) -> None:
    server = Server(answer)
    async with session_to(server) as (session, url):
        assert [await body_of(session, url) for _ in range(3)] == [b"{}"] * 3
    assert server.connections == 1


async def test_a_connection_with_a_refusal_on_it_is_used_again() -> None:
    server = Server(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", ANSWER)
    async with session_to(server) as (session, url):
        assert [await body_of(session, url) for _ in range(2)] == [b"no", b"{}"]
    assert server.connections == 1


@pytest.mark.parametrize(
    ("size", "connections"),
    [pytest.param(LARGE_REQUEST, 1, id="no large one"), pytest.param(LARGE_REQUEST + 1, 2, id="a large one")],
)
async def test_a_connection_that_carried_a_large_request_is_not_used_again(size: int, connections: int) -> None:
    server = Server(ANSWER)
    async with session_to(server) as (session, url):
        assert [await body_of(session, url, "POST", data=b"x" * size) for _ in range(2)] == [b"{}"] * 2
    assert server.connections == connections


async def test_a_connection_that_the_server_closes_is_not_used_again() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", ANSWER)
    async with session_to(server) as (session, url):
        assert [await body_of(session, url) for _ in range(2)] == [b"{}"] * 2
    assert server.connections == 2


@pytest.mark.parametrize("answer", [ANSWER + b"more", b"HTTP/1.1 204 No Content\r\n\r\nmore"])
async def test_more_than_the_answer_is_an_error_and_ends_the_connection(answer: bytes) -> None:
    server = Server(answer, ANSWER)
    async with session_to(server) as (session, url):
        with pytest.raises(aiohttp.ClientError):
            await body_of(session, url)
        assert await body_of(session, url) == b"{}"
    assert server.connections == 2


async def test_what_is_left_of_an_answer_is_never_taken_for_the_next() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfirst", ANSWER)
    async with session_to(server) as (session, url):
        async with session.request("GET", url, timeout=TIMEOUT) as answer:
            assert await answer.content.readany() == b"first"
        assert await body_of(session, url) == b"{}"
    assert server.connections == 2


async def test_an_answer_before_the_whole_request_ends_the_connection() -> None:
    connections = 0

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"\r\n")
        writer.write(ANSWER)
        await reader.read()

    body = b"x" * 2**24
    async with session_to(hasty) as (session, url):
        assert [await body_of(session, url, "POST", data=body) for _ in range(2)] == [b"{}"] * 2
    assert connections == 2


async def test_a_call_without_an_answer_ends_in_time_and_frees_its_place() -> None:
    async def mute(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    timeout = aiohttp.ClientTimeout(total=0.02)
    async with session_to(mute) as (session, url):
        for _ in range(2):  # there is one place
            with pytest.raises(TimeoutError):
                await body_of(session, url, timeout=timeout)


async def test_a_cancelled_call_frees_its_place() -> None:
    asked = anyio.Event()

    async def first_mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if asked.is_set():
            await server(reader, writer)
        else:
            await reader.readuntil(b"\r\n\r\n")
            asked.set()
            await reader.read()

    server = Server(ANSWER)
    async with session_to(first_mute) as (session, url):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(body_of, session, url)
            await asked.wait()
            tasks.cancel_scope.cancel()
        assert await body_of(session, url) == b"{}"


async def test_nonsense_for_an_answer_is_an_error_of_aiohttp() -> None:
    async with session_to(Server(b"SSH-2.0-x\r\n\r\n")) as (session, url):
        with pytest.raises(aiohttp.ClientResponseError):
            await body_of(session, url)


async def test_a_connection_that_ends_without_an_answer_is_an_error_of_aiohttp() -> None:
    async def curt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with session_to(curt) as (session, url):
        with pytest.raises(aiohttp.ClientConnectionError):
            await body_of(session, url)


async def test_a_closed_session_sends_nothing() -> None:
    async with session_to(Server(ANSWER)) as (session, url):
        await session.close()
        with pytest.raises(RuntimeError, match="closed"):
            await body_of(session, url)


def handshaken(tmp_path: Path) -> tuple[ssl.SSLObject, ssl.SSLObject, Callable[[], None], ssl.MemoryBIO]:
    """Client and server, a function that delivers what they have sent, and what the client has sent."""
    authority = Authority()
    crt, key = authority.issue("server", "localhost").write(tmp_path)
    there = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    there.load_cert_chain(crt, key)
    ours, theirs = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    client = ssl.create_default_context(cadata=authority.pem.decode()).wrap_bio(*ours, server_hostname="localhost")
    server = there.wrap_bio(*theirs, server_side=True)

    def delivered() -> None:
        theirs[0].write(ours[1].read())
        ours[0].write(theirs[1].read())

    for _ in range(3):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            delivered()
    return client, server, delivered, ours[1]


async def test_what_tls_took_for_a_ticket_is_given_back_without_a_byte_to_the_server(tmp_path: Path) -> None:
    client, server, delivered, sent = handshaken(tmp_path)
    client.write(b"ask")
    delivered()
    assert server.read() == b"ask"
    server.write(b"answer")
    delivered()
    assert client.read() == b"answer"
    _free_write_buffer(cast(asyncio.BaseTransport, SimpleNamespace(get_extra_info={"ssl_object": client}.get)))
    assert sent.pending == 0
    client.write(b"more")
    delivered()
    assert server.read() == b"more"


async def test_a_connection_without_tls_or_one_that_is_gone_has_nothing_to_give_back() -> None:
    _free_write_buffer(None)
    _free_write_buffer(cast(asyncio.BaseTransport, SimpleNamespace(get_extra_info={}.get)))


UNASKED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\n\r\n"


class Talker(Server):
    """Answers as `Server` does and then, once `idle` is set, says `more` until it is cut off or `most` bytes are out."""

    def __init__(self, *answers: bytes, more: bytes, most: int = 2**24) -> None:
        super().__init__(*answers)
        self.more, self.most, self.said = more, most, 0
        self.idle, self.cut_off = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.requests.append(await _request(reader))
        writer.write(self.answers[0])
        await self.idle.wait()
        try:
            while self.said < self.most:
                writer.write(self.more * 1000)
                await writer.drain()
                self.said += len(self.more) * 1000
                await asyncio.sleep(0)
        except ConnectionError:
            self.cut_off.set()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(UNASKED, id="whole answers"),
        pytest.param(INTERIM, id="interim answers"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", id="an answer that has only begun"),
        pytest.param(b"\0", id="what is no answer"),
    ],
)
async def test_who_says_more_than_was_asked_is_cut_off(more: bytes) -> None:
    server = Talker(ANSWER, more=more)
    async with session_to(server) as (session, url):
        assert await body_of(session, url) == b"{}"
        server.idle.set()
        with anyio.fail_after(10):
            await server.cut_off.wait()
    assert server.said < server.most


async def test_interim_answers_have_an_end() -> None:
    server = Talker(b"", more=INTERIM)
    server.idle.set()
    async with session_to(server) as (session, url):
        with pytest.raises(aiohttp.ClientError, match="more answers than were asked for"):
            await body_of(session, url)
        with anyio.fail_after(10):
            await server.cut_off.wait()


async def test_a_few_interim_answers_are_passed_over() -> None:
    async with session_to(Server(INTERIM * 3 + ANSWER)) as (session, url):
        assert await body_of(session, url) == b"{}"


async def test_two_answers_at_once_are_one_too_many() -> None:
    server = Server(ANSWER + ANSWER, ANSWER)
    async with session_to(server) as (session, url):
        for _ in range(2):
            assert await body_of(session, url) == b"{}"
    assert server.connections == 2


async def test_nothing_is_kept_of_what_arrives_on_an_idle_connection() -> None:
    """Parsed answers were queued without bound: a worker filled the memory of the manager."""
    server = Talker(ANSWER, more=UNASKED)
    async with session_to(server) as (session, url):
        tracemalloc.start()
        try:
            await body_of(session, url)
            server.idle.set()
            with anyio.fail_after(20):
                await server.cut_off.wait()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert kept < 2**21


async def test_who_is_cut_off_again_and_again_is_not_spoken_to_for_a_while() -> None:
    server = Server(ANSWER + UNASKED)
    async with session_to(server) as (session, url):
        for _ in range(MOST_UNASKED):
            assert await body_of(session, url) == b"{}"
        with pytest.raises(aiohttp.ClientConnectorError, match="answers that nobody asked for") as refused:
            await body_of(session, url)
        assert isinstance(refused.value, NOT_SENT)
    assert server.connections == MOST_UNASKED
