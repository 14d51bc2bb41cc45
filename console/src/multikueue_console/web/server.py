"""The server of the console in one file: pages, one stream, and questions about one object, with the rights of who asks."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from aiohttp import web

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.errors import ApiError, ClusterUnreachable, MultiKueueError, NotFound, Unauthorized
from multikueue_console.web.actions import Action, ActionRefused
from multikueue_console.web.buttons import Buttons
from multikueue_console.web.guard import HEADERS, spelled, why_refused
from multikueue_console.web.oidc import CALLBACK, LOGIN_COOKIE, LOGIN_TIME, IdentityProvider, Issuer, LoginFailed
from multikueue_console.web.past_use import WAYS, PastUse
from multikueue_console.web.rights import Access, Person, Visible
from multikueue_console.web.sessions import COOKIE, MOST_STREAMS, Session, Sessions
from multikueue_console.web.stream import Pictures, events_for
from multikueue_console.web.workload_pages import WorkloadPages

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import WatchingClient
    from multikueue.runtime.clock import Clock
    from multikueue_console.history.outlook import Forecast
    from multikueue_console.history.store import RunHistory
    from multikueue_console.model.workloads import WorkloadRow
    from multikueue_console.watch.fleet_watch import FleetWatch

__all__ = ["Connect", "ConsoleServer", "Options"]

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

ALL_STREAMS = 400
"""Streams that may be open, of all sessions."""

WRITE_TIMEOUT = 30.0
"""Seconds in which a reader must take a piece; a stream whose reader does not is closed."""

MOST_DAYS = 365
"""How far back use is summed up."""

MOST_WORD = 253
"""Characters of a name."""

MOST_KEYS = 300
"""Workloads whose place may be asked for at once."""

PAGES = ("/", "/queues", "/workloads", "/clusters", "/strategies", "/people", "/problems")

_SESSION = web.RequestKey("session", Session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`hosts`: more names, with the port, under which the console is known. `name`: of the cluster, for titles.
    `actions`: what pages may change, by name. `buttons`: of whoever started the console. `issuer`: by whose ID tokens people
    log in, besides tokens of the cluster."""

    host: str = "127.0.0.1"
    port: int = 0
    hosts: tuple[str, ...] = ()
    name: str = ""
    actions: Mapping[str, Action] = field(default_factory=dict)
    buttons: Buttons = field(default_factory=Buttons)
    tls: ssl.SSLContext | None = None
    issuer: Issuer | None = None

    @property
    def known(self) -> set[str]:
        """The names besides that of the address."""
        return {*self.hosts, *((self.issuer.console_host,) if self.issuer else ())}


