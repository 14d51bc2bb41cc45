from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from io import BytesIO

import aiohttp
import anyio
import pytest

from fakekube.front_end.authority import Authority
from multikueue.errors import ConfigurationError
from multikueue.web.admission import AdmissionLookups
from multikueue.web.certificates import renewed
from multikueue.web.server import DISPATCH, LARGEST_REVIEW, WEBHOOK_PATH, ApiRequest, Server, Stream, Write
from multikueue.web.serving import Serving, serving
from multikueue.web.visibility import Refused
from tests.web.builders import response_in, review_of

pytestmark = pytest.mark.anyio

HOST = "127.0.0.1"


def certificate() -> Serving:
    # The TLS handshake looks at the machine's clock.
    return serving(renewed(datetime.now(UTC), {}, names=[HOST]))


def server(problem: str | None = None) -> Server:
    return Server(ready=lambda: problem, known=AdmissionLookups(does_dispatch=lambda _namespace, _queue: True))


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
        port = await listening.serve_plain(HOST, 0, has_probes=True)
        async with session.get(f"http://{HOST}:{port}{path}") as response:
            assert (response.status, await response.text()) == (status, text)


async def test_leaving_closes_both_ports() -> None:
    served = certificate()
    async with server() as listening:
        ports = [await listening.serve_plain(HOST, 0, has_probes=True), await listening.serve_webhook(HOST, 0, served)]
    async with aiohttp.ClientSession() as session:
        for port in ports:
            with pytest.raises(aiohttp.ClientConnectorError):
                await session.get(f"http://{HOST}:{port}/healthz")


async def render() -> bytes:
    return b"some_total 1\n"


@pytest.mark.parametrize(
    ("group", "serve"),
    [
        pytest.param("probes", lambda at, port: at.serve_plain(HOST, port, has_probes=True), id="probes"),
        pytest.param("metrics", lambda at, port: at.serve_plain(HOST, port, metrics=render), id="metrics"),
        pytest.param("webhook", lambda at, port: at.serve_webhook(HOST, port, certificate()), id="webhook"),
        pytest.param(
            "visibility",
            lambda at, port: at.serve_visibility(HOST, port, certificate(), client_ca=Proxy().bundle, answer=echo),
            id="visibility",
        ),
    ],
)
async def test_a_port_that_is_taken_is_told_with_its_setting_and_leaves_nothing_open(
    group: str, serve: Callable[[Server, int], Awaitable[int]]
) -> None:
    async with server() as first, server() as second:
        taken = await first.serve_plain(HOST, 0)
        with pytest.raises(ConfigurationError, match=rf"^{group}: .*{HOST}, port {taken}: .*address already in use"):
            await serve(second, taken)
        assert second._listeners == []


CHECKS = {"cache-jobs": "", "cache-workloads": "not listed yet"}


@pytest.mark.parametrize(
    ("problem", "path", "status", "lines"),
    [
        pytest.param(
            None,
            "/readyz?verbose",
            200,
            ["[+]cache-jobs ok", "[-]cache-workloads not listed yet", "readyz check passed"],
            id="asked for details",
        ),
        pytest.param(
            "waiting",
            "/readyz",
            503,
            ["[+]cache-jobs ok", "[-]cache-workloads not listed yet", "waiting"],
            id="not ready",
        ),
        pytest.param(None, "/readyz/cache-jobs", 200, ["ok"], id="one that is well"),
        pytest.param(None, "/readyz/cache-workloads", 503, ["not listed yet"], id="one that is not"),
        pytest.param(None, "/readyz/cache-none", 404, ["there is no such check"], id="one that there is not"),
    ],
)
async def test_readiness_in_detail(problem: str | None, path: str, status: int, lines: list[str]) -> None:
    made = Server(ready=lambda: problem, known=AdmissionLookups(does_dispatch=lambda *_: True), details=lambda: CHECKS)
    async with made as listening, aiohttp.ClientSession() as session:
        port = await listening.serve_plain(HOST, 0, has_probes=True)
        async with session.get(f"http://{HOST}:{port}{path}") as response:
            assert (response.status, (await response.text()).splitlines()) == (status, lines)


