"""Carries requests to API servers in the same process, over simulated links: one file, a class for each step.

    network = Network(rng)
    network.add("worker1", cluster.api)
    session = network.line("manager").session()
    async with session.request("GET", URL("http://worker1/api/v1/pods"), timeout=ClientTimeout(total=5)) as answer: ...

It raises aiohttp's errors where aiohttp would, so that the whole client runs as in production. Callbacks of the network
carry requests and answers, so that a request that was sent arrives even if its sender is cancelled.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextvars import Context
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Protocol

import aiohttp
import anyio.lowlevel
from aiohttp.client_reqrep import ConnectionKey
from yarl import URL

from fakekube.model.wire import JSON, Refused, Request, Response, User, Watch
from fakekube.network.link import Link

__all__ = ["Handler", "Line", "Network", "Observer", "Session", "is_write", "on_the_spot"]

QUESTIONS = ("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/")


def is_write(request: Request) -> bool:
    """Whether a request may change anything. Reviews do not, although they are POST requests."""
    return request.method != "GET" and not request.path.startswith(QUESTIONS)


class Handler(Protocol):
    """An API server, as `server.api.Api`. Its `handle` must finish without waiting."""

    def handle(self, request: Request) -> Coroutine[Any, Any, Response | Watch]: ...


class Observer(Protocol):
    """Called around the arrival of each request of a line. It may end the line (see `Line.dead`)."""

    def arriving(self, line: Line, host: str, request: Request, /) -> None: ...

    def arrived(self, line: Line, host: str, request: Request, answer: Response | Watch, /) -> None: ...


@dataclass(slots=True)
class Host:
    """An API server and its users by Authorization header. Who is not among them is `stranger`; without one the server
    answers 401. `delays` say how many seconds the server takes to answer a request."""

    api: Handler
    users: dict[str, User] = field(default_factory=dict)
    stranger: User | None = field(default_factory=User)
    delays: list[Callable[[Request], float]] = field(default_factory=list)

    def user(self, authorization: str) -> User | None:
        return self.users.get(authorization, self.stranger)


class Network:
    """Hosts by name, and a link from each line to each host."""

    def __init__(self, rng: random.Random) -> None:
        self.hosts: dict[str, Host] = {}
        self.aliases: dict[str, str] = {}
        """Hosts by other names that a URL may have for them, with the port: `127.0.0.1:8443`."""
        self.context = Context()
        """The context of callbacks in transit, which belong to no process."""
        self._rng = rng
        self._links: dict[tuple[str, str], Link] = {}

    def add(self, name: str, api: Handler) -> Host:
        self.hosts[name] = Host(api)
        return self.hosts[name]

    def host_of(self, url: URL) -> str:
        """The name of the host that a URL leads to."""
        return self.aliases.get(url.authority, url.host or "")

    def link(self, source: str, host: str) -> Link:
        """The link from a line's name to a host, created at first use with a random generator of its own."""
        if (source, host) not in self._links:
            self._links[source, host] = Link(random.Random(self._rng.getrandbits(64)))  # noqa: S311  # not a secret
        return self._links[source, host]

    def sources(self, host: str) -> tuple[str, ...]:
        """The names of all lines that ever had a link to a host."""
        return tuple(source for source, of in self._links if of == host)

    def line(self, source: str, observer: Observer | None = None) -> Line:
        return Line(self, source, observer)


class Line:
    """The network as one process uses it.

    A `dead` line receives no answers and sends no requests; of the requests in transit at its death, half arrive.
    """

    def __init__(self, network: Network, source: str, observer: Observer | None) -> None:
        self.network, self.source, self.observer = network, source, observer
        self.dead = False

    def session(self, *, user_agent: str = "", before_sending: Callable[[Request], None] | None = None) -> Session:
        """A session. `before_sending` receives each request; if it raises, the request is not sent."""
        return Session(self, user_agent=user_agent, before_sending=before_sending)


class Session:
    """The part of aiohttp's session that clients of Kubernetes use."""

    def __init__(self, line: Line, *, user_agent: str, before_sending: Callable[[Request], None] | None) -> None:
        self.line, self.user_agent, self.before_sending = line, user_agent, before_sending
        self.closed = False

    def request(self, method: str, url: URL, **options: Any) -> _Asked:
        if self.closed:
            raise RuntimeError("Session is closed")
        return _Asked(self, method, url, options)

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()
        self.closed = True


