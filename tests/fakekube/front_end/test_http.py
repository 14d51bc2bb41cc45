"""The face over a whole cluster, asked by clients that are not ours."""

from __future__ import annotations

import asyncio
import gzip
import random
import ssl
import tempfile
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import uvloop
import yaml

from fakekube.cluster import Cluster
from fakekube.front_end.audit import Event
from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.model.wire import Object
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue.runtime.clock import SystemClock
from tests.fakekube.front_end.test_protobuf import body, entry, field

pytestmark = pytest.mark.anyio

MAPS = "/api/v1/namespaces/default/configmaps"
WATCH = {"watch": "1"}
AUTHORITY = Authority()


class Server:
    """A cluster with a face, and what is known of it outside."""

    def __init__(self, *, rbac: bool = False) -> None:
        now = SystemClock().now
        self.cluster = Cluster("one", now=now, rng=random.Random(1), rbac=rbac)
        self.cluster.users.add("admin", "system:masters", token="t-admin")
        self.cluster.users.add("anne", token="t-anne")
        self.events: list[Event] = []
        self.front_end = FrontEnd(
            AuthorizationFilter(self.cluster.api, self.cluster.authorizer),
            self.cluster.users,
            authority=AUTHORITY,
            now=now,
            record=self.events.append,
        )

    @asynccontextmanager
    async def session(self, token: str = "t-admin", **options: Any) -> AsyncIterator[aiohttp.ClientSession]:
        headers = options.pop("headers", {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        context = options.pop("context", None) or trusting()
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(
            self.front_end.url, connector=connector, headers=headers, **options
        ) as session:
            yield session


def trusting(user: str = "", *groups: str) -> ssl.SSLContext:
    """Trust in the authority; with a user's certificate, if there is one."""
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    if user:
        issued = AUTHORITY.issue(user, groups=groups)
        with tempfile.NamedTemporaryFile() as file:
            file.write(issued.certificate + issued.key)
            file.flush()
            context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def serving(*, rbac: bool = False) -> AsyncIterator[Server]:
    made = Server(rbac=rbac)
    async with made.front_end:
        yield made
    made.cluster.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as made:
        yield made


async def create(session: aiohttp.ClientSession, name: str, **data: str) -> Object:
    content = {"metadata": {"name": name}, "data": data}
    async with session.post(MAPS, json=content) as response:
        assert response.status == 201, await response.text()
        made: Object = await response.json()
        return made


async def whoami(session: aiohttp.ClientSession, **headers: str) -> Object:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with session.post(path, json=review, headers=headers) as response:
        answer = await response.json()
        assert response.status == 201, answer
        info: Object = answer["status"]["userInfo"]
        return info


async def test_an_object_goes_in_and_comes_out(server: Server) -> None:
    async with server.session() as session:
        made = await create(session, "cm", a="b")
        async with session.get(f"{MAPS}/cm") as response:
            assert await response.json() == made
            assert response.headers["Content-Type"] == "application/json"
        async with session.get(f"{MAPS}/none") as response:
            assert (response.status, (await response.json())["reason"]) == (404, "NotFound")


async def test_users_are_known_by_token_or_certificate(server: Server) -> None:
    async with server.session() as session:
        assert await whoami(session) == {
            "username": "admin",
            "uid": "admin",
            "groups": ["system:masters", "system:authenticated"],
        }
    async with server.session("", context=trusting("bob", "staff")) as session:
        assert await whoami(session) == {"username": "bob", "groups": ["staff", "system:authenticated"]}


async def test_who_is_not_known_gets_nothing(server: Server) -> None:
    async with server.session("wrong") as session, session.get("/version") as response:
        assert response.status == 401
        assert (await response.json())["message"] == "Unauthorized"
    async with server.session("") as session:
        async with session.get("/api/v1/namespaces") as response:
            assert response.status == 403
        async with session.get("/readyz") as response:
            assert await response.text() == "ok"
        async with session.get("/version") as response:
            assert (await response.json())["gitVersion"].startswith("v1.37.")


async def test_a_certificate_of_another_authority_is_worth_nothing(server: Server) -> None:
    other = Authority().issue("admin", groups=("system:masters",))
    context = trusting()
    with tempfile.NamedTemporaryFile() as file:
        file.write(other.certificate + other.key)
        file.flush()
        context.load_cert_chain(file.name)
    async with server.session("", context=context) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get("/version")


async def test_roles_are_enforced_if_wanted() -> None:
    async with serving(rbac=True) as server, server.session("t-anne") as session, session.get(MAPS) as response:
        answer = await response.json()
    assert response.status == 403
    assert answer["message"] == (
        'configmaps is forbidden: User "anne" cannot list resource "configmaps" in API group "" in the namespace '
        '"default"'
    )


async def test_a_service_account_comes_in_with_its_token(server: Server) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    async with server.session() as session:
        async with session.post(accounts, json={"metadata": {"name": "robot"}}) as response:
            assert response.status == 201
        async with session.post(f"{accounts}/robot/token", json={"spec": {"expirationSeconds": 600}}) as response:
            token = (await response.json())["status"]["token"]
    async with server.session(token) as session:
        assert (await whoami(session))["username"] == "system:serviceaccount:default:robot"
    async with server.session() as session, session.delete(f"{accounts}/robot"):
        pass
    async with server.session(token) as session, session.get(MAPS) as response:
        assert response.status == 401


async def test_one_may_act_for_somebody_else() -> None:
    as_admin = {"Impersonate-User": "admin"}
    async with serving(rbac=True) as server:
        async with server.session() as session:
            info = await whoami(session, **{"Impersonate-User": "bob", "Impersonate-Group": "staff"})
            assert info == {"username": "bob", "groups": ["staff", "system:authenticated"]}
        async with server.session("t-anne") as session, session.get(MAPS, headers=as_admin) as response:
            assert response.status == 403


async def test_bodies_come_in_yaml_and_protobuf_too(server: Server) -> None:
    async with server.session() as session:
        content = yaml.safe_dump({"metadata": {"name": "yaml"}, "data": {"a": "b"}})
        async with session.post(MAPS, data=content, headers={"Content-Type": "application/yaml"}) as response:
            assert (response.status, (await response.json())["data"]) == (201, {"a": "b"})
        sent = body("v1", "ConfigMap", field(1, field(1, "proto")), field(2, entry("a", "b")))
        headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
        headers["Accept"] = "application/vnd.kubernetes.protobuf,application/json"
        async with session.post(MAPS, data=sent, headers=headers) as response:
            assert (response.status, (await response.json())["data"]) == (201, {"a": "b"})
            assert response.headers["Content-Type"] == "application/json"
        async with session.post(MAPS, data=b"x", headers=headers) as response:
            assert response.status == 400
        async with session.get(MAPS, headers={"Accept": "application/vnd.kubernetes.protobuf"}) as response:
            assert response.status == 406
        async with session.get(f"{MAPS}/yaml", headers={"Accept": "application/yaml"}) as response:
            assert yaml.safe_load(await response.text())["data"] == {"a": "b"}
        async with session.post(MAPS, data=b"<a/>", headers={"Content-Type": "application/xml"}) as response:
            assert response.status == 415


async def test_a_body_may_not_be_too_large(server: Server) -> None:
    async with server.session() as session, session.post(MAPS, data=BytesIO(b" " * (5 * 2**20))) as response:
        assert (response.status, (await response.json())["reason"]) == (413, "RequestEntityTooLarge")
        assert (await response.json())["message"] == "Request entity too large: limit is 3145728"


async def test_large_answers_are_compressed_for_who_wants_that(server: Server) -> None:
    async with server.session() as session:
        await create(session, "large", text="x" * 200_000)
    async with server.session(auto_decompress=False) as session:
        async with session.get(MAPS, headers={"Accept-Encoding": "gzip"}) as response:
            assert response.headers["Content-Encoding"] == "gzip"
            assert len(gzip.decompress(await response.read())) > 200_000
        async with session.get(MAPS, headers={"Accept-Encoding": "identity"}) as response:
            assert "Content-Encoding" not in response.headers
        async with session.get(f"{MAPS}/none", headers={"Accept-Encoding": "gzip"}) as response:
            assert "Content-Encoding" not in response.headers


async def line(response: aiohttp.ClientResponse) -> Any:
    async with asyncio.timeout(5):
        return msgspec.json.decode(await response.content.readline())


async def test_a_watch_tells_what_happens(server: Server) -> None:
    async with server.session() as session:
        await create(session, "a")
        async with session.get(MAPS, params=WATCH) as response:
            assert response.headers["Transfer-Encoding"] == "chunked"
            first = await line(response)
            assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
            await create(session, "b")
            assert (await line(response))["object"]["metadata"]["name"] == "b"


async def test_a_watch_begins_before_anything_happens(server: Server) -> None:
    async with server.session() as session, asyncio.timeout(5), session.get(MAPS, params=WATCH) as response:
        assert response.status == 200


async def test_a_watch_ends_when_its_time_is_up(server: Server) -> None:
    params = WATCH | {"timeoutSeconds": "1"}
    async with server.session() as session, asyncio.timeout(5), session.get(MAPS, params=params) as response:
        assert await response.read() == b""


async def test_a_watch_whose_reader_goes_is_forgotten(server: Server) -> None:
    async with server.session() as session:
        async with session.get(MAPS, params=WATCH):
            assert len(server.cluster.api.watches) == 1
        async with asyncio.timeout(5):
            while len(server.cluster.api.watches):  # noqa: ASYNC110 - nobody tells when
                await asyncio.sleep(0.01)


async def test_a_reader_that_is_too_slow_is_cut_off() -> None:
    async with serving() as server, server.session() as session:
        server.cluster.api.server.watch_buffer = 5
        async with session.get(MAPS, params=WATCH, read_bufsize=2**10) as response:
            await create(session, "cm", text="")
            path = f"{MAPS}/cm"
            for number in range(20):  # more than sockets take in
                change = {"data": {"text": f"{number:02}" * 400_000}}
                headers = {"Content-Type": "application/merge-patch+json"}
                async with session.patch(path, data=msgspec.json.encode(change), headers=headers) as answer:
                    assert answer.status == 200
            assert len(server.cluster.api.watches) == 0
            lines = (await response.read()).splitlines()
            assert 5 <= len(lines) < 20
            assert all(msgspec.json.decode(each)["type"] for each in lines)


async def test_reader_and_server_may_end_a_watch_at_the_same_time(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    for moments in range(12):
        async with server.session() as session:
            async with session.get(MAPS, params=WATCH):
                pass
            for _ in range(moments):
                await asyncio.sleep(0)
            server.cluster.api.watches.end()
            async with session.get(MAPS):
                pass
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_stopping_ends_all_watches_and_starting_again_keeps_the_port(server: Server) -> None:
    async with server.session() as session:
        await create(session, "a")
        port = server.front_end.port
        async with session.get(MAPS, params=WATCH | {"resourceVersion": "0"}) as response:
            await line(response)
            async with asyncio.timeout(5):
                await server.front_end.stop()
                assert await response.content.read() == b""
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(MAPS)
        await server.front_end.start()
        assert server.front_end.port == port
        async with session.get(f"{MAPS}/a") as response:
            assert response.status == 200


async def test_the_port_is_taken_only_once(server: Server) -> None:
    other = Server()
    other.front_end.port = server.front_end.port
    with pytest.raises(OSError, match="address"):
        await other.front_end.start()
    await other.front_end.stop()
    other.cluster.close()


async def test_who_goes_before_a_write_is_stored_has_changed_nothing(server: Server) -> None:
    body = msgspec.json.encode({"metadata": {"name": "late"}})
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t-admin\r\nContent-Length: {len(body)}\r\n\r\n"
    _, writer = await asyncio.open_connection(server.front_end.host, server.front_end.port, ssl=trusting())
    writer.write(head.encode() + body)
    await writer.drain()
    writer.transport.abort()
    # A write of our own, begun later, takes as long.
    async with server.session() as session, session.post(MAPS, json={"metadata": {"name": "in-time"}}) as answer:
        assert answer.status == 201
    assert server.cluster.find("v1", "ConfigMap", "in-time", "default") is not None
    assert server.cluster.find("v1", "ConfigMap", "late", "default") is None


async def test_each_call_is_recorded(server: Server) -> None:
    async with server.session(headers={"User-Agent": "test/1.0"}) as session:
        for method, path, query in (
            ("GET", f"{MAPS}/none", {}),
            ("GET", MAPS, WATCH),
            ("DELETE", MAPS, {}),
            ("GET", "/version", {}),
        ):
            async with session.request(method, path, params=query):
                pass
    assert [(*each.call, each.name, each.namespace, each.code) for each in server.events] == [
        ("admin", "test", "get", "configmaps", "none", "default", 404),
        ("admin", "test", "watch", "configmaps", "", "default", 200),
        ("admin", "test", "deletecollection", "configmaps", "", "default", 200),
    ]


async def test_our_own_client_gets_along_with_it(server: Server) -> None:
    for config in (server.front_end.kubeconfig("admin"), server.front_end.certified_kubeconfig("bob", "staff")):
        async with Client.connect(await from_kubeconfig(config), cluster="one") as client:
            assert client is not None
    cluster = server.front_end.kubeconfig()["clusters"][0]["cluster"]
    assert b64decode(cluster["certificate-authority-data"]) == AUTHORITY.pem


async def test_warnings_come_as_headers(server: Server) -> None:
    async with server.session() as session:
        content = {"metadata": {"name": "cm"}, "nonsense": 1}
        async with session.post(MAPS, json=content, params={"fieldValidation": "Warn"}) as response:
            assert response.status == 201
            assert response.headers["Warning"] == '299 - "unknown field \\"nonsense\\""'


def test_it_works_on_uvloop_too(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving() as server, server.session() as session:
            await create(session, "a")
            async with session.get(MAPS, params=WATCH) as response:
                assert (await line(response))["type"] == "ADDED"
                await server.front_end.stop()

    uvloop.run(work())
