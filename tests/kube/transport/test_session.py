from __future__ import annotations

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
import pytest
from yarl import URL

from multikueue import __version__
from multikueue.kube.transport.session import (
    USER_AGENT,
    ResponseLines,
    Session,
    beginning,
    explain,
    open_session,
)
from tests.kube.server import Script, says, serving

pytestmark = pytest.mark.anyio


SHORT = aiohttp.ClientTimeout(total=10)
ENDLESS = aiohttp.ClientTimeout(total=None)


@contextlib.asynccontextmanager
async def opened(**options: Any) -> AsyncIterator[Session]:
    session = open_session(**options)
    try:
        yield session
    finally:
        await session.close()


@pytest.mark.parametrize("timeout", [SHORT, ENDLESS], ids=["a call", "a watch"])
async def test_a_session_keeps_no_cookies(timeout: aiohttp.ClientTimeout) -> None:
    script = Script(says({}, headers={"Set-Cookie": "a=b"}))
    async with serving(script) as url, opened(user_agent="x") as session:
        for _ in range(2):
            async with session.request("GET", URL(url), timeout=timeout):
                pass
    assert [request.headers.get("Cookie") for request in script.requests] == [None, None]


@pytest.mark.parametrize("timeout", [SHORT, ENDLESS], ids=["a call", "a watch"])
async def test_proxies_and_netrc_of_the_environment_are_not_used(
    timeout: aiohttp.ClientTimeout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login u password leaked\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    script = Script(says({}))
    async with serving(script) as url, opened(user_agent=USER_AGENT) as session:
        headers = {"Authorization": "Bearer t"}
        async with session.request("GET", URL(url), headers=headers, timeout=timeout) as response:
            assert response.status == 200
        async with session.request("GET", URL(url), timeout=timeout):
            pass
    assert [request.headers.get("Authorization") for request in script.requests] == ["Bearer t", None]
    assert script.requests[0].headers["User-Agent"] == f"multikueue/{__version__}"


def connector_error(error: OSError) -> aiohttp.ClientConnectorError:
    key = aiohttp.client_reqrep.ConnectionKey("h", 1, True, True, None, None, None)
    return aiohttp.ClientConnectorError(key, error)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(TimeoutError(), "no answer in time", id="a deadline"),
        pytest.param(aiohttp.ConnectionTimeoutError("to https://h/x"), "no connection in time", id="a slow connect"),
        pytest.param(aiohttp.SocketTimeoutError(), "no answer in time", id="silence"),
        pytest.param(aiohttp.ServerDisconnectedError(), "Server disconnected", id="hung up"),
        pytest.param(connector_error(OSError(111, "refused")), "no connection: [Errno 111] refused", id="refused"),
        pytest.param(ssl.SSLError("bad"), "('bad',)", id="TLS"),
        pytest.param(aiohttp.ClientPayloadError(), "ClientPayloadError", id="nothing to say"),
    ],
)
def test_the_same_cause_has_the_same_words(error: Exception, said: str) -> None:
    assert explain(error) == said


class Broken:
    """A body of 1 MiB, in pieces, whose connection is lost before its end."""

    status, headers = 200, {}  # type: ignore[var-annotated]

    def __init__(self) -> None:
        self.pieces = [b"x" * 2**16] * 16

    @property
    def content(self) -> Broken:
        return self

    async def readany(self) -> bytes:
        if not self.pieces:
            raise aiohttp.ClientPayloadError("lost")
        return self.pieces.pop()

    def close(self) -> None: ...


async def read_body() -> None:
    await beginning(Broken(), 2**24, asyncio.Lock())


async def read_line() -> None:
    await ResponseLines(Broken(), asyncio.Lock()).next()


@pytest.mark.parametrize("read", [read_body, read_line])
async def test_the_error_of_a_lost_connection_does_not_keep_what_was_read(read: Callable[[], Any]) -> None:
    with pytest.raises(aiohttp.ClientPayloadError) as caught:
        await read()
    assert sum(map(_bytes_in, _variables(caught.value.__traceback__))) < 2**18


def _variables(traceback: TracebackType | None) -> Iterator[object]:
    while traceback:
        yield from traceback.tb_frame.f_locals.values()
        traceback = traceback.tb_next


def _bytes_in(value: object) -> int:
    if isinstance(value, io.BytesIO):
        return 0 if value.closed else len(value.getvalue())
    return len(value) if isinstance(value, bytes) else 0
