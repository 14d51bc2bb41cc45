"""Who a client is, and whom it believes: tokens that are renewed, certificates, a proxy."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from fakekube.front_end.authority import Authority
from multikueue.api.kinds import JOBS
from multikueue.errors import (
    ClusterUnreachable,
    Unauthorized,
)
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import Grant
from multikueue.kube.client import Client
from tests.kube.calling import FOUND, A
from tests.kube.server import (
    Script,
    client_of,
    job,
    refuses,
    says,
    serving,
)

pytestmark = pytest.mark.anyio


# Credentials.
class Rotating:
    """A token source that gives one token after the other."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = iter(tokens)

    async def __call__(self) -> Grant:
        return Grant(next(self.tokens))


async def only_new(request: web.BaseRequest) -> web.StreamResponse:
    ok = request.headers.get("Authorization") == "new"
    return await (FOUND if ok else refuses(401, "Unauthorized"))(request)


async def test_a_refused_token_is_renewed_once() -> None:
    script = Script(only_new)
    credentials = Rotating("old", "new")
    async with serving(script) as url, Client.connect(Credentials(server=url, token=credentials)) as client:
        assert (await client.get(JOBS, A)).key == A
    assert [request.headers["Authorization"] for request in script.requests] == ["old", "new"]


async def test_a_create_that_was_refused_for_its_token_is_sent_again() -> None:
    script = Script(only_new)
    async with serving(script) as url, Client.connect(Credentials(server=url, token=Rotating("old", "new"))) as client:
        await client.create(JOBS, "ns", {"a": 1})
    assert script.bodies == [b'{"a":1}'] * 2


async def test_a_token_that_stays_refused_is_an_error() -> None:
    async with client_of(refuses(401, "Unauthorized")) as (client, script):
        with pytest.raises(Unauthorized):
            await client.get(JOBS, A)
    assert len(script.requests) == 1


async def test_a_stream_renews_a_refused_token_too() -> None:
    script = Script(only_new)
    async with (
        serving(script) as url,
        Client.connect(Credentials(server=url, token=Rotating("old", "new"))) as client,
        client.stream("/apis/batch/v1/jobs", {"watch": "true"}, idle=1) as stream,
    ):
        assert json.loads(await stream.line())["kind"] == "Job"
    assert len(script.requests) == 2


# TLS.
AUTHORITY = Authority()


@pytest.fixture
def server_tls() -> ssl.SSLContext:
    """A server called w1.test that asks for a certificate of our authority."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    AUTHORITY.issue("server", "w1.test").load_into(context)
    context.load_verify_locations(cadata=AUTHORITY.pem.decode())
    context.verify_mode = ssl.CERT_REQUIRED
    return context


@pytest.fixture
async def tls_server(server_tls: ssl.SSLContext) -> AsyncIterator[str]:
    async def who(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        certificate: Mapping[str, Any] = request.transport.get_extra_info("peercert")
        names = [value for parts in certificate["subject"] for name, value in parts if name == "commonName"]
        return await says(job(names[0]))(request)

    async with serving(who, tls=server_tls) as url:
        yield url


def identified(server: str, *, authority: Authority = AUTHORITY, name: str = "w1.test") -> Credentials:
    ours = AUTHORITY.issue("us@example.com")
    return Credentials(
        server=server,
        authority=authority.pem,
        certificate=ours.certificate,
        key=ours.key,
        tls_server_name=name,
    )


async def test_a_client_certificate_is_presented_to_a_server_that_is_verified(tls_server: str) -> None:
    async with Client.connect(identified(tls_server)) as client:
        assert (await client.get(JOBS, A)).key.name == "us@example.com"


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"name": "other.test"}, id="another name"),
        pytest.param({"authority": Authority()}, id="another authority"),
    ],
)
async def test_a_server_that_is_not_who_it_should_be_is_unreachable(tls_server: str, options: Any) -> None:
    async with Client.connect(identified(tls_server, **options), call_timeout=0.1) as client:
        with pytest.raises(ClusterUnreachable, match=r"TLS: .*certificate verify failed"):
            await client.get(JOBS, A)


async def test_a_certificate_of_a_plugin_is_presented(tls_server: str) -> None:
    ours = AUTHORITY.issue("plugin@example.com")
    grant = Grant("", ours.certificate, ours.key)

    async def plugin() -> Grant:
        return grant

    authority = AUTHORITY.pem
    credentials = Credentials(server=tls_server, authority=authority, tls_server_name="w1.test", token=plugin)
    async with Client.connect(credentials) as client:
        assert (await client.get(JOBS, A)).key.name == "plugin@example.com"


async def test_a_proxy_of_the_kubeconfig_is_used() -> None:
    script = Script(FOUND)
    async with serving(script) as proxy, Client.connect(Credentials(server="http://w1.test", proxy=proxy)) as client:
        assert (await client.get(JOBS, A)).key == A
    assert str(script.requests[0].headers["Host"]) == "w1.test"