Connect = Callable[[Person], AbstractAsyncContextManager["WatchingClient"]]
"""A client with the credentials of that person."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stream:
    session: Session
    request: web.Request
    scope: anyio.CancelScope


class ConsoleServer:
    """Serves the watch to browsers. `connect` gives the client for calls in somebody's own name; `history` is read where there
    is one, and stays open. `starts` tells when jobs start that wait: None for unknown; one that is missing has no estimate."""

    def __init__(
        self,
        watch: FleetWatch,
        access: Access,
        connect: Connect,
        clock: Clock,
        options: Options,
        *,
        history: RunHistory | None = None,
        starts: Callable[[], Mapping[ObjectKey, Forecast | None]] = dict,
    ) -> None:
        self._watch, self._access, self._clock, self._options = watch, access, clock, options
        self.sessions = Sessions(clock.monotonic)
        self._provider = IdentityProvider(options.issuer, clock.monotonic) if options.issuer else None
        self._pictures = Pictures(watch)
        self._pages, self._connect = WorkloadPages(watch, connect), connect
        self._starts = starts
        self._past = PastUse(history, watch.now) if history is not None else None
        self._streams: list[_Stream] = []
        self.strangers = Session(Person(), clock.monotonic())
        self._hosts: frozenset[str] = frozenset()
        self._assets = {each.name: each.read_bytes() for each in files(__package__).joinpath("assets").iterdir()}
        self.url = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serves during the block; the value is the address. Raises OSError if the port is taken."""
        app = web.Application(middlewares=[self._middleware], client_max_size=2**16)
        app.add_routes(self._routes())
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, self._options.host, self._options.port, ssl_context=self._options.tls)
            await site.start()
            port = runner.addresses[0][1]
            names = {"127.0.0.1", "localhost", "[::1]", self._options.host}
            self._hosts = spelled({f"{name}:{port}" for name in names} | self._options.known)
            self.url = f"http{'s' if self._options.tls else ''}://{self._options.host}:{port}"
            yield self.url
        finally:
            with anyio.CancelScope(shield=True):
                await runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        pages = [web.get(path, self._page) for path in PAGES]
        return [
            *pages,
            web.get("/workloads/{namespace}/{name}", self._page),
            web.get("/queues/{name}", self._page),
            web.get("/assets/{name}", self._asset),
            web.get("/login", self._login_by_ticket),
            web.post("/login", self._login_by_token),
            web.get("/login/oidc", self._to_issuer),
            web.get(CALLBACK, self._from_issuer),
            web.post("/logout", self._logout),
            web.get("/healthz", self._healthy),
            web.get("/api/stream", self._stream),
            web.get("/api/places", self._places),
            web.get("/api/use", self._use),
            web.get("/api/queues/{name}/line", self._line),
            web.get("/api/workloads/{namespace}/{name}", self._story),
            web.get("/api/workloads/{namespace}/{name}/{what:object|pods|events}", self._part),
            web.get("/api/workloads/{namespace}/{name}/log", self._log),
            web.post("/api/workloads/{namespace}/{name}/{action:[a-z]+}", self._act),
            web.post("/api/clusters/{name}/{action:[a-z]+}", self._act),
            web.post("/api/buttons/{name}", self._press),
            web.get("/api/workloads/{namespace}/{name}/{action:[a-z]+}/effect", self._effect),
            web.get("/api/clusters/{name}/{action:[a-z]+}/effect", self._effect),
        ]

    # --- every request ---

    @web.middleware
    async def _middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            answer = await self._answered(request, handler)
        except LoginFailed as error:
            answer = self._door(str(error))
        except web.HTTPException as error:
            answer = _refusal(error.status, error.text or error.reason)
        except Unauthorized:
            answer = _refusal(401, "your token is not valid any more")
        except NotFound as error:
            answer = _refusal(404, str(error))
        except ActionRefused as error:
            answer = _refusal(409, str(error))
        except ApiError as error:
            answer = _refusal(error.status if 400 <= error.status < 500 else 502, str(error))
        except ClusterUnreachable as error:
            answer = _refusal(503, str(error))
        except MultiKueueError as error:
            answer = _refusal(502, str(error))
        if not answer.prepared:
            answer.headers.update({name: text for name, text in HEADERS.items() if name not in answer.headers})
        return answer

    async def _answered(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if request.path == "/healthz":
            return await handler(request)
        why = why_refused(request.method, request.headers, self._hosts)
        if why:
            raise web.HTTPForbidden(text=why)
        session = await self._session_of(request)
        if not (session or self.strangers).spend(self._clock.monotonic()):
            raise web.HTTPTooManyRequests(text="too many requests")
        if session is not None:
            request[_SESSION] = session
        elif request.path.startswith("/api/"):
            raise web.HTTPUnauthorized(text="open the console again: the session is over")
        return await handler(request)

    async def _session_of(self, request: web.Request) -> Session | None:
        """The session of a browser, or of a program that sends a token: both have one rate, and one number of streams. A token
        that is not known yet is asked about at the rate of strangers."""
        session = self.sessions.of_browser(request.cookies.get(COOKIE, ""))
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if session is not None or not self._access.takes_tokens or scheme.lower() != "bearer" or not token:
            return session
        name = self.sessions.name_of(token)
        known = self.sessions.find(name)
        if known is None and not self.strangers.spend(self._clock.monotonic()):
            raise web.HTTPTooManyRequests(text="too many requests")
        person = await self._access.person(token)
        if person is None:
            self.sessions.end(name)
            return None
        return known or self.sessions.find(self.sessions.begin(person, name))

    async def _visible(self, session: Session) -> Visible | None:
        """What the session may see now; None once its token is not valid any more, which ends the session."""
        person = session.person
        if self._access.takes_tokens and await self._access.person(person.token) is None:
            session.is_over = True
            return None
        return await self._access.visible(person, self._watch.tallies.keys() | self._namespaces())

    def _namespaces(self) -> set[str]:
        return {key.namespace for key in self._watch.seen.local_queues or ()}

    async def _seen_by(self, request: web.Request) -> Visible:
        visible = await self._visible(request[_SESSION])
        if visible is None:
            raise web.HTTPUnauthorized(text="your token is not valid any more")
        return visible

    async def _key(self, request: web.Request) -> ObjectKey:
        """The workload that is asked for. Of one that may not be seen nothing is told, not even whether it is there."""
        key = ObjectKey(request.match_info["namespace"], request.match_info["name"])
        visible = await self._seen_by(request)
        if not visible.has(key.namespace) or key not in self._watch.seen.workloads:
            raise web.HTTPNotFound(text=f"there is no workload {key} that you may see")
        return key

    # --- pages and sessions ---

    async def _page(self, request: web.Request) -> web.Response:
        return self._file("index.html", 200) if _SESSION in request else self._door()

    async def _asset(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self._assets or name.endswith(".html"):
            raise web.HTTPNotFound(text="there is no such file")
        answer = self._file(name, 200)
        answer.headers["Cache-Control"] = "no-cache"
        return answer

    def _file(self, name: str, status: int) -> web.Response:
        kind = TYPES["." + name.rpartition(".")[2]]
        return web.Response(body=self._assets[name], status=status, headers={"Content-Type": kind})

    async def _login_by_ticket(self, request: web.Request) -> web.Response:
        if not self.sessions.redeem(request.query.get("ticket", "")):
            return self._door()
        return self._opened(Person())

    async def _login_by_token(self, request: web.Request) -> web.Response:
        if not self._access.takes_tokens:
            raise web.HTTPNotFound(text="this console is opened by its link")
        form = await request.post()
        token = str(form.get("token", "")).strip()
        person = await self._access.person(token) if token else None
        if person is None:
            return self._door("The cluster does not know this token.")
        return self._opened(person)

    async def _to_issuer(self, _request: web.Request) -> web.Response:
        """To the issuer, and back to no other place than the beginning: no address says where to go on."""
        cookie, address = await self._issuing().begin()
        answer = web.Response(status=303, headers={"Location": address})
        # Lax: the browser brings it back with the answer of the issuer, which is another site.
        answer.set_cookie(
            LOGIN_COOKIE, cookie, path="/login", max_age=int(LOGIN_TIME), secure=True, httponly=True, samesite="Lax"
        )
        return answer

    async def _from_issuer(self, request: web.Request) -> web.Response:
        provider = self._issuing()
        token = await provider.finish(request.cookies.get(LOGIN_COOKIE, ""), request.query)
        person = await self._access.person(token)
        if person is None:
            raise LoginFailed(
                f"You are known to {provider.host}, but the cluster does not accept its ID token: its API server must be"
                " told of this issuer, with the client of this console as audience."
            )
        # As a page that goes on by itself: after a redirect of another site the browser would hold the cookie back.
        answer = self._with_session(self._file("welcome.html", 200), person)
        answer.del_cookie(LOGIN_COOKIE, path="/login", secure=True, httponly=True, samesite="Lax")
        return answer

    def _issuing(self) -> IdentityProvider:
        if self._provider is None or not self._access.takes_tokens:
            raise web.HTTPNotFound(text="this console knows no issuer")
        return self._provider

    def _door(self, told: str = "") -> web.Response:
        """The page to log in. `told`: why the last attempt failed."""
        page = self._assets["login.html"].decode()
        way = ""
        if self._provider is not None:
            way = f'<p><a class="button primary" href="/login/oidc">Log in with {escape(self._provider.host)}</a></p>'
        page = page.replace("<!-- issuer -->", way)
        page = page.replace("<!-- told -->", f'<p role="alert">{escape(told)}</p>' if told else "")
        return web.Response(body=page.encode(), status=401, headers={"Content-Type": TYPES[".html"]})

    def _opened(self, person: Person) -> web.Response:
        return self._with_session(web.Response(status=303, headers={"Location": "/"}), person)

    def _with_session(self, answer: web.Response, person: Person) -> web.Response:
        cookie = self.sessions.begin(person)
        answer.set_cookie(COOKIE, cookie, path="/", secure=True, httponly=True, samesite="Strict")
        return answer

    async def _logout(self, request: web.Request) -> web.Response:
        self.sessions.end(request.cookies.get(COOKIE, ""))
        answer = web.Response(status=303, headers={"Location": "/"})
        answer.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
        return answer

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok")

    # --- what is seen ---

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        session = request[_SESSION]
        stream = self._begin_stream(session, request)
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        hello = {
            "name": self._options.name,
            "person": session.person.name,
            "actions": {name: each.shown() for name, each in self._options.actions.items()},
            "buttons": self._options.buttons.shown(),
            "now": int(self._watch.now().timestamp()),
            "scope": [each for each in self._watch.scope if each],
            "history": self._past is not None,
        }
        last = request.headers.get("Last-Event-ID", "")
        try:
            with stream.scope:
                await answer.prepare(request)
                looked = partial(self._visible, session)
                async for piece in events_for(self._watch, self._pictures, looked, hello, last):
                    with anyio.fail_after(WRITE_TIMEOUT):
                        await answer.write(piece)
        except (ConnectionError, TimeoutError, ApiError, ClusterUnreachable):
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._streams.remove(stream)
        return answer

    def _begin_stream(self, session: Session, request: web.Request) -> _Stream:
        """Of pages that were left the streams end: they would notice only when they write."""
        for each in self._streams:
            if each.request.transport is None:
                each.scope.cancel()
        going = [each for each in self._streams if not each.scope.cancel_called]
        if len(going) >= ALL_STREAMS or sum(each.session is session for each in going) >= MOST_STREAMS:
            raise web.HTTPTooManyRequests(text="too many pages are open")
        begun = _Stream(session, request, anyio.CancelScope())
        self._streams.append(begun)
        return begun

    async def _places(self, request: web.Request) -> web.Response:
        visible = await self._seen_by(request)
        uids = request.query.get("uids", "").split(",")[:MOST_KEYS]
        rows = (row for uid in uids if (row := self._watch.feed.get(uid)) is not None)
        return _json({row.uid: self._expected(row) for row in rows if visible.has(row.namespace)})

    def _expected(self, row: WorkloadRow) -> dict[str, Any]:
        key = ObjectKey(row.namespace, row.workload)
        return {"place": self._watch.place(row), **self._start_of(key)}

    def _start_of(self, key: ObjectKey) -> dict[str, Any]:
        """`starts`: in four of five cases between these times, in seconds since 1970, or None; missing without an estimate."""
        told = self._starts()
        if key not in told:
            return {}
        found = told[key]
        return {"starts": None if found is None else [int(each.timestamp()) for each in (found.low, found.high)]}

    async def _use(self, request: web.Request) -> web.Response:
        """Sums of the history, of the namespaces that may be seen."""
        if self._past is None:
            raise web.HTTPNotFound(text="this console has no history: `multikueue console --history URL` shows one")
        way, days = request.query.get("by", "namespace"), _number(request, "days", 7)
        if way not in WAYS or not 1 <= days <= MOST_DAYS:
            raise web.HTTPBadRequest(text=f"`by` is one of {', '.join(WAYS)}, and `days` from 1 to {MOST_DAYS}")
        visible = await self._seen_by(request)
        namespaces = visible.namespaces
        if namespaces is None and "" not in self._watch.scope:
            namespaces = frozenset(self._watch.scope)
        return web.Response(body=await self._past.told(way, days, namespaces), content_type="application/json")

    async def _line(self, request: web.Request) -> web.Response:
        """A piece of the line of a ClusterQueue; of workloads that may not be seen only that they are there."""
        visible = await self._seen_by(request)
        line = self._watch.line(request.match_info["name"])
        begin, many = _number(request, "offset", 0), min(500, _number(request, "limit", 100))
        keys = line[begin : begin + many]
        items = [self._in_line(place, key, visible) for place, key in enumerate(keys, begin + 1)]
        return _json({"length": len(line), "items": items})

    def _in_line(self, place: int, key: ObjectKey, visible: Visible) -> dict[str, Any]:
        if not visible.has(key.namespace):
            return {"place": place}
        workload = self._watch.seen.workloads[key]
        return {"place": place, "uid": workload.metadata.uid}

    async def _story(self, request: web.Request) -> web.Response:
        key = await self._key(request)
        story = await self._pages.story(key, request[_SESSION].person)
        if story is None:
            raise web.HTTPNotFound(text=f"there is no workload {key} that you may see")
        waits = story["row"]["state"] == "Pending"
        return _json({**story, **(self._start_of(key) if waits else {})})

    async def _part(self, request: web.Request) -> web.Response:
        key = await self._key(request)
        body = await self._pages.part(key, request.match_info["what"], request[_SESSION].person)
        return web.Response(body=body, content_type="application/json")

    async def _effect(self, request: web.Request) -> web.Response:
        """What an action would do to one object, as it is now and with the rights of who asks."""
        action, key = await self._meant(request)
        async with self._connect(request[_SESSION].person) as client:
            return _json({"effect": await action.effect(client, key)})

    async def _act(self, request: web.Request) -> web.Response:
        """Change one object, with the rights of who asks: the API server decides whether they may."""
        action, key = await self._meant(request)
        word = str((await request.post()).get("word", "")).strip()
        if bool(word) is not bool(action.asks) or len(word) > MOST_WORD:
            raise web.HTTPBadRequest(text=f"expected {action.asks or 'nothing more'}")
        async with self._connect(request[_SESSION].person) as client:
            await action.do(client, key, word)
        return _json({})

    async def _meant(self, request: web.Request) -> tuple[Action, ObjectKey]:
        """The action that is meant, and the object."""
        if not self._options.actions:
            raise web.HTTPNotFound(text="actions are switched off: `multikueue console --actions` allows them")
        of_workload = "namespace" in request.match_info
        action = self._options.actions.get(request.match_info["action"])
        if action is None or action.is_of_workload is not of_workload:
            raise web.HTTPNotFound(text="there is no such action")
        return action, await (self._key(request) if of_workload else self._cluster(request))

    async def _cluster(self, request: web.Request) -> ObjectKey:
        """The cluster that is meant: of one that may not be seen nothing is told, either."""
        key = ObjectKey("", request.match_info["name"])
        visible = await self._seen_by(request)
        may = kinds.MULTIKUEUE_CLUSTERS.plural in visible.shared
        if not may or key not in (self._watch.seen.clusters or {}):
            raise web.HTTPNotFound(text=f"there is no cluster {key.name} that you may see")
        return key

    async def _press(self, request: web.Request) -> web.Response:
        cluster = str((await request.post()).get("cluster", ""))
        is_there = not cluster or ObjectKey("", cluster) in (self._watch.seen.clusters or {})
        if not is_there or not self._options.buttons.press(request.match_info["name"], cluster):
            raise web.HTTPNotFound(text="there is no such button")
        return _json({})

    async def _log(self, request: web.Request) -> web.StreamResponse:
        key = await self._key(request)
        answer = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/plain; charset=utf-8"})
        lines = self._pages.log(key, dict(request.query), request[_SESSION].person)
        async with lines as stream:
            await answer.prepare(request)
            try:
                while piece := await stream.piece():
                    with anyio.fail_after(WRITE_TIMEOUT):
                        await answer.write(piece)
            except (ConnectionError, TimeoutError, ClusterUnreachable):
                if request.transport is not None:
                    request.transport.abort()
        return answer


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


def _refusal(status: int, text: str) -> web.Response:
    return web.Response(body=msgspec.json.encode({"error": text}), status=status, content_type="application/json")


def _number(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else otherwise
