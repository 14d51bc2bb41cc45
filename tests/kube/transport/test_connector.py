from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import aiohttp
import pytest
import uvloop
from yarl import URL

from multikueue.kube.transport.connector import _socket
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
