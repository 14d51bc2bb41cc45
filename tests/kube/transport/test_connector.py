from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import count

import aiohttp
import anyio
import pytest
import uvloop
from aiohttp.abc import ResolveResult
from aiohttp.http import HttpProcessingError
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from yarl import URL

from multikueue.kube.transport import connector
from multikueue.kube.transport.connector import Resolver, _Answers, _socket
from multikueue.kube.transport.loop_share import UNMETERED, LoopShare
from multikueue.kube.transport.session import Session
from tests.kube.server import Script, says, serving
from tests.kube.transport.test_session import ENDLESS, SHORT, opened

pytestmark = pytest.mark.anyio


async def test_a_dead_peer_is_noticed_by_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    real = socket.socket.setsockopt

    def spy(self: socket.socket, *args: int) -> None:
        made.append(self)
        real(self, *args)

    monkeypatch.setattr(socket.socket, "setsockopt", spy)
    async with (
        serving(Script(says({}))) as url,
        opened(user_agent="x") as session,
        session.request("GET", URL(url), timeout=SHORT),
    ):
        ours = made[-1]
        for sock in made:
            if sock.fileno() >= 0 and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT):
                ours = sock
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 60_000


@pytest.mark.parametrize("timeout", [SHORT, ENDLESS], ids=["a call", "a watch"])
async def test_each_connection_is_made_within_the_block_that_it_was_given(timeout: aiohttp.ClientTimeout) -> None:
    inside: list[bool] = []

    @contextlib.contextmanager
    def connecting() -> Iterator[None]:
        inside.append(True)
        yield
        inside[-1] = False

    async with (
        serving(Script(says({}))) as url,
        opened(user_agent="x", connecting=connecting) as session,
    ):
        for _ in range(2):
            async with session.request("GET", URL(url), timeout=timeout) as response:
                await response.content.readany()
                assert inside == [False]


def test_a_socket_that_nobody_holds_any_more_closes_nobodys_descriptor() -> None:
    """Whoever took it over has closed it, and its number may belong to another connection by now."""
    address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))
    made = _socket(address)
    number = made.fileno()
    del made
    gc.collect()
    os.close(number)  # it was still open: this raises otherwise


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_server_that_resets_every_connection_costs_no_descriptors(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def knock(url: str) -> int:
        async with opened(user_agent="x") as session:
            for _ in range(20):
                for answer in await asyncio.gather(*(_outcome(session, url) for _ in range(4))):
                    assert issubclass(answer, aiohttp.ClientConnectionError)
            await asyncio.sleep(0.05)  # closing takes a turn of the loop
            return len(os.listdir("/dev/fd"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_reset_all, args=(listener,), daemon=True).start()
        before = len(os.listdir("/dev/fd"))
        with asyncio.Runner(loop_factory=new_loop) as runner:
            after = runner.run(knock(f"https://127.0.0.1:{listener.getsockname()[1]}"))
    assert after - before < 20


async def _outcome(session: Session, url: str) -> type[BaseException]:
    try:
        async with session.request("GET", URL(url), timeout=SHORT):
            return BaseException
    except aiohttp.ClientError as error:
        return type(error)


def _reset_all(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()


class Drawn(LoopShare):
    """A share that is used up, or not, as it was drawn."""

    def __init__(self, used_up: Sequence[bool]) -> None:
        super().__init__()
        self._drawn = itertools.cycle(used_up or [False])
        self.pauses = 0

    @property
    def is_used_up(self) -> bool:
        return next(self._drawn)

    async def pause(self) -> None:
        self.pauses += 1
        await asyncio.sleep(0)


class Wire(asyncio.Transport):
    """What a server sends, a piece at a time, to a protocol that reads."""

    def __init__(self) -> None:
        super().__init__()
        self.is_paused = self.is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_aborted = True


def chunked(body: bytes, size: int) -> bytes:
    cut = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in (*cut, b""))


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
bodies = st.builds(lambda some, times: some * times, st.binary(max_size=20), st.sampled_from((1, 1500)))
answers = st.one_of(
    st.builds(lambda body: b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), bodies),
    st.builds(lambda body, size: HEAD + chunked(body, size), bodies, st.integers(1, 5000)),
    st.builds(lambda body, size: HEAD + chunked(body, size)[:-5], bodies, st.integers(1, 5000)),
    st.builds(lambda answer, times: answer * times, st.just(b"HTTP/1.1 103 Early Hints\r\n\r\n"), st.integers(1, 40)),
    st.just(b"HTTP/1.1 204 No Content\r\n\r\n"),
    st.binary(max_size=40),
)


class Sent(bytes):
    """Bytes whose text fits into a report."""

    def __repr__(self) -> str:
        return f"{len(self)} bytes, from {bytes(self[:60])!r} to {bytes(self[-20:])!r}"


streams = st.lists(answers, max_size=3).map(lambda some: Sent(b"".join(some)))


async def _read(stream: bytes, sizes: Sequence[int], share: LoopShare, *, closes: bool) -> object:
    """What a reader has of one request, to which that stream of bytes is the answer."""
    cut_off: list[None] = []
    protocol, wire = _Answers(asyncio.get_running_loop(), lambda: cut_off.append(None), share), Wire()
    protocol.connection_made(wire)
    protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_timeout=None)

    async def read() -> object:
        try:
            while True:
                message, content = await protocol.read()
                if message.code >= 200:
                    return message.code, b"".join([piece async for piece in content.iter_any()])
        except (aiohttp.ClientError, HttpProcessingError, RuntimeError):  # the last where it closed between two reads
            return "no whole answer"

    reader = asyncio.create_task(read())
    start = 0
    for size in itertools.cycle(sizes):
        if start >= len(stream) or wire.is_aborted:
            break
        while wire.is_paused and not wire.is_aborted:  # noqa: ASYNC110  # until the reader has taken what is there
            await asyncio.sleep(0)
        protocol.data_received(stream[start : start + size])
        start += size
        await asyncio.sleep(0)
    while wire.is_paused and not (closes or wire.is_aborted):  # noqa: ASYNC110  # the same
        await asyncio.sleep(0)
    if closes or wire.is_aborted:
        protocol.connection_lost(None)
    for _ in range(30):
        await asyncio.sleep(0)
    if not reader.done():
        reader.cancel()
        return "more is waited for"
    return await reader, bool(cut_off)


