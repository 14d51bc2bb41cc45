"""Carries requests of `kube.Client` to API servers in the same process: a network of links instead of sockets.

    network = Network(rng)
    network.add("worker1", cluster.api)
    Client.connect(Credentials(server="http://worker1"), transport=network.line("manager").transport)

It raises what aiohttp raises, at the point where aiohttp would, so that all of `kube` works as in life.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Protocol, cast

import aiohttp
import anyio
import anyio.lowlevel
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from multikueue.errors import NotLeading
from multikueue.kube.session import Session
from multikueue.sandbox.link import Fate, Link
from multikueue.sandbox.wire import JSON, Refused, Request, Response, User, Watch

__all__ = ["Handler", "Line", "Network"]

QUESTIONS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")


class Handler(Protocol):
    """An API server, as `sandbox.api.Api`."""

    async def handle(self, request: Request) -> Response | Watch: ...


@dataclass(slots=True)
class Host:
    """An API server with the users it knows by their Authorization header; without any, everybody is the administrator."""

    api: Handler
    users: dict[str, User] = field(default_factory=dict)

    def user(self, authorization: str) -> User | None:
        return self.users.get(authorization) if self.users else User()


class Network:
    """Hosts by name, and a link from each line to each host."""

    def __init__(self, rng: random.Random) -> None:
        self.hosts: dict[str, Host] = {}
        self._rng = rng
        self._links: dict[tuple[str, str], Link] = {}

    def add(self, name: str, api: Handler) -> Host:
        self.hosts[name] = Host(api)
        return self.hosts[name]

    def link(self, source: str, host: str) -> Link:
        """The link from a line's name to a host; made when first asked for, with luck of its own."""
        if (source, host) not in self._links:
            self._links[source, host] = Link(random.Random(self._rng.getrandbits(64)))  # noqa: S311  # not a secret
        return self._links[source, host]

    def line(self, source: str, observe: Observer | None = None) -> Line:
        return Line(self, source, observe)


Observer = Callable[[str, Request], None]
"""Told of each request as it is about to arrive: the host and the request. What it raises the sender never hears of:
see `Line.dead`."""


class Line:
    """What one process has of a network. Once it is `dead` nothing of it arrives anywhere, and nothing is answered."""

    def __init__(self, network: Network, source: str, observe: Observer | None) -> None:
        self.network, self.source, self.observe = network, source, observe
        self.dead = False

    def transport(self, *, user_agent: str, limit: int, may_write: Callable[[], bool]) -> Session:
        return cast(Session, _Session(self, user_agent=user_agent, limit=limit, may_write=may_write))


class _Session:
    def __init__(self, line: Line, *, user_agent: str, limit: int, may_write: Callable[[], bool]) -> None:
        self.line, self.user_agent, self.may_write = line, user_agent, may_write
        self.slots = anyio.CapacityLimiter(limit) if limit else None
        self.closed = False

    def request(self, method: str, url: URL, **options: Any) -> _Asked:
        if self.closed:
            raise RuntimeError("Session is closed")
        return _Asked(self, method, url, options)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed = True


class _Asked:
    """One request; the slot of its connection is kept until its answer is read or closed."""

    def __init__(self, session: _Session, method: str, url: URL, options: Mapping[str, Any]) -> None:
        self._session, self._url = session, url
        self._timeout: aiohttp.ClientTimeout = options["timeout"]
        headers = options.get("headers") or {}
        body = options.get("data") or b""
        self._authorization = headers.get("Authorization", "")
        self._request = Request(
            method=method,
            path=url.path,
            query=dict(url.query),
            body=body if isinstance(body, bytes) else body.getvalue(),
            content_type=headers.get("Content-Type", JSON),
            user_agent=session.user_agent,
        )
        self._answer: _Answer | None = None

    def __await__(self) -> Generator[Any, None, _Answer]:
        return self._send().__await__()

    async def __aenter__(self) -> _Answer:
        return await self._send()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is not None:
            self._answer.close()

    async def _send(self) -> _Answer:
        line = self._session.line
        link = line.network.link(line.source, self._url.host or "")
        with anyio.fail_after(self._timeout.total):
            async with _slot(self._session.slots):
                self._answer = await self._exchange(line, link)
        return self._answer

    async def _exchange(self, line: Line, link: Link) -> _Answer:
        fate = link.fate(self._request)
        age = link.age
        await anyio.sleep(fate.there)
        if fate.refused:
            raise aiohttp.ClientConnectorError(_key(self._url), ConnectionRefusedError(111, "Connection refused"))
        self._ask_for_leave()
        answer = await self._carry_out(line, fate) if fate.arrives else None
        await anyio.sleep(fate.back)
        if fate.hangs or line.dead:
            await anyio.sleep_forever()
        if answer is None or not fate.returns or link.age != age:
            if isinstance(answer, Watch):
                answer.close()
            raise aiohttp.ServerDisconnectedError
        return _Answer(answer, link, idle=self._timeout.sock_read)

    def _ask_for_leave(self) -> None:
        request = self._request
        if request.method != "GET" and not request.path.startswith(QUESTIONS) and not self._session.may_write():
            raise NotLeading(f"{request.method} {request.path}: not sent, for we may not act now")

    async def _carry_out(self, line: Line, fate: Fate) -> Response | Watch | None:
        host = self._url.host or ""
        if line.observe is not None and not line.dead:
            line.observe(host, self._request)
        if line.dead:
            return None
        if fate.answer is not None:
            return fate.answer
        known = line.network.hosts[host]
        user = known.user(self._authorization)
        if user is None:
            return Refused(401, "Unauthorized", "Unauthorized").response()
        self._request = _as(self._request, user)
        return await known.api.handle(self._request)


