"""Requests that an APIService leads to another server: who asks there, for whom, and what comes back."""

from __future__ import annotations

import asyncio
import random
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
import pytest
from aiohttp import web

from fakekube.cluster import Cluster
from fakekube.front_end.aggregation import Aggregator
from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.model.wire import Object, Request, Response, User, Watch, object_of
from multikueue.runtime.clock import SystemClock

pytestmark = pytest.mark.anyio

ANNE = User("anne", ("staff", "system:authenticated"))
GROUP, VERSION = "toys.example.com", "v1"
AT = f"/apis/{GROUP}/{VERSION}/namespaces/team/toys/one"
MAPS = "/api/v1/namespaces/kube-system/configmaps"


class Extension:
    """A server behind a Service, which believes the front proxy alone; and the cluster that leads to it."""

    def __init__(self) -> None:
        self.cluster = Cluster("one", now=SystemClock().now, rng=random.Random(1))
        self.aggregator, self.authority = Aggregator(self.cluster.api, self.cluster.storage), Authority()
        self.port = 0

    async def create(self, path: str, body: Object) -> None:
        object_of(await self.cluster.api.handle(Request(method="POST", path=path, body=msgspec.json.encode(body))))

    async def get(self, path: str = AT, **query: str) -> Response | Watch:
        return await self.aggregator.handle(Request(method="GET", path=path, query=query, user=ANNE))

    async def lead(self, **service: str) -> None:
        where = {"namespace": "kube-system", "name": "extension", "port": self.port}
        spec = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 100, "versionPriority": 100}
        bundle = b64encode(self.authority.pem).decode()
        head = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
        meta = {"name": f"{VERSION}.{GROUP}"}
        body = {**head, "metadata": meta, "spec": {**spec, "service": where, "caBundle": bundle}}
        await self.create("/apis/apiregistration.k8s.io/v1/apiservices", body)
        meta = {"name": "extension", "namespace": "kube-system"}
        ports = [{"port": self.port}]
        found = {"type": "ExternalName", "externalName": "localhost", "ports": ports, **service}
        await self.create(
            "/api/v1/namespaces/kube-system/services",
            {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": found},
        )

    async def _answer(self, asked: web.BaseRequest) -> web.StreamResponse:
        if asked.query.get("follow"):
            stream = web.StreamResponse(headers={"Content-Type": "text/plain"})
            await stream.prepare(asked)
            for line in (b"one\n", b"two\n"):
                await stream.write(line)
            await stream.write_eof()
            return stream
        certificate = asked.transport.get_extra_info("peercert") if asked.transport else None
        told = {
            "proxy": certificate["subject"][-1][0][1] if certificate else "",
            "user": asked.headers["X-Remote-User"],
            "groups": asked.headers.getall("X-Remote-Group"),
            "path": asked.path,
            "query": dict(asked.query),
        }
        return web.json_response(told, status=418 if asked.query.get("refuse") else 200)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        await self.aggregator.publish()
        published = object_of(
            await self.cluster.api.handle(Request(method="GET", path=f"{MAPS}/extension-apiserver-authentication"))
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue("extension", "extension.kube-system.svc").load_into(context)
        context.load_verify_locations(cadata=published["data"]["requestheader-client-ca-file"])
        context.verify_mode = ssl.CERT_REQUIRED
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        await web.TCPSite(runner, "localhost", 0, ssl_context=context).start()
        self.port = int(runner.addresses[0][1])
        try:
            yield
        finally:
            await self.aggregator.aclose()
            await runner.cleanup()


@pytest.fixture
async def extension() -> AsyncIterator[Extension]:
    made = Extension()
    async with made.served():
        yield made


async def test_the_server_behind_the_service_is_told_who_asks_by_whom_it_may_believe(extension: Extension) -> None:
    await extension.lead()

    answer = await extension.get(limit="5")

    assert object_of(answer) == {
        "proxy": "front-proxy-client",
        "user": "anne",
        "groups": ["staff", "system:authenticated"],
        "path": AT,
        "query": {"limit": "5"},
    }


async def test_its_refusal_is_the_answer(extension: Extension) -> None:
    await extension.lead()
    answer = await extension.get(refuse="1")
    assert isinstance(answer, Response)
    assert answer.status == 418


async def test_what_goes_on_comes_piece_by_piece(extension: Extension) -> None:
    await extension.lead()

    answer = await extension.get(follow="true")

    assert isinstance(answer, Watch)
    assert answer.content_type == "text/plain"
    await asyncio.wait_for(answer.fill(), 5)
    assert (b"".join(answer.lines), answer.ended) == (b"one\ntwo\n", True)
    answer.close()


async def test_other_groups_are_the_cluster_s_own(extension: Extension) -> None:
    await extension.lead()
    assert object_of(await extension.get("/api/v1/namespaces/default"))["kind"] == "Namespace"
    missing = await extension.get("/apis/other.example.com/v1/toys")
    assert isinstance(missing, Response)
    assert missing.status == 404


@pytest.mark.parametrize(
    ("service", "problem"),
    [
        pytest.param({"type": "ClusterIP", "externalName": ""}, "leads nowhere", id="a Service of the cluster network"),
        pytest.param({"externalName": "127.0.0.1"}, "error trying to reach service", id="nobody listens there"),
    ],
)
async def test_a_service_that_cannot_be_reached(extension: Extension, service: dict[str, str], problem: str) -> None:
    extension.port = 1 if service.get("externalName") else extension.port
    await extension.lead(**{key: text for key, text in service.items() if text})

    answer = await extension.get()

    assert isinstance(answer, Response)
    assert answer.status == 503
    assert problem in msgspec.json.decode(answer.body)["message"]


class Filled(Watch):
    """An answer that fills itself while it is read."""

    content_type = "text/plain"

    async def fill(self) -> None:
        for line in (b"one\n", b"two\n"):
            await asyncio.sleep(0)
            self.feed(line)
        self.end()


class Filling:
    async def handle(self, _request: Request) -> Response | Watch:
        return Filled()


async def test_an_answer_may_fill_itself_while_it_is_read() -> None:
    cluster, authority = Cluster("one", now=SystemClock().now, rng=random.Random(1)), Authority()
    gate = AuthorizationFilter(Filling(), cluster.authorizer)
    async with FrontEnd(gate, cluster.users, authority=authority, now=SystemClock().now) as front_end:
        context = ssl.create_default_context(cadata=authority.pem.decode())
        async with aiohttp.ClientSession() as session, session.get(f"{front_end.url}/version", ssl=context) as answer:
            assert (answer.content_type, await answer.text()) == ("text/plain", "one\ntwo\n")