@pytest.mark.parametrize(("path", "status"), [("/readyz", 503), ("/readyz/dispatch", 503), ("/healthz", 200)])
async def test_a_dispatch_that_stands_still_is_not_ready_and_is_alive(path: str, status: int) -> None:
    details = {"cache-jobs": "", DISPATCH: "3 workloads wait"}
    made = Server(ready=lambda: None, known=AdmissionLookups(does_dispatch=lambda *_: True), details=lambda: details)
    async with made as listening, aiohttp.ClientSession() as session:
        port = await listening.serve_plain(HOST, 0, has_probes=True)
        async with session.get(f"http://{HOST}:{port}{path}") as answer:
            assert (answer.status, "3 workloads wait" in await answer.text()) == (status, status == 503)


@pytest.mark.parametrize(("probes", "status"), [(True, 200), (False, 404)], ids=["with probes", "alone"])
async def test_metrics_are_served_with_the_probes_or_alone(probes: bool, status: int) -> None:
    async with server() as listening, aiohttp.ClientSession() as session:
        port = await listening.serve_plain(HOST, 0, has_probes=probes, metrics=render)
        async with session.get(f"http://{HOST}:{port}/metrics") as response:
            assert (response.status, await response.read()) == (200, b"some_total 1\n")
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        async with session.get(f"http://{HOST}:{port}/healthz") as response:
            assert response.status == status


class Proxy:
    """An API server's front proxy: a CA, and sessions with certificates that it signed."""

    def __init__(self) -> None:
        self.ca = Authority()

    @property
    def bundle(self) -> str:
        return self.ca.pem.decode()

    @asynccontextmanager
    async def session(self, served: Serving, name: str | None = "front-proxy") -> AsyncIterator[aiohttp.ClientSession]:
        context = ssl.create_default_context(cadata=served.bundle.decode())
        if name is not None:
            self.ca.issue(name, "client.invalid").load_into(context)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            yield session


async def echo(asked: ApiRequest) -> tuple[int, bytes]:
    return 200, f"{asked.common_name} {asked.path} {dict(asked.query)}".encode()


async def test_a_question_comes_with_the_name_in_the_clients_certificate() -> None:
    served, proxy = certificate(), Proxy()
    async with server() as listening:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=proxy.bundle, answer=echo)
        url = f"https://{HOST}:{port}/apis/a%20b?limit=1"
        async with proxy.session(served) as session, session.get(url) as response:
            assert await response.text() == "front-proxy /apis/a b {'limit': '1'}"
        async with proxy.session(served, None) as session, session.get(url) as response:
            assert await response.text() == "None /apis/a b {'limit': '1'}"
        async with proxy.session(served) as session, session.post(url) as response:
            assert response.status == 405


async def test_who_asks_too_often_is_told_when_to_ask_again() -> None:
    async def refuse(_asked: ApiRequest) -> tuple[int, bytes]:
        return 429, b"{}"

    served, proxy = certificate(), Proxy()
    async with server() as listening:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=proxy.bundle, answer=refuse)
        async with proxy.session(served) as session, session.get(f"https://{HOST}:{port}/apis") as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "1")


async def test_certificates_of_another_authority_are_not_believed_not_even_those_of_an_old_one() -> None:
    served, old, new = certificate(), Proxy(), Proxy()
    async with server() as listening:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=old.bundle, answer=echo)
        url = f"https://{HOST}:{port}/apis"
        async with old.session(served) as session, session.get(url) as response:
            assert response.status == 200
        assert await listening.serve_visibility(HOST, 0, served, client_ca=new.bundle, answer=echo) == port
        async with new.session(served) as session, session.get(url) as response:
            assert response.status == 200
        async with old.session(served) as session:
            with pytest.raises(aiohttp.ClientError):
                await session.get(url)


async def test_a_renewed_certificate_of_the_visibility_api_is_served_on_the_same_port() -> None:
    first, second, proxy = certificate(), certificate(), Proxy()
    async with server() as listening:
        port = await listening.serve_visibility(HOST, 0, first, client_ca=proxy.bundle, answer=echo)
        assert await listening.serve_visibility(HOST, 0, second, client_ca=proxy.bundle, answer=echo) == port
        async with proxy.session(second) as session, session.get(f"https://{HOST}:{port}/apis") as response:
            assert response.status == 200