class _Asked:
    """One request."""

    def __init__(self, session: Session, method: str, url: URL, options: Mapping[str, Any]) -> None:
        self._session, self._url = session, url
        self._proxy: URL | None = options.get("proxy")
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
        return self.__aenter__().__await__()

    async def __aenter__(self) -> _Answer:
        loop, total = asyncio.get_running_loop(), self._timeout.total
        if self._session.before_sending is not None:
            self._session.before_sending(self._request)
        if self._proxy is not None:
            raise _refusal_of(self._proxy)
        flight = _Flight(self._session.line, self._url, self._request, self._authorization)
        timer = loop.call_at(loop.time() + total, flight.fail, TimeoutError()) if total is not None else None
        try:
            self._answer = _Answer(await flight.answered, flight.link, idle=self._timeout.sock_read)
        finally:
            if timer is not None:
                timer.cancel()
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is not None:
            self._answer.close()


class _Flight:
    """A request in transit, and then its answer."""

    __slots__ = (
        "_age",
        "_answer",
        "_authorization",
        "_fate",
        "_host",
        "_line",
        "_loop",
        "_request",
        "_url",
        "answered",
        "link",
    )

    def __init__(self, line: Line, url: URL, request: Request, authorization: str) -> None:
        self._line, self._url, self._request, self._authorization = line, url, request, authorization
        self._loop = asyncio.get_running_loop()
        self._answer: Response | Watch | None = None
        self._host = line.network.host_of(url)
        self.link = line.network.link(line.source, self._host)
        self._age, self._fate = self.link.age, self.link.fate(request)
        self.answered: asyncio.Future[Response | Watch] = self._loop.create_future()
        if line.dead:
            return
        self._after(self._fate.there, self._arrive)

    def fail(self, error: Exception) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)

    def _after(self, seconds: float, step: Callable[[], None]) -> None:
        self._loop.call_later(seconds, step, context=self._line.network.context)

    def _arrive(self) -> None:
        line, fate = self._line, self._fate
        if fate.refused:
            refusal = ConnectionRefusedError(111, "Connection refused")
            self.fail(aiohttp.ClientConnectorError(_key(self._url), refusal))
            return
        if self.link.deaf:
            self._wait_for_link(self._arrive)
            return
        if line.dead and self.link.rng.random() < 0.5:
            return
        if fate.arrives:
            self._answer = self._carried_out()
        if not line.dead:
            delays = line.network.hosts[self._host].delays
            self._after(fate.back + sum(delay(self._request) for delay in delays), self._return)

    def _return(self) -> None:
        if self.link.silent and not self.answered.done():
            self._wait_for_link(self._return)
            return
        if self._answer is None or not self._fate.returns or self.link.age != self._age:
            self.fail(aiohttp.ServerDisconnectedError())
        elif not self.answered.done() and not self._line.dead:
            self.answered.set_result(self._answer)
            return
        if isinstance(self._answer, Watch):
            self._answer.close()

    def _wait_for_link(self, step: Callable[[], None]) -> None:
        """Repeat a step when the link changes. A client that gave up meanwhile has reset the connection: its request is
        lost."""

        def on_change() -> None:
            if self.link.deaf or (self.link.silent and step == self._return):
                return
            del self.link.watchers[self]
            if self.answered.done() and step == self._arrive:
                return
            if self.link.age != self._age:
                self.fail(aiohttp.ServerDisconnectedError())
            self._after(0.0, step)

        self.link.watchers[self] = on_change

    def _carried_out(self) -> Response | Watch | None:
        line, host = self._line, self._host
        observer = line.observer if not line.dead else None
        if observer is not None:
            observer.arriving(line, host, self._request)
            if line.dead:
                return None
        answer = self._fate.answer or self._answer_of(line.network.hosts[host])
        if observer is not None:
            observer.arrived(line, host, self._request, answer)
        return answer

    def _answer_of(self, host: Host) -> Response | Watch:
        user = host.user(self._authorization)
        if user is None:
            return Refused(401, "Unauthorized", "Unauthorized").response()
        return on_the_spot(host.api.handle(_as(self._request, user)))