@given(streams, st.lists(st.integers(1, 2**17), min_size=1, max_size=5), st.lists(st.booleans()), st.booleans())
@example(Sent(b"HTTP/1.1 204 No Content\r\n\r\n" * 2 + HEAD), [38, 304], [True, False, True, False], True)
@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.generate])
def test_what_is_read_in_turns_is_what_would_be_read_at_once(
    stream: bytes, sizes: Sequence[int], used_up: Sequence[bool], closes: bool
) -> None:
    async def both() -> tuple[object, object]:
        at_once = await _read(stream, sizes, UNMETERED, closes=closes)
        return at_once, await _read(stream, sizes, Drawn([*used_up, False]), closes=closes)

    at_once, in_turns = (each[0] if isinstance(each, tuple) else each for each in asyncio.run(both()))
    assert in_turns == at_once  # whether more than that is counted depends on when it was read


async def test_while_its_turn_has_not_come_a_connection_is_not_read() -> None:
    class Late(LoopShare):
        """Used up until it is its turn."""

        is_used_up = True
        turn = asyncio.Event()

        async def pause(self) -> None:
            await self.turn.wait()

    share, wire = Late(), Wire()
    protocol = _Answers(asyncio.get_running_loop(), lambda: None, share)
    protocol.connection_made(wire)
    protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_timeout=None)
    protocol.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    await asyncio.sleep(0)
    assert wire.is_paused
    assert protocol.is_eof() is False
    share.turn.set()
    message, content = await protocol.read()
    assert (message.code, await content.read()) == (200, b"{}")
    assert not wire.is_paused


async def test_who_is_barred_is_cut_off_with_the_reason_and_not_spoken_to() -> None:
    class Barred(LoopShare):
        is_barred = False

    share = Barred()
    async with serving(Script(says({}))) as url, opened(user_agent="x", share=share) as session:
        async with session.request("GET", URL(url), timeout=SHORT) as response:
            await response.content.readany()
        share.is_barred = True
        for error in (aiohttp.ClientConnectionError, aiohttp.ClientConnectorError):
            with pytest.raises(error, match="more than its share"):
                async with session.request("GET", URL(url), timeout=SHORT):
                    pass


