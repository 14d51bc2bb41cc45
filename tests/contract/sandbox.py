"""The sandbox's API server: called in this process, and served over HTTPS."""

from __future__ import annotations

import json
import random
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import anyio

from fakekube.cluster import Cluster
from fakekube.front_end.authority import Authority
from fakekube.front_end.authorization import AuthorizationFilter
from fakekube.front_end.http import FrontEnd
from fakekube.model.wire import Request, Response, User, Watch
from fakekube.network.transport import Network
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.kube.client import Client
from multikueue.kube.cluster_client import WatchingClient
from multikueue_simulator import definitions
from multikueue_simulator.world.transport import over
from tests.cluster import InProcessClient
from tests.contract import builders
from tests.contract.server import JSON, PATIENCE, Answer, OverHttp, Server, Stream, decoded, headers_of, payload

__all__ = ["direct", "over_https", "within_process"]

USERS = {
    "admin": User("admin", ("system:masters", "system:authenticated")),
    "manager": User("manager", ("system:authenticated",)),
}


def _cluster() -> Cluster:
    return Cluster(
        "contract", now=lambda: datetime.now(UTC), rng=random.Random(7), definitions=definitions.kueue(), rbac=True
    )


async def _closed(cluster: Cluster) -> None:
    cluster.close()
    await cluster.admission.aclose()


class OverHttps(OverHttp):
    def __init__(
        self, session: aiohttp.ClientSession, tokens: Mapping[str, str], cluster: Cluster, *, url: str, authority: bytes
    ) -> None:
        super().__init__(session, tokens, url=url, authority=authority)
        self._cluster = cluster

    async def forget(self) -> None:
        self._cluster.storage.compact()


@asynccontextmanager
async def over_https() -> AsyncIterator[Server]:
    cluster, authority = _cluster(), Authority()
    tokens = {"admin": "token-of-admin", "manager": "token-of-manager"}
    cluster.users.add("admin", "system:masters", token=tokens["admin"])
    cluster.users.add("manager", token=tokens["manager"])
    gate = AuthorizationFilter(cluster.api, cluster.authorizer)
    async with FrontEnd(gate, cluster.users, authority=authority, now=lambda: datetime.now(UTC)) as front_end:
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority.pem.decode()), limit=0)
        async with aiohttp.ClientSession(front_end.url, connector=connector, read_bufsize=2**22) as session:
            server = OverHttps(session, tokens, cluster, url=front_end.url, authority=authority.pem)
            await builders.install(server)
            yield server
    await _closed(cluster)


class WithinProcess(Server):
    """No wire at all. Whoever calls is who they say."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._gate = cluster, AuthorizationFilter(cluster.api, cluster.authorizer)
        self._network = Network(random.Random(7))
        host = self._network.add("contract", self._gate)
        host.users, host.stranger = {f"Bearer {name}": user for name, user in USERS.items()}, None

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        user: str | None = None,
    ) -> Answer:
        request = Request(
            method=method,
            path=path,
            query=query or {},
            body=payload(body),
            content_type=content_type,
            accept=accept,
            user=USERS[user or "admin"],
            user_agent="Python/3",
        )
        with anyio.fail_after(PATIENCE):
            answer = await self._gate.handle(request)
            if isinstance(answer, Watch):
                return Answer(
                    200, decoded(await _everything(answer)), headers_of({"Content-Type": answer.content_type})
                )
        headers = headers_of({"Content-Type": answer.content_type, **answer.headers})
        return Answer(answer.status, decoded(answer.body), headers)

    @asynccontextmanager
    async def watch(self, path: str, query: Mapping[str, str], *, accept: str = JSON) -> AsyncIterator[Stream]:
        query = {"watch": "true", **query}
        request = Request(method="GET", path=path, query=query, accept=accept, user=USERS["admin"])
        answer = await self._gate.handle(request)
        assert isinstance(answer, Watch), _said(answer)
        try:
            yield _Lines(answer)
        finally:
            answer.close()

    def client(self, user: str = "admin") -> AbstractAsyncContextManager[Client]:
        credentials = Credentials(server="http://contract", token=FixedToken(f"Bearer {user}"))
        return Client.connect(credentials, transport=over(self._network.line("manager")))

    async def forget(self) -> None:
        self._cluster.storage.compact()


class Direct(WithinProcess):
    """With the client of the controllers' tests, which nothing carries."""

    @asynccontextmanager
    async def controllers_client(self) -> AsyncIterator[WatchingClient]:
        yield InProcessClient(self._gate, user=USERS["admin"])


class _Lines(Stream):
    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def line(self, *, within: float = PATIENCE) -> bytes:
        with anyio.fail_after(within):
            while not self._watch.lines and not self._watch.ended:
                news = anyio.Event()
                self._watch.wake = news.set
                await news.wait()
        return self._watch.lines.popleft() if self._watch.lines else b""


async def _everything(watch: Watch) -> bytes:
    lines, reader = [], _Lines(watch)
    while line := await reader.line():
        lines.append(line)
    return b"".join(lines)


def _said(answer: Response) -> str:
    return f"{answer.status}: {json.dumps(decoded(answer.body))}"


def within_process() -> AbstractAsyncContextManager[Server]:
    return _opened(WithinProcess)


def direct() -> AbstractAsyncContextManager[Server]:
    return _opened(Direct)


@asynccontextmanager
async def _opened(made: type[WithinProcess]) -> AsyncIterator[Server]:
    cluster = _cluster()
    server = made(cluster)
    await builders.install(server)
    yield server
    await _closed(cluster)
