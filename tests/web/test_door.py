from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import uvloop

from fakekube.front_end.authority import Authority
from multikueue.web.admission import AdmissionLookups
from multikueue.web.certificates import renewed
from multikueue.web.door import HEAD_TIMEOUT, IDLE_TIMEOUT, LARGEST_HEAD
from multikueue.web.server import LARGEST_REVIEW, WEBHOOK_PATH, Server
from multikueue.web.serving import Serving, serving
from tests.web.builders import review_of

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"
SERVED = serving(renewed(datetime.now(UTC), {}, names=[HOST]))
GET = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def server() -> Server:
    return Server(ready=lambda: None, known=AdmissionLookups(does_dispatch=lambda _namespace, _queue: True))


def trusting(certificate: Serving = SERVED) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificate.bundle.decode())


@asynccontextmanager
async def called(port: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(wire: Wire, sent: bytes) -> bytes:
    """The head of the answer to that; empty if there is none."""
    wire[1].write(sent)
    with suppress(OSError, asyncio.IncompleteReadError):
        return await wire[0].readuntil(b"\r\n\r\n")
    return b""


async def hung_up(wire: Wire) -> None:
    """Returns when the other side has ended it."""
    with anyio.fail_after(5), suppress(OSError):
        while await wire[0].read(1000):
            pass


def post(length: int, body: bytes, *, headers: bytes = b"") -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s" % (
        WEBHOOK_PATH.encode(),
        length,
        headers,
        body,
    )