async def test_a_watch_of_one_who_is_barred_ends_with_the_reason() -> None:
    share, wire = LoopShare(), Wire()
    protocol = _Answers(asyncio.get_running_loop(), lambda: None, share)
    protocol.connection_made(wire)
    protocol.set_response_params(read_until_eof=True, auto_decompress=False, read_timeout=None)
    protocol.data_received(HEAD + b"2\r\n{}\r\n")
    _, content = await protocol.read()
    assert await content.readany() == b"{}"
    share._barred_until = float("inf")
    protocol.data_received(b"2\r\n{}\r\n")
    with pytest.raises(aiohttp.ClientConnectionError, match="more than its share"):
        await content.readany()
    assert wire.is_aborted


_numbers = count()


class Dns:
    """A name server: answers with `address`, says nothing while `silent`, or knows no name."""

    def __init__(self) -> None:
        self.address: str | None = "192.0.2.1"
        self.asked: list[str] = []
        self.silent = threading.Event()
        self.goes_on = threading.Event()

    def getaddrinfo(self, host: str, port: int, **_options: int) -> list[tuple[object, ...]]:
        self.asked.append(host)
        if "silent" in host or self.silent.is_set():
            self.goes_on.wait(60)
        if self.address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.address, port))]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dns]:
    made = Dns()
    monkeypatch.setattr("multikueue.kube.transport.connector.socket.getaddrinfo", made.getaddrinfo)
    yield made
    made.goes_on.set()


def a_name(text: str = "worker") -> str:
    """A name that no other test has: what is known is shared."""
    return f"{text}-{next(_numbers)}.example"


def hosts(found: list[ResolveResult]) -> list[str]:
    return [each["host"] for each in found]


async def test_silent_names_delay_nobody_else(dns: Dns) -> None:
    async with anyio.create_task_group() as tasks:
        for _ in range(40):
            tasks.start_soon(Resolver().resolve, a_name("silent"), 443)
        await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(10):
            assert hosts(await Resolver().resolve(a_name(), 443)) == ["192.0.2.1"]
        tasks.cancel_scope.cancel()


async def test_one_name_has_one_look_up_at_a_time_whoever_gave_up_on_it(dns: Dns) -> None:
    name = a_name("silent")
    for _ in range(5):
        with anyio.move_on_after(0.01):
            await Resolver().resolve(name, 443)
    assert dns.asked == [name]
    dns.goes_on.set()
    with anyio.fail_after(10):
        assert hosts(await Resolver().resolve(name, 443)) == ["192.0.2.1"]


@pytest.mark.parametrize("trouble", ["silence", "no such name"])
async def test_the_last_known_addresses_outlive_a_look_up_without_an_answer(
    dns: Dns, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(connector, "PATIENCE", 0.01)
    name = a_name()
    await Resolver().resolve(name, 443)
    if trouble == "silence":
        dns.silent.set()
    else:
        dns.address = None
    with anyio.fail_after(10):
        assert hosts(await Resolver().resolve(name, 443)) == ["192.0.2.1"]


async def test_a_new_address_replaces_what_was_known(dns: Dns) -> None:
    name = a_name()
    await Resolver().resolve(name, 443)
    dns.address = "192.0.2.2"
    assert hosts(await Resolver().resolve(name, 443)) == ["192.0.2.2"]


async def test_a_name_that_was_never_known_is_an_error(dns: Dns) -> None:
    dns.address = None
    with pytest.raises(socket.gaierror, match="not known"):
        await Resolver().resolve(a_name(), 443)


async def test_an_error_that_nobody_waits_for_is_not_reported(dns: Dns, caplog: pytest.LogCaptureFixture) -> None:
    dns.address = None
    with anyio.move_on_after(0.01):
        await Resolver().resolve(a_name("silent"), 443)
    dns.goes_on.set()
    await asyncio.sleep(0.05)
    assert not caplog.records


async def test_the_addresses_of_this_machine_are_found_as_the_system_finds_them() -> None:
    found = await Resolver().resolve("localhost", 6443, socket.AF_UNSPEC)
    assert {each["host"] for each in found} <= {"127.0.0.1", "::1"}
    assert {each["port"] for each in found} == {6443}
