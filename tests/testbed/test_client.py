"""The client of the tests leaves nothing open behind it, and its watch leaves nothing out."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from fakekube.front_end.authority import Authority
from testbed.client import Client
from testbed.objects import JOB, Object

pytestmark = pytest.mark.anyio


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """A server that shakes hands and then says nothing, not even good-bye: its URL and its CA."""
    authority = Authority()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*authority.issue("server", "127.0.0.1").write(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        guests: list[ssl.SSLSocket] = []

        def welcome() -> None:
            guests.append(context.wrap_socket(listener.accept()[0], server_side=True))

        thread = threading.Thread(target=welcome)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}", authority.pem
        thread.join()
        for guest in guests:
            guest.close()


async def test_no_connection_outlives_it_even_if_the_server_does_not_take_leave(silent: tuple[str, bytes]) -> None:
    url, ca = silent
    async with Client(url, ca=ca) as client:
        with anyio.move_on_after(0.5):
            await client.request("GET", "version")
        assert len(client.sockets) == 1
        asked = list(client.sockets)
    assert [each.fileno() for each in asked] == [-1]


class Restarted(Client):
    """A server that has these lists in turn, and whose watches each give these events and break."""

    def __init__(self, lists: list[Object], events: list[list[Object]]) -> None:
        super().__init__("https://nowhere.test", ca=b"")
        self._lists, self._watches = iter(lists), iter(events)

    async def _path(self, *_: Any) -> str:
        return ""

    async def _object(self, *_: str, **__: Any) -> Object:
        return next(self._lists)

    async def _events(self, *_: str) -> AsyncGenerator[Object, None]:
        for event in next(self._watches):
            yield event
        yield {"type": "ERROR", "object": {"metadata": {"resourceVersion": "0"}}}


def job(uid: str, version: int) -> Object:
    return {"metadata": {"uid": uid, "resourceVersion": str(version)}}


def listed(version: int, *items: Object) -> Object:
    return {"metadata": {"resourceVersion": str(version)}, "items": items}


async def test_a_watch_tells_what_went_while_the_server_was_away() -> None:
    client = Restarted(
        [listed(3, job("a", 1), job("b", 2)), listed(9, job("c", 5))],
        [[{"type": "ADDED", "object": job("c", 5)}, {"type": "DELETED", "object": job("b", 6)}], []],
    )
    told = []
    async for change, body in client.watch(JOB):
        told.append((change, body["metadata"]["uid"], body["metadata"]["resourceVersion"]))
        if len(told) == 6:
            break
    assert told == [
        ("ADDED", "a", "1"),
        ("ADDED", "b", "2"),
        ("ADDED", "c", "5"),
        ("DELETED", "b", "6"),
        ("DELETED", "a", "9"),
        ("ADDED", "c", "5"),
    ]
