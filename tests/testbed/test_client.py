"""The client of the tests leaves nothing open behind it."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from testbed.certificates import CertificateAuthority
from testbed.client import Client

pytestmark = pytest.mark.anyio


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[tuple[str, bytes]]:
    """A server that shakes hands and then says nothing, not even good-bye: its URL and its CA."""
    authority = CertificateAuthority()
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