@pytest.mark.parametrize("sent", [b"", b"GET /heal", GET[:-2]], ids=["nothing", "half a line", "half a head"])
@pytest.mark.parametrize("tls", [None, trusting()], ids=["plain", "TLS"])
async def test_who_never_comes_to_ask_is_hung_up_on(
    sent: bytes, tls: ssl.SSLContext | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("multikueue.web.door.HEAD_TIMEOUT", timedelta(milliseconds=20))
    async with server() as listening:
        port = await (
            listening.serve_webhook(HOST, 0, SERVED) if tls else listening.serve_plain(HOST, 0, has_probes=True)
        )
        async with called(port, tls) as wire:
            wire[1].write(sent)
            await hung_up(wire)


async def test_who_says_nothing_at_all_where_tls_is_spoken_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.server.HANDSHAKE_TIMEOUT", timedelta(milliseconds=20))
    async with server() as listening, called(await listening.serve_webhook(HOST, 0, SERVED)) as wire:
        await hung_up(wire)


@pytest.mark.parametrize("sent", [b"x" * 2**20, b"x\r\nX-Odd: " * 2**17], ids=["in one line", "in many"])
async def test_a_head_without_an_end_is_hung_up_on_and_leaves_nothing(sent: bytes) -> None:
    async with server() as listening, called(await listening.serve_plain(HOST, 0, has_probes=True)) as wire:
        assert await answer(wire, GET[:-2] + b"X-Odd: " + sent) == b""


@pytest.mark.parametrize("size", [1, 7, 1000], ids=lambda size: f"{size} bytes at a time")
async def test_a_head_may_come_in_pieces_and_a_body_be_larger_than_a_head(size: int) -> None:
    body = review_of() + b" " * (2 * LARGEST_HEAD)
    asked = post(len(body), b"")
    async with server() as listening:
        port = await listening.serve_webhook(HOST, 0, SERVED)
        async with called(port, trusting()) as wire:
            for _ in range(2):
                for start in range(0, len(asked), size):
                    wire[1].write(asked[start : start + size])
                    await wire[1].drain()
                    await anyio.lowlevel.checkpoint()
                assert b"200 OK" in await answer(wire, body)
                await wire[0].readuntil(b"}}")


@pytest.mark.parametrize("more", [b"", GET[:-2]], ids=["nothing more", "half of another question"])
async def test_who_asks_nothing_more_is_hung_up_on_later(more: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.door.IDLE_TIMEOUT", timedelta(milliseconds=20))
    async with server() as listening, called(await listening.serve_plain(HOST, 0, has_probes=True)) as wire:
        assert b"200 OK" in await answer(wire, GET)
        wire[1].write(more)
        await hung_up(wire)


async def test_what_was_to_end_one_wait_does_not_end_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, timers = asyncio.get_running_loop(), dict[float, asyncio.TimerHandle]()
    really = loop.call_later

    def call_later(seconds: float, *what: Any, **how: Any) -> asyncio.TimerHandle:
        timers[seconds] = really(seconds, *what, **how)
        return timers[seconds]

    monkeypatch.setattr(loop, "call_later", call_later)
    async with server() as listening, called(await listening.serve_plain(HOST, 0, has_probes=True)) as wire:
        assert b"200 OK" in await answer(wire, GET)
        head, idle = timers[HEAD_TIMEOUT.total_seconds()], timers[IDLE_TIMEOUT.total_seconds()]
        assert (head.cancelled(), idle.cancelled()) == (True, False)
        assert await wire[0].readexactly(3) == b"ok\n"
        assert b"200 OK" in await answer(wire, GET)
        assert idle.cancelled()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        pytest.param(post(100, b"half"), b"408", id="a body that was promised and does not come"),
        pytest.param(post(LARGEST_REVIEW, b"half"), b"408", id="a large one"),
        pytest.param(post(LARGEST_REVIEW + 1, b""), b"413", id="one that is too large, before any of it has come"),
        pytest.param(post(3, b"\xff\xff\xff"), b"400", id="one that is no UTF-8"),
        pytest.param(
            post(len(packed := gzip.compress(review_of())), packed, headers=b"Content-Encoding: gzip\r\n"),
            b"400",
            id="one that is packed",
        ),
    ],
)
async def test_a_body_that_is_none_is_refused(sent: bytes, status: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    if status == b"408":
        monkeypatch.setattr("multikueue.web.server.BODY_TIMEOUT", timedelta(milliseconds=20))
    async with server() as listening, called(await listening.serve_webhook(HOST, 0, SERVED), trusting()) as wire:
        assert (await answer(wire, sent)).startswith(b"HTTP/1.1 " + status)


async def test_nobody_shuts_a_port_by_holding_connections_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.door.MOST_CALLERS", 3)
    async with server() as listening:
        port = await listening.serve_plain(HOST, 0, has_probes=True)
        async with called(port) as honest, called(port) as first, called(port) as second:
            assert b"200 OK" in await answer(honest, GET), "so that it waits since later than the others"
            async with called(port) as late, called(port) as later:
                for wire in (late, later):
                    assert b"200 OK" in await answer(wire, GET)
                for wire in (first, second):
                    await hung_up(wire)
                assert b"ok" in await honest[0].readline()
                assert b"200 OK" in await answer(honest, GET)


async def test_whose_body_does_not_come_makes_way() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multikueue.web.door.MOST_CALLERS", 2)
        async with server() as listening:
            port = await listening.serve_webhook(HOST, 0, SERVED)
            async with called(port, trusting()) as first, called(port, trusting()) as second:
                for wire in (first, second):
                    wire[1].write(post(100, b"half"))
                    await anyio.sleep(0.05)
                async with called(port, trusting()) as honest:
                    assert b"200 OK" in await answer(honest, post(len(review_of()), review_of()))
                await hung_up(first)


async def test_who_is_being_answered_keeps_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multikueue.web.door.MOST_CALLERS", 1)
    asked, go = anyio.Event(), anyio.Event()

    async def render() -> bytes:
        asked.set()
        await go.wait()
        return b"figures"

    async with server() as listening, called(port := await listening.serve_plain(HOST, 0, metrics=render)) as wire:
        wire[1].write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        await asked.wait()
        async with called(port) as newcomer:
            await hung_up(newcomer)
        go.set()
        assert b"200 OK" in await answer(wire, b"")


async def test_with_an_authority_for_callers_nobody_else_is_listened_to() -> None:
    ours, other = Authority(), Authority()
    async with server() as listening:
        bundle = ours.pem.decode()
        port = await listening.serve_webhook(HOST, 0, SERVED, client_ca=bundle)
        for authority, status in ((ours, b"200"), (other, b""), (None, b"")):
            context = trusting()
            if authority is not None:
                authority.issue("kube-apiserver").load_into(context)
            with suppress(ssl.SSLError, OSError):
                async with called(port, context) as wire:
                    assert (await answer(wire, post(len(review_of()), review_of())))[9:12] == status
                continue
            assert authority is not ours


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_both_event_loops_answer_and_hang_up(
    new_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call() -> None:
        async with server() as listening:
            port = await listening.serve_webhook(HOST, 0, SERVED)
            async with called(port, trusting()) as asking:
                assert b"200 OK" in await answer(asking, post(len(review_of()), review_of()))
        monkeypatch.setattr("multikueue.web.door.HEAD_TIMEOUT", timedelta(milliseconds=20))
        monkeypatch.setattr("multikueue.web.server.HANDSHAKE_TIMEOUT", timedelta(milliseconds=20))
        async with server() as listening:
            plain, tls = await listening.serve_plain(HOST, 0), await listening.serve_webhook(HOST, 0, SERVED)
            async with called(plain) as silent, called(tls) as deaf:
                await hung_up(silent)
                await hung_up(deaf)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(call())


async def test_leaving_ends_connections_that_wait() -> None:
    async with server() as listening:
        port = await listening.serve_plain(HOST, 0, has_probes=True)
        waiting = socket.create_connection((HOST, port))
        await anyio.lowlevel.checkpoint()
    with waiting, anyio.fail_after(5), suppress(OSError):
        await anyio.to_thread.run_sync(waiting.recv, 1)
