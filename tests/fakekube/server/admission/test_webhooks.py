from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from fakekube.front_end.authority import Authority
from fakekube.model.wire import Object
from fakekube.server.admission.webhooks import CallFailed, Webhooks
from multikueue.web.serving import Serving, load_chain

pytestmark = pytest.mark.anyio

REVIEW: Object = {"kind": "AdmissionReview", "request": {"uid": "u"}}
ANSWER: Object = {"kind": "AdmissionReview", "response": {"uid": "u", "allowed": True}}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[tuple[str, str]]:
    """A webhook's URL and CA bundle."""
    authority = Authority()
    certificate = authority.issue("webhook", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_chain(context, Serving(certificate.certificate, certificate.key, authority.pem))
    app = web.Application()
    app.router.add_post("/hook", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"https://127.0.0.1:{runner.addresses[0][1]}/hook", b64encode(authority.pem).decode()
    finally:
        await runner.cleanup()


@pytest.fixture
async def webhooks() -> AsyncIterator[Webhooks]:
    made = Webhooks()
    yield made
    await made.aclose()


async def test_a_review_goes_there_and_the_answer_back(webhooks: Webhooks) -> None:
    seen: list[object] = []

    async def answer(request: web.Request) -> web.Response:
        seen.extend((await request.json(), request.query_string, request.headers["Content-Type"]))
        return web.json_response(ANSWER)

    async with served(answer) as (url, bundle):
        assert await webhooks.ask({"url": url, "caBundle": bundle}, REVIEW, seconds=2) == ANSWER
    assert seen == [REVIEW, "timeout=2s", "application/json"]


async def test_a_service_is_where_the_table_says(webhooks: Webhooks) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response(ANSWER)

    async with served(answer) as (url, bundle):
        webhooks.services["ns", "svc", 443] = url.removesuffix("/hook")
        service = {"namespace": "ns", "name": "svc", "path": "/hook"}
        assert await webhooks.ask({"service": service, "caBundle": bundle}, REVIEW, seconds=2) == ANSWER
        with pytest.raises(CallFailed) as caught:
            await webhooks.ask({"service": service | {"port": 8443}}, REVIEW, seconds=2)
    assert str(caught.value) == 'Post "https://svc.ns.svc:8443/hook": service "svc" not found'


async def test_a_host_in_the_process_is_a_function(webhooks: Webhooks) -> None:
    async def later(review: Object) -> Object:
        return {"later": review}

    webhooks.local |= {"now": lambda review: {"now": review}, "later": later}
    assert await webhooks.ask({"url": "https://now/x"}, REVIEW, seconds=1) == {"now": REVIEW}
    assert await webhooks.ask({"url": "https://later/x"}, REVIEW, seconds=1) == {"later": REVIEW}


async def failure(webhooks: Webhooks, handler: Handler, **config: str) -> str:
    async with served(handler) as (url, bundle):
        with pytest.raises(CallFailed) as caught:
            await webhooks.ask({"url": url, "caBundle": bundle} | config, REVIEW, seconds=1)
        return str(caught.value).replace(url, "URL")


@pytest.mark.parametrize(
    ("status", "text", "message"),
    [
        (500, "boom", 'an error on the server ("boom") has prevented the request from succeeding'),
        (404, "404 page not found", "the server could not find the requested resource"),
        (403, '{"kind":"Status","message":"go away"}', "go away"),
        (200, "no json", "couldn't get version/kind; json parse error: JSON is malformed: invalid character (byte 4)"),
        (200, "[]", "couldn't get version/kind; json parse error: not an object"),
    ],
)
async def test_bad_answers(webhooks: Webhooks, status: int, text: str, message: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(status=status, text=text)

    assert await failure(webhooks, answer) == message


async def test_a_slow_one_is_given_up(webhooks: Webhooks) -> None:
    async def answer(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    assert await failure(webhooks, answer) == 'Post "URL?timeout=1s": context deadline exceeded'


async def test_who_shows_another_certificate_is_not_believed(webhooks: Webhooks) -> None:
    async def answer(_request: web.Request) -> web.Response:
        raise AssertionError

    unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    other = b64encode(Authority().pem).decode()
    assert await failure(webhooks, answer, caBundle=other) == f'Post "URL?timeout=1s": {unknown}'
    assert "unable to load root certificates" in await failure(webhooks, answer, caBundle="!!")


async def test_nobody_there(webhooks: Webhooks) -> None:
    with pytest.raises(CallFailed) as caught:
        await webhooks.ask({"url": "https://127.0.0.1:1/hook"}, REVIEW, seconds=1)
    refused = "dial tcp 127.0.0.1:1: connect: connection refused"
    assert str(caught.value) == f'Post "https://127.0.0.1:1/hook?timeout=1s": {refused}'
