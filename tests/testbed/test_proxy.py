"""The modes of a link, each against an echo server."""

from __future__ import annotations

import socket
import socketserver
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from testbed.proxy import Link, Proxy, Traffic

pytestmark = pytest.mark.anyio

PATIENCE, ENOUGH = 0.3, 30.0
"""Seconds: until something counts as missing, where it is to be; and until something that is to come must be there, on a busy
machine too."""

Connect = Callable[..., socket.socket]


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        connection: socket.socket = self.request
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except ConnectionResetError:
            pass


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@pytest.fixture(name="echo")
def _echo() -> Iterator[str]:
    with _Server(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture(name="link")
async def _link(tmp_path: Path, echo: str) -> AsyncIterator[Link]:
    proxy = Proxy(tmp_path)
    await proxy.start()
    yield proxy.link(echo)
    await proxy.stop()


@pytest.fixture(name="connect")
def _connect(link: Link) -> Iterator[Connect]:
    opened: list[socket.socket] = []

    def connect(timeout: float = ENOUGH) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", link.port), timeout=timeout)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def _say(connection: socket.socket, words: bytes) -> bytes:
    connection.sendall(words)
    return connection.recv(len(words))


def _is_silent(connection: socket.socket, words: bytes) -> bool:
    """Whether nothing comes back."""
    connection.settimeout(PATIENCE)
    try:
        _say(connection, words)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(ENOUGH)
    return False


async def test_ok_passes_bytes_both_ways(connect: Connect, link: Link) -> None:
    assert _say(connect(), b"hello") == b"hello"
    assert link.traffic() == Traffic(accepted=1, open=1, transferred=10)


async def test_the_end_of_a_stream_passes_too(connect: Connect) -> None:
    connection = connect()
    connection.sendall(b"last words")
    connection.shutdown(socket.SHUT_WR)
    assert connection.makefile("rb").read() == b"last words"


async def test_many_bytes_arrive_whole_and_in_order(connect: Connect, link: Link) -> None:
    link.latency(0.01)
    words = bytes(range(256)) * 8192
    connection = connect()
    threading.Thread(target=connection.sendall, args=(words,)).start()
    assert connection.makefile("rb").read(len(words)) == words


async def test_latency_delays_each_direction(connect: Connect, link: Link) -> None:
    connection = connect()
    link.latency(0.05)
    began = time.monotonic()
    assert _say(connection, b"hello") == b"hello"
    assert time.monotonic() - began >= 0.1


async def test_hang_accepts_and_freezes_until_ok(connect: Connect, link: Link) -> None:
    old = connect()
    _say(old, b"before")
    link.hang()
    new = connect()
    assert _is_silent(old, b"during")
    assert _is_silent(new, b"during")
    link.ok()
    assert [connection.recv(6) for connection in (old, new)] == [b"during", b"during"]


async def test_mute_delivers_the_request_but_not_the_answer(connect: Connect, link: Link) -> None:
    connection = connect()
    _say(connection, b"before")
    link.mute()
    assert _is_silent(connection, b"during")
    assert link.traffic().transferred == 18  # there and back, and there again
    link.ok()
    assert connection.recv(6) == b"during"


async def test_blackhole_gives_a_new_connection_no_answer(connect: Connect, link: Link) -> None:
    old = connect()
    _say(old, b"before")
    link.blackhole()
    with pytest.raises(TimeoutError):
        connect(PATIENCE)
    assert _is_silent(old, b"during")
    link.ok()
    assert old.recv(6) == b"during"
    assert _say(connect(), b"after") == b"after"


async def test_reset_resets_old_and_new_connections(connect: Connect, link: Link) -> None:
    old = connect()
    _say(old, b"before")
    link.reset()
    with pytest.raises(ConnectionResetError):
        old.recv(1)
    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        _say(connect(), b"during")
    link.ok()
    assert _say(connect(), b"after") == b"after"


async def test_refuse_closes_the_port_and_the_connections(connect: Connect, link: Link) -> None:
    old = connect()
    _say(old, b"before")
    link.refuse()
    assert old.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        connect()
    link.ok()
    assert _say(connect(), b"after") == b"after"


async def test_drop_resets_what_is_open_and_stays_ok(connect: Connect, link: Link) -> None:
    old = connect()
    _say(old, b"before")
    link.drop()
    with pytest.raises(ConnectionResetError):
        old.recv(1)
    assert _say(connect(), b"after") == b"after"


@pytest.mark.parametrize("mode", ["hang", "mute", "blackhole", "reset", "refuse"])
async def test_each_mode_can_follow_each_other(connect: Connect, link: Link, mode: str) -> None:
    for other in ("hang", "mute", "blackhole", "reset", "refuse"):
        getattr(link, mode)()
        getattr(link, other)()
    link.ok()
    assert _say(connect(), b"after") == b"after"


async def test_a_server_that_is_gone_shows_as_a_reset(tmp_path: Path) -> None:
    proxy = Proxy(tmp_path)
    await proxy.start()
    link = proxy.link("http://127.0.0.1:9")
    with (
        pytest.raises(ConnectionResetError),
        socket.create_connection(("127.0.0.1", link.port), ENOUGH) as connection,
    ):  # at once, or when something is read
        connection.recv(1)
    await proxy.stop()