def _as(request: Request, user: User) -> Request:
    return Request(
        method=request.method,
        path=request.path,
        query=request.query,
        body=request.body,
        content_type=request.content_type,
        user=user,
        user_agent=request.user_agent,
    )


class _Answer:
    """aiohttp's response, as far as `kube` uses it."""

    def __init__(self, answer: Response | Watch, link: Link, *, idle: float | None) -> None:
        self._answer = answer
        self.status = answer.status if isinstance(answer, Response) else 200
        self.headers = answer.headers if isinstance(answer, Response) else {}
        self.content = _Lines(answer, link, idle) if isinstance(answer, Watch) else None

    async def read(self) -> bytes:
        assert isinstance(self._answer, Response)
        await anyio.lowlevel.checkpoint()
        return self._answer.body

    def close(self) -> None:
        if self.content is not None:
            self.content.close()


class _Lines:
    """The lines of a watch, as they arrive over the link: in order, each in its time; none while the link is silent."""

    def __init__(self, watch: Watch, link: Link, idle: float | None) -> None:
        self._watch, self._link, self._idle = watch, link, idle
        self._age = link.age
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._breaks = False
        self._news = anyio.Event()
        watch.wake = self._take
        link.watchers[self] = self._wake
        self._take()

    def close(self) -> None:
        self._watch.close()
        self._link.watchers.pop(self, None)
        self._wake()

    async def readline(self) -> bytes:
        with anyio.move_on_after(self._idle) as scope:
            return await self._line()
        assert scope.cancelled_caught
        self.close()
        raise aiohttp.SocketTimeoutError

    def _take(self) -> None:
        """What the server says now will be here in a while."""
        lines, earliest = self._watch.lines, anyio.current_time()
        while lines and not self._breaks:
            line, delay = lines.popleft(), self._link.line_delay()
            if delay is None:
                self._breaks = True
                break
            last = self._under_way[-1][0] if self._under_way else 0.0
            self._under_way += [(max(last, earliest + delay), line)] * (2 if self._link.doubles_line() else 1)
        self._wake()

    def _wake(self) -> None:
        self._news.set()

    async def _line(self) -> bytes:
        while True:
            if self._link.age != self._age:
                self._broken()
            wait = self._until_next()
            if wait == 0.0:
                return self._under_way.popleft()[1]
            if wait is None and not self._link.silent:
                if self._breaks:
                    self._broken()
                if self._watch.ended:
                    return b""
            self._news = anyio.Event()
            with anyio.move_on_after(wait):
                await self._news.wait()

    def _broken(self) -> NoReturn:
        self.close()
        raise aiohttp.ClientPayloadError("the connection broke")

    def _until_next(self) -> float | None:
        """Seconds until the next line is here; None if there is none under way, or it cannot come."""
        if self._link.silent or not self._under_way:
            return None
        return max(0.0, self._under_way[0][0] - anyio.current_time())


@asynccontextmanager
async def _slot(slots: anyio.CapacityLimiter | None) -> AsyncGenerator[None]:
    if slots is None:
        yield
        return
    async with slots:
        yield


def _key(url: URL) -> ConnectionKey:
    return ConnectionKey(url.host or "", url.port, url.scheme == "https", True, None, None, None)
