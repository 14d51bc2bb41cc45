from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import BytesIO

import aiohttp
import pytest

from multikueue.web.certificates import Serving, renewed, serving
from multikueue.web.server import LARGEST_REVIEW, WEBHOOK_PATH, Server
from tests.web.builders import response_in, review_of

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"


def certificate() -> Serving:
    # The TLS handshake looks at the machine's clock.
    return serving(renewed(datetime.now(UTC), {}, names=[HOST]))


def server(problem: str | None = None) -> Server:
    return Server(ready=lambda: problem, lookup=lambda _namespace, _queue: True)


@asynccontextmanager
async def client_trusting(bundle: bytes) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cadata=bundle.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


async def ask(session: aiohttp.ClientSession, port: int, body: bytes, path: str = WEBHOOK_PATH) -> tuple[int, bytes]:
    async with session.post(f"https://{HOST}:{port}{path}", data=BytesIO(body)) as response:
        return response.status, await response.read()


async def test_the_webhook_answers_over_tls() -> None:
    served = certificate()
    async with server() as listening, client_trusting(served.bundle) as session:
        port = await listening.serve_webhook(HOST, 0, served)
        status, body = await ask(session, port, review_of())
    assert status == 200
    response = response_in(body)
    assert [op["path"] for op in response["patch"]] == ["/spec/suspend", "/spec/managedBy"]


async def test_who_does_not_trust_our_authority_gets_no_answer() -> None:
    async with server() as listening, client_trusting(certificate().bundle) as session:
        port = await listening.serve_webhook(HOST, 0, certificate())
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await ask(session, port, review_of())


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        pytest.param(b"garbage", WEBHOOK_PATH, 400, id="no review"),
        pytest.param(review_of(), "/other", 404, id="another path"),
        pytest.param(b" " * (LARGEST_REVIEW + 1), WEBHOOK_PATH, 413, id="too large"),
    ],
)
async def test_refused_requests_do_not_hurt(body: bytes, path: str, status: int) -> None:
    served = certificate()
    async with server() as listening, client_trusting(served.bundle) as session:
        port = await listening.serve_webhook(HOST, 0, served)
        assert (await ask(session, port, body, path))[0] == status
        assert (await ask(session, port, review_of()))[0] == 200


async def test_before_all_is_known_nothing_is_decided() -> None:
    served = certificate()
    async with server("caches are not filled yet") as listening, client_trusting(served.bundle) as session:
        port = await listening.serve_webhook(HOST, 0, served)
        assert await ask(session, port, review_of()) == (503, b"caches are not filled yet\n")


async def test_a_new_certificate_is_served_at_once_on_the_same_port() -> None:
    old, new = certificate(), certificate()
    async with server() as listening, client_trusting(old.bundle) as before, client_trusting(new.bundle) as after:
        port = await listening.serve_webhook(HOST, 0, old)
        assert (await ask(before, port, review_of()))[0] == 200
        listening.load(new)
        assert (await ask(before, port, review_of()))[0] == 200, "a connection that is open stays"
        assert (await ask(after, port, review_of()))[0] == 200
        async with client_trusting(old.bundle) as late:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await ask(late, port, review_of())


async def test_serving_again_only_takes_the_certificate() -> None:
    old, new = certificate(), certificate()
    async with server() as listening, client_trusting(new.bundle) as session:
        port = await listening.serve_webhook(HOST, 0, old)
        assert await listening.serve_webhook(HOST, 0, new) == port
        assert (await ask(session, port, review_of()))[0] == 200


async def test_a_certificate_needs_a_webhook() -> None:
    async with server() as listening:
        with pytest.raises(RuntimeError):
            listening.load(certificate())


@pytest.mark.parametrize(
    ("problem", "path", "status", "text"),
    [
        pytest.param(None, "/readyz", 200, "ok\n", id="ready"),
        pytest.param("caches are not filled yet", "/readyz", 503, "caches are not filled yet\n", id="not ready"),
        pytest.param("caches are not filled yet", "/healthz", 200, "ok\n", id="alive all the same"),
        pytest.param(None, WEBHOOK_PATH, 404, "404: Not Found", id="no webhook without TLS"),
    ],
)
async def test_probes(problem: str | None, path: str, status: int, text: str) -> None:
    async with server(problem) as listening, aiohttp.ClientSession() as session:
        port = await listening.serve_probes(HOST, 0)
        async with session.get(f"http://{HOST}:{port}{path}") as response:
            assert (response.status, await response.text()) == (status, text)


async def test_leaving_closes_both_ports() -> None:
    served = certificate()
    async with server() as listening:
        ports = [await listening.serve_probes(HOST, 0), await listening.serve_webhook(HOST, 0, served)]
    async with aiohttp.ClientSession() as session:
        for port in ports:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://{HOST}:{port}/healthz")


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    async with server() as first:
        taken = await first.serve_probes(HOST, 0)
        with pytest.raises(OSError, match="address already in use"):
            async with server() as second:
                await second.serve_probes(HOST, taken)
