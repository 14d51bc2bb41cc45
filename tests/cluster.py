"""A cluster for tests, one file: fakekube's API server and a client of it in this process, without sockets.

    cluster = Cluster("w1", now)
    cluster.put(kinds.JOBS, body)                       # somebody else's write: nobody checks it
    await cluster.merge_patch(kinds.JOBS, key, patch)   # the manager's: checked and answered as by an API server
    cluster.fault = lambda verb, plural: Conflict(409, "Conflict", "no") if verb == "patch" else None

The contract suite runs on the client (`tests/contract/test_client.py`, "direct").
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, TypeVar

import anyio
import msgspec
from msgspec.structs import replace

from fakekube import cluster as fakekube
from fakekube.model.storage import DELETED, Change, key_of
from fakekube.model.wire import JSON, Object, Request, Response, User, Watch
from fakekube.network.interceptor import Interceptor
from fakekube.network.transport import Handler
from fakekube.server.patching.patches import merge_patch
from fakekube.server.server import Timer
from multikueue.api.kind import Kind
from multikueue.api.meta import Object as Value
from multikueue.api.meta import ObjectKey, encode
from multikueue.errors import ClusterUnreachable, Expired, InvalidObject
from multikueue.kube.cluster_client import FIELD_MANAGER, Body, Lines, Page, is_any
from multikueue.kube.decode import list_of, object_of
from multikueue.kube.errors import error_from_answer
from multikueue.store.caches.cache import Cache
from multikueue_simulator import definitions

__all__ = ["Cluster", "Fault", "InProcessClient", "plain"]

T = TypeVar("T", bound=Value)

Fault = Callable[[str, str], Exception | None]
"""Asked of each call with verb and plural; what it answers is raised. A Refused is an answer of the server, over HTTP too."""


class InProcessClient:
    """A `WatchingClient` that calls an API server on the spot, once per call. Retries are the real client's."""

    def __init__(self, api: Handler, *, cluster: str = "", user: User = User()) -> None:  # noqa: B008  # frozen
        self.cluster, self.route = cluster, object()
        self._api, self._user = api, user

    async def get(self, kind: Kind[T], key: ObjectKey) -> T:
        return self._value(kind, await self._call("GET", kind.path(key)))

    async def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        page: int = 500,
        is_wanted: Callable[[T], bool] = is_any,
        into: MutableMapping[ObjectKey, T] | None = None,
    ) -> Page[T]:
        try:
            found = await self._pages(kind, namespace, label_selector, page)
        except Expired:
            found = await self._pages(kind, namespace, label_selector, 0)
        wanted = tuple(filter(is_wanted, found.items))
        if into is None:
            return replace(found, items=wanted)
        into.update((item.key, item) for item in wanted)
        return replace(found, items=())

    async def create(self, kind: Kind[T], namespace: str, body: Body, *, dry_run: bool = False) -> T:
        query = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {})
        return self._value(kind, await self._call("POST", kind.collection(namespace), body, query=query))

    async def merge_patch(self, kind: Kind[T], key: ObjectKey, body: Body, *, subresource: str = "") -> T:
        return await self._patch(kind, key, body, "merge-patch+json", subresource=subresource)

    async def json_patch(
        self, kind: Kind[T], key: ObjectKey, operations: Sequence[Mapping[str, Any]], *, manager: str = FIELD_MANAGER
    ) -> T:
        return await self._patch(kind, key, encode(operations), "json-patch+json", manager=manager)

    async def apply(
        self, kind: Kind[T], key: ObjectKey, body: Body, *, manager: str, force: bool, subresource: str = ""
    ) -> T:
        content_type, force_ = "apply-patch+yaml", {"force": str(force).lower()}
        return await self._patch(kind, key, body, content_type, subresource=subresource, manager=manager, **force_)

    async def delete(
        self,
        kind: Kind[T],
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> T | None:
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        options = {"propagationPolicy": propagation, "preconditions": {k: v for k, v in preconditions.items() if v}}
        answer = await self._call("DELETE", kind.path(key), options)
        left = None if msgspec.json.decode(answer).get("kind") == "Status" else self._value(kind, answer)
        return left if left is not None and left.metadata.deletion_timestamp is not None else None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        return await self._call(method, path, body, content_type=content_type, query=params)

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str], *, idle: float | None) -> AsyncIterator[Lines]:
        answer = await self._answer(Request(method="GET", path=path, query=params, user=self._user))
        if isinstance(answer, Response):
            yield _Log(answer.body)
            return
        try:
            yield _Lines(answer, self.cluster, idle)
        finally:
            answer.close()

    def is_too_much(self, _objects: int, _length: int) -> bool:
        return False

    def report_undecodable(self, kind: Kind[Any], about: Any, why: str) -> None:
        pass

    async def _pages(self, kind: Kind[T], namespace: str, label_selector: str, size: int) -> Page[T]:
        items: list[T] = []
        undecodable: dict[ObjectKey, str] = {}
        path, cont = kind.collection(namespace) if namespace else kind.path(), ""
        while True:
            query = {"labelSelector": label_selector, "limit": str(size or ""), "continue": cont}
            answer = await self._call("GET", path, query={name: value for name, value in query.items() if value})
            listing = list_of(kind)(answer)
            items += listing.items
            undecodable |= {stub.key: why for stub, why in listing.garbage if stub.key is not None}
            cont = listing.cont
            if not cont:
                return Page(tuple(items), listing.resource_version, undecodable)

    async def _patch(
        self,
        kind: Kind[T],
        key: ObjectKey,
        body: Body,
        content_type: str,
        *,
        subresource: str = "",
        manager: str = FIELD_MANAGER,
        **query: str,
    ) -> T:
        path, query = kind.path(key, subresource=subresource), {"fieldManager": manager, **query}
        answer = await self._call("PATCH", path, body, content_type=f"application/{content_type}", query=query)
        return self._value(kind, answer)

    async def _call(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        *,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        data = body if isinstance(body, bytes) else b"" if body is None else encode(body)
        request = Request(
            method=method, path=path, query=query or {}, body=data, content_type=content_type, user=self._user
        )
        answer = await self._answer(request)
        assert isinstance(answer, Response)
        return answer.body

    async def _answer(self, request: Request) -> Response | Watch:
        answer = await self._api.handle(request)
        if isinstance(answer, Response) and answer.status >= 400:
            call = f"{request.method} {request.path}"
            raise error_from_answer(answer.status, answer.headers, answer.body, call=call)
        return answer

    def _value(self, kind: Kind[T], answer: bytes) -> T:
        try:
            value: T = object_of(kind.type)(answer)
        except msgspec.ValidationError as error:
            raise InvalidObject(f"answer of {self.cluster or 'the manager'}", "$", str(error)) from error
        return value


class _Lines:
    """The lines of a watch."""

    def __init__(self, watch: Watch, cluster: str, idle: float | None) -> None:
        self._watch, self._cluster, self._idle = watch, cluster, idle

    async def line(self) -> bytes:
        with anyio.move_on_after(self._idle):
            while not self._watch.lines and not self._watch.ended:
                news = anyio.Event()
                self._watch.wake = news.set
                await news.wait()
            return self._watch.lines.popleft() if self._watch.lines else b""
        raise ClusterUnreachable(self._cluster, "watch: nothing was said for too long")

    async def piece(self) -> bytes:
        return await self.line()


class _Log:
    """The answer of a log, in two pieces."""

    def __init__(self, body: bytes) -> None:
        half = len(body) // 2
        self._pieces = deque([body[:half], body[half:]])

    async def line(self) -> bytes:
        return await self.piece()

    async def piece(self) -> bytes:
        return self._pieces.popleft() if self._pieces else b""


class Cluster(InProcessClient):
    """A cluster and its client. `calls` has each request as `verb plural[/subresource]`, `written` those writes that were
    taken, as `verb plural`, `authors` who patched JSON, `requests` everything.

    Nothing happens by itself: garbage is not collected, and caches that `watch` hear of a change as it is made.
    """

    def __init__(
        self, name: str, now: Callable[[], datetime], *, cluster: str = "", managed_fields: bool = False
    ) -> None:
        self.server = fakekube.Cluster(
            name,
            now=now,
            rng=random.Random(name),
            scheduler=_Never(),
            definitions=(*definitions.all_definitions(), *definitions.managed_service_accounts()),
            managed_fields=managed_fields,
        )
        self.api = Interceptor(self.server.api, before=self._asked, after=self._done)
        super().__init__(self.api, cluster=cluster)
        self.name, self.now = name, now
        self.calls: list[str] = []
        self.written: list[str] = []
        self.authors: list[str] = []
        self.requests: list[Request] = []
        self.fault: Fault = _no_fault
        self.lose_answer: Fault = _no_fault
        self._unheard: frozenset[str] = frozenset()
        self._watching: list[Callable[[], None]] = []

    def watch(self, kind: Kind[Any], sink: Cache[Any], selected: Callable[[Object], bool] = lambda _: True) -> None:
        """Keep a cache equal to what there is, from now on."""

        def tell(change: Change) -> None:
            item = change.version.object
            if self._unheard & {"", change.storage} or not selected(item):
                return
            if change.type == DELETED:
                sink.remove(self.value(kind, item))
            else:
                show(self.value(kind, item))

        def show(value: Any) -> None:
            if sink.should_keep(value):
                sink.upsert(value)

        self._watching.append(self.server.storage.subscribe(tell, _storage(kind)))
        for item in filter(selected, self.all(kind)):
            show(self.value(kind, item))

    def unwatch(self) -> None:
        """No cache hears of anything any more."""
        for stop in self._watching:
            stop()
        self._watching.clear()

    @contextmanager
    def unheard(self, kind: Kind[Any] | None = None) -> Iterator[None]:
        """What changes in this block (of a kind, if one is given) no watch tells."""
        before = self._unheard
        self._unheard = before | {"" if kind is None else _storage(kind)}
        yield
        self._unheard = before

    def writes(self) -> list[str]:
        return [call for call in self.calls if call.partition(" ")[0] not in _READS]

    # What is there, and what others do: none of it is a call.

    def find(self, kind: Kind[Any], key: ObjectKey) -> Object | None:
        version = self.server.storage.get(_storage(kind), key_of(*key))
        return None if version is None else version.object

    def all(self, kind: Kind[Any]) -> list[Object]:
        return [version.object for version in self.server.storage.select(_storage(kind))]

    def value(self, kind: Kind[T], body: Mapping[str, Any]) -> T:
        return self._value(kind, encode(body))

    def put(self, kind: Kind[Any], body: Mapping[str, Any], key: ObjectKey = ObjectKey("", "")) -> None:  # noqa: B008
        """Somebody wrote the object, valid or not. A new one gets a UID, and the defaults of a kind that is built in.

        `key` names it, unless its metadata does.
        """
        made: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}} | plain(body)
        made["metadata"] = {name: value for name, value in key._asdict().items() if value} | made["metadata"]
        made["metadata"].setdefault("uid", self.server.api.server.uid())
        resource = self.server.resource(kind.api_version, kind.kind)
        if not resource.custom and self.find(kind, _key_of(made)) is None:
            rules = self.server.api.server.rules(resource)
            made = rules.created(rules.defaulted(made))
        self._store(kind, made)

    def change(self, kind: Kind[Any], key: ObjectKey, patch: Mapping[str, Any]) -> None:
        """Somebody patched the object. Another spec is another generation."""
        found = self.find(kind, key)
        assert found is not None, f"there is no {kind.kind} {key}"
        new = merge_patch(found, plain(patch))
        if new.get("spec") != found.get("spec"):
            new = merge_patch(new, {"metadata": {"generation": found["metadata"].get("generation", 0) + 1}})
        self._store(kind, new)

    def drop(self, kind: Kind[Any], key: ObjectKey) -> None:
        """Somebody deleted the object."""
        self.server.storage.remove(_storage(kind), key_of(*key))

    def _store(self, kind: Kind[Any], body: Object) -> None:
        self.server.storage.put(_storage(kind), key_of(*_key_of(body)), body)

    async def _asked(self, request: Request) -> Response | Watch | None:
        self.requests.append(request)
        verb, plural, subresource = self._call_of(request)
        self.calls.append(f"{verb} {plural}" + (f"/{subresource}" if subresource else ""))
        if request.content_type == "application/json-patch+json":
            self.authors.append(request.query["fieldManager"])
        _raise(self.fault(verb, plural))
        return None

    async def _done(self, request: Request, answer: Response | Watch) -> Response | Watch | None:
        verb, plural, _ = self._call_of(request)
        if verb not in _READS and isinstance(answer, Response) and answer.status < 400:
            self.written.append(f"{verb} {plural}")
        _raise(self.lose_answer(verb, plural))
        return None

    def _call_of(self, request: Request) -> tuple[str, str, str]:
        """Verb, plural and subresource; of what is no object, the method and the path."""
        route = self.server.api.router.find(request.path)
        if route is None:
            return request.method, request.path, ""
        verb = _VERBS[request.method]
        if request.content_type.startswith("application/apply-patch"):
            verb = "apply"
        elif request.method == "GET" and not route.name:
            verb = "watch" if "watch" in request.query else "list"
        return verb, route.resource.plural, route.subresource


_READS = {"get", "list", "watch"}
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class _Never:
    """A scheduler with all the time in the world: nothing that is due later ever comes."""

    def call_later(self, _seconds: float, _function: Callable[[], None], /) -> Timer:
        return _Timer()


class _Timer:
    def cancel(self) -> None:
        pass


def plain(body: Mapping[str, Any]) -> Object:
    """A tree of dicts and lists, and nothing else."""
    tree: Object = msgspec.json.decode(encode(body))
    return tree


def _no_fault(_verb: str, _plural: str) -> None:
    return None


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def _key_of(body: Object) -> ObjectKey:
    return ObjectKey(body["metadata"].get("namespace", ""), body["metadata"]["name"])


def _storage(kind: Kind[Any]) -> str:
    return f"{kind.plural}.{kind.group}"