async def test_serving_again_answers_by_the_new_rules_at_once() -> None:
    async def refuse(_asked: ApiRequest) -> tuple[int, bytes]:
        return 401, b""

    served, proxy = certificate(), Proxy()
    async with server() as listening, proxy.session(served) as session:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=proxy.bundle, answer=echo)
        for answer, status in ((echo, 200), (refuse, 401)):
            await listening.serve_visibility(HOST, 0, served, client_ca=proxy.bundle, answer=answer)
            async with session.get(f"https://{HOST}:{port}/apis") as response:
                assert response.status == status


async def test_the_visibility_api_comes_back_after_it_could_not_listen_again() -> None:
    served, old, new = certificate(), Proxy(), Proxy()
    async with server() as listening:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=old.bundle, answer=echo)
        for _ in range(2):
            with pytest.raises(ssl.SSLError):
                await listening.serve_visibility(HOST, port, served, client_ca="garbage", answer=echo)
        assert listening._listeners == [], "what the old CA signed is not believed meanwhile"
        assert await listening.serve_visibility(HOST, port, served, client_ca=new.bundle, answer=echo) == port
        async with new.session(served) as session, session.get(f"https://{HOST}:{port}/apis") as response:
            assert response.status == 200


# Streams.


def streaming(stream: Stream) -> Callable[[ApiRequest], Awaitable[tuple[int, bytes | Stream]]]:
    async def answer(_asked: ApiRequest) -> tuple[int, bytes | Stream]:
        return 200, stream

    return answer


@asynccontextmanager
async def streamed(stream: Stream) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer of a visibility API that always streams this."""
    served, proxy = certificate(), Proxy()
    async with server() as listening, proxy.session(served) as session:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=proxy.bundle, answer=streaming(stream))
        async with session.get(f"https://{HOST}:{port}/log") as response:
            yield response


async def test_a_long_answer_comes_piece_by_piece() -> None:
    more = anyio.Event()

    async def say(start: Callable[[], Awaitable[Write]]) -> None:
        write = await start()
        await write(b"one")
        await more.wait()
        await write(b"two")

    async with streamed(say) as response:
        assert (response.status, response.content_type) == (200, "text/plain")
        assert await response.content.readany() == b"one"
        more.set()
        assert await response.read() == b"two"


async def test_one_that_has_begun_and_says_nothing_is_answered_at_once() -> None:
    async def say_nothing(start: Callable[[], Awaitable[Write]]) -> None:
        await start()
        await anyio.sleep_forever()

    async with streamed(say_nothing) as response:
        assert response.status == 200


async def test_one_that_cannot_begin_is_refused_in_kubernetes_words() -> None:
    async def refuse(_start: Callable[[], Awaitable[Write]]) -> None:
        raise Refused(404, "NotFound", "no such pod")

    async with streamed(refuse) as response:
        body = await response.json()
    assert (response.status, body["kind"], body["message"]) == (404, "Status", "no such pod")


async def test_one_that_fails_on_its_way_breaks_off_and_does_not_look_whole() -> None:
    async def break_off(start: Callable[[], Awaitable[Write]]) -> None:
        await (await start())(b"half")
        raise Refused(503, "ServiceUnavailable", "away")

    async with streamed(break_off) as response:
        with pytest.raises(aiohttp.ClientError):
            await response.read()


async def test_a_stream_ends_when_its_reader_has_gone() -> None:
    ended = anyio.Event()

    async def wait(start: Callable[[], Awaitable[Write]]) -> None:
        await start()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    served, proxy = certificate(), Proxy()
    async with server() as listening:
        port = await listening.serve_visibility(HOST, 0, served, client_ca=proxy.bundle, answer=streaming(wait))
        async with proxy.session(served) as session, session.get(f"https://{HOST}:{port}/log") as response:
            assert not ended.is_set()
            response.close()
        with anyio.fail_after(10):
            await ended.wait()