def on_the_spot(coroutine: Coroutine[Any, Any, Response | Watch]) -> Response | Watch:
    """The answer of an API server that finishes without waiting. Raises RuntimeError if it waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        answer: Response | Watch = done.value
        return answer
    coroutine.close()
    raise RuntimeError("an API server that is called in process must answer on the spot, and this one waits")


def _as(request: Request, user: User) -> Request:
    if user == request.user:
        return request
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
    """The part of aiohttp's response that clients of Kubernetes use."""

    def __init__(self, answer: Response | Watch, link: Link, *, idle: float | None) -> None:
        self._answer = answer
        self.status = answer.status if isinstance(answer, Response) else 200
        self.headers = answer.headers if isinstance(answer, Response) else {}
        self.content = _Lines(answer, link, idle) if isinstance(answer, Watch) else _Body(answer.body)

    def close(self) -> None:
        self.content.close()


class _Body:
    """A complete body."""

    def __init__(self, body: bytes) -> None:
        self._rest = body

    async def readany(self) -> bytes:
        body, self._rest = self._rest, b""
        return body

    def close(self) -> None:
        pass


class _Lines:
    """The lines of a watch, as they arrive over the link: in order, each after its delay; none while the link is
    silent."""

    def __init__(self, watch: Watch, link: Link, idle: float | None) -> None:
        self._watch, self._link, self._idle = watch, link, idle
        self._loop = asyncio.get_running_loop()
        self._age = link.age
        self._under_way: deque[tuple[float, bytes]] = deque()
        self._breaks = False
        self._reader: asyncio.Future[None] | None = None
        self._silence: asyncio.TimerHandle | None = None
        watch.wake = self._take
        link.watchers[self] = self._wake
        self._take()

    def close(self) -> None:
        self._watch.close()
        self._link.watchers.pop(self, None)
        if self._silence is not None:
            self._silence.cancel()
        self._wake()

    async def readline(self) -> bytes:
        loop, link = self._loop, self._link
        deadline = loop.time() + self._idle if self._idle is not None else None
        while True:
            line = self._now()
            if line is not None:
                return line
            if deadline is not None and loop.time() >= deadline:
                self.close()
                raise aiohttp.SocketTimeoutError
            if deadline is not None and self._silence is None:
                self._silence = loop.call_at(deadline, self._look_up)
            self._reader = loop.create_future()  # until a wake-up, the arrival of the next line, or the deadline
            due = self._under_way[0][0] if self._under_way and not link.silent else None
            timer = loop.call_at(due, self._wake) if due is not None else None
            try:
                await self._reader
            finally:
                self._reader = None
                if timer is not None:
                    timer.cancel()

    readany = readline

    def _look_up(self) -> None:
        """The deadline of some wait is over. If it was an earlier one, the present wait goes on until its own."""
        self._silence = None
        self._wake()

    def _take(self) -> None:
        """Put the server's new lines in transit, with their delays and faults."""
        lines, earliest = self._watch.lines, self._loop.time()
        while lines and not self._breaks:
            line, delay = lines.popleft(), self._link.line_delay()
            if delay is None:
                self._breaks = True
                break
            last = self._under_way[-1][0] if self._under_way else 0.0
            if self._link.tears_line():
                self._under_way.append((max(last, earliest + delay), line[: len(line) // 2]))
                self._breaks = True
                break
            self._under_way += [(max(last, earliest + delay), line)] * (2 if self._link.doubles_line() else 1)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def _now(self) -> bytes | None:
        """The next line if it has arrived, b"" at the end of the watch, otherwise None."""
        if self._link.age != self._age:
            self._broken()
        if not self._under_way:
            if self._watch.ended and not self._watch.lines:
                return b""
            if not self._breaks:
                return None
        if self._link.silent:
            return None
        if self._under_way:
            return self._under_way.popleft()[1] if self._under_way[0][0] <= self._loop.time() else None
        if self._breaks:
            self._broken()
        return None

    def _broken(self) -> NoReturn:
        self.close()
        raise aiohttp.ClientPayloadError("the connection broke")


def _refusal_of(proxy: URL) -> aiohttp.ClientHttpProxyError:
    """No proxy lets a request through. As aiohttp's, the error shows the URL of the proxy as it was given."""
    headers: Any = {}
    asked = aiohttp.RequestInfo(proxy, "CONNECT", headers, proxy)
    return aiohttp.ClientHttpProxyError(asked, (), status=407, message="Proxy Authentication Required")


def _key(url: URL) -> ConnectionKey:
    return ConnectionKey(url.host or "", url.port, url.scheme == "https", True, None, None, None)
