"""Calls to the API server of one cluster, typed, with deadlines, retried where safe: one file for all verbs."""

from __future__ import annotations

import asyncio
import io
import random
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import perf_counter
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import anyio
import anyio.lowlevel
import msgspec
from yarl import URL

from multikueue.api.kind import Kind
from multikueue.api.meta import Object, ObjectKey, encode
from multikueue.api.values.foreign import excerpt
from multikueue.errors import (
    ApiError,
    ClusterUnreachable,
    Expired,
    Invalid,
    InvalidObject,
    NotLeading,
    TooLarge,
    Unauthorized,
)
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.identity import Identity, Proof, loop_time
from multikueue.kube.cluster_client import FIELD_MANAGER, Body, Page, is_any
from multikueue.kube.decode import Listing, Stub, cut_list_of, list_of, object_of, pieces_of, without_depths
from multikueue.kube.errors import error_from_answer, is_repeatable, wait_before_retry
from multikueue.kube.transport.loop_share import UNMETERED, LoopShare
from multikueue.kube.transport.session import (
    CONNECT_TIMEOUT,
    LARGEST_OBJECT,
    NOT_SENT,
    TRANSPORT_ERRORS,
    USER_AGENT,
    RequestContext,
    Response,
    ResponseLines,
    Session,
    Transport,
    beginning,
    cut,
    explain,
    may_always_write,
    open_session,
)

__all__ = ["Call", "Client", "Listeners", "OnGarbage", "Stream"]

T = TypeVar("T", bound=Object)
_Answer = TypeVar("_Answer")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_OURS = f"?fieldManager={FIELD_MANAGER}"
DISCOVERY = "api"
"""What requests about the API itself are counted as."""

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

LARGEST_PAGE = LARGEST_OBJECT
"""Bytes of a page of a list. A larger page is requested again with fewer objects, down to one object."""

LARGEST_COLLECTION = 2**29
MOST_OBJECTS = 200_000
"""Bytes and objects of one kind that a worker may list: beyond them it would take the memory that all clusters share.
The manager's own API server has no such limit: it is trusted."""

_LARGEST_ERROR = 2**20
_MOST_PAGES = 10_000
_GATHERED = 100
"""Objects of a page that are put where they belong between two turns of other tasks."""

_PIECE = 2**18
"""Bytes of the pieces in which aiohttp sends a stream. A longer body is a stream: a connection has a buffer for TLS as long
as it exists, of the size of the largest piece."""

_CLOSING_TIMEOUT = timedelta(seconds=5)


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request on the wire. A retry is another request.

    `status` is the HTTP status of a success ("200"), the name of our error class otherwise ("Conflict",
    "ClusterUnreachable"), or "Cancelled". A watch is counted when it opens. `seconds` run until the answer was read.
    """

    cluster: str
    verb: str
    plural: str
    subresource: str
    status: str
    seconds: float


OnCall = Callable[[Call], None]
OnGarbage = Callable[[str, Kind[Any], Object | Stub, str], None]
"""Called for each object that cannot be decoded or cached: cluster, kind, its readable part, the problem."""


class Listeners(msgspec.Struct, frozen=True):
    """Who is called for a client's calls, once each is over, and of objects that cannot be decoded."""

    on_call: OnCall | None = None
    on_undecodable: OnGarbage | None = None


NOBODY = Listeners()


@dataclass(slots=True)
class _Part(Generic[T]):
    """A page of a list: the wanted objects, of several with one key the last; how many objects it had, of how many
    bytes."""

    length: int
    items: dict[ObjectKey, T] = field(default_factory=dict)
    garbage: list[tuple[Stub, str]] = field(default_factory=list)
    resource_version: str = ""
    cont: str = ""
    objects: int = 0


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    verb: str
    method: str
    target: str
    plural: str
    subresource: str = ""
    body: bytes = b""
    content_type: str = JSON
    most: int | None = LARGEST_OBJECT
    held: AsyncExitStack | None = None
    packing: str = "gzip"

    def __str__(self) -> str:
        return f"{self.verb} {self.target.partition('?')[0]}"


class Stream:
    """The answer of a watch, line by line."""

    def __init__(self, cluster: str) -> None:
        self.opening = anyio.CancelScope()
        self._cluster, self._ended = cluster, False
        self._response: Response | None = None
        self._lines: ResponseLines | None = None

    def attach(self, response: Response, alone: asyncio.Lock) -> None:
        """`alone` is the lock of `ResponseLines`, which serializes the reading of long lines."""
        self._response, self._lines = response, ResponseLines(response, alone)
        if self._ended:
            cut(response)

    def end(self) -> None:
        """End the stream now, opened or not. Its reader sees a normal end of the stream."""
        self._ended = True
        self.opening.cancel()
        self.close()

    def close(self) -> None:
        if self._response is not None:
            cut(self._response)

    async def line(self) -> bytes:
        """The next line with its line end; a line without one is truncated; empty at the end of the stream.

        Raises ClusterUnreachable on a broken connection, on silence longer than the watch allows, and on a line longer
        than LARGEST_OBJECT.
        """
        if self._ended or self._lines is None:
            return b""
        try:
            return await self._lines.next()
        except TRANSPORT_ERRORS as error:
            return self._broken(error)

    async def piece(self) -> bytes:
        """The bytes received since the last call, at least one, regardless of lines; empty at the end. Raises as `line`."""
        if self._ended or self._lines is None:
            return b""
        try:
            return await self._lines.piece()
        except TRANSPORT_ERRORS as error:
            return self._broken(error)

    def _broken(self, error: BaseException) -> bytes:
        if self._ended:
            return b""
        raise ClusterUnreachable(self._cluster, f"watch: {explain(error)}") from error


class _Route(msgspec.Struct, frozen=True, eq=False):
    """Address and credentials of requests. They change together, never one without the other."""

    base: str
    identity: Identity
    headers: Mapping[str, str]
    options: Mapping[str, Any]

    @classmethod
    async def of(cls, credentials: Credentials, *, cluster: str) -> Self:
        options: dict[str, Any] = {"allow_redirects": False}
        if credentials.proxy:
            options["proxy"] = URL(credentials.proxy)
        headers = {}
        if credentials.proxy_authorization:
            headers["Proxy-Authorization"] = credentials.proxy_authorization
        if credentials.server.startswith("https://"):
            # The credentials of the proxy go to the proxy with CONNECT, never through the tunnel to the server.
            options["proxy_headers"], headers = headers, {}
        if credentials.tls_server_name:
            options["server_hostname"] = credentials.tls_server_name
        identity = await Identity.of(credentials, cluster=cluster)
        return cls(credentials.server.rstrip("/"), identity, headers, options)


class Client:
    """One cluster's API server: a `WatchingClient`. Made by `connect`; safe to use from many tasks of one event loop.

    Every call raises ClusterUnreachable without a usable answer in time, an ApiError if the server refused, and
    InvalidObject if the answer is not an object of the kind. `kube.errors` has the rules of retries.
    """

    def __init__(
        self,
        route: _Route,
        *,
        cluster: str,
        session: Session,
        limit: int,
        call_timeout: float,
        on_call: OnCall | None,
        on_undecodable: OnGarbage | None,
        share: LoopShare,
    ) -> None:
        self.cluster, self.share = cluster, share
        self._route, self._session = route, session
        self._places = asyncio.Semaphore(limit)
        self._timeout, self.on_call, self._on_undecodable = call_timeout, on_call, on_undecodable
        self._open_streams: set[Stream] = set()
        self._large_answer, self._long_line = asyncio.Lock(), asyncio.Lock()

    @property
    def route(self) -> object:
        """A token for the present address and credentials: another one after `take_over`."""
        return self._route

    def take_over(self, other: Client) -> None:
        """Use the address and credentials of another client from now on; that client may be closed afterwards.

        Writes under way finish. Watches end, so that their readers open new ones.
        """
        self._route = other._route
        for stream in tuple(self._open_streams):
            stream.end()

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        credentials: Credentials,
        *,
        cluster: str = "",
        user_agent: str = USER_AGENT,
        limit: int = 32,
        call_timeout: float = 30.0,
        may_write: Callable[[], bool] = may_always_write,
        listeners: Listeners = NOBODY,
        transport: Transport = open_session,
        share: LoopShare = UNMETERED,
    ) -> AsyncIterator[Self]:
        """A client for the duration of the block. Nothing is sent before the first call.

        `cluster` is the worker's name, empty for the manager; `limit` the number of calls in flight (watches do not
        count); `call_timeout` the seconds of a call including its retries. `may_write` is called
        right before a request other than GET is sent on its connection: if it returns False, NotLeading is raised.
        `share` is the part of the event loop that reading of this cluster may take.
        Raises ConfigurationError if certificates are unusable.
        """
        route = await _Route.of(credentials, cluster=cluster)
        session = transport(user_agent=user_agent, may_write=may_write, share=share)
        try:
            yield cls(
                route,
                cluster=cluster,
                session=session,
                limit=limit,
                call_timeout=call_timeout,
                on_call=listeners.on_call,
                on_undecodable=listeners.on_undecodable,
                share=share,
            )
        finally:
            with anyio.move_on_after(_CLOSING_TIMEOUT.total_seconds(), shield=True):
                await session.close()

    async def get(self, kind: Kind[T], key: ObjectKey) -> T:
        request = _Request(verb="get", method="GET", target=_path(kind, key), plural=kind.plural)
        item: T = self._decoded(object_of(kind.type), await self._send(request), request)
        return item

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
        """The whole collection (of one namespace, if given), fetched in pages, consistent as of its resource version.

        If the continue token expires meanwhile, the rest comes in one piece. Objects that do not fit the kind are
        reported to `on_undecodable` and left out; those that are not `is_wanted` are left out page by page.
        """
        items: MutableMapping[ObjectKey, T] = {} if into is None else into
        try:
            found = await self._pages(kind, namespace, label_selector, page, is_wanted, items)
        except Expired:
            found = await self._pages(kind, namespace, label_selector, 0, is_wanted, items)
        return found if into is not None else msgspec.structs.replace(found, items=tuple(items.values()))

    async def create(self, kind: Kind[T], namespace: str, body: Body, *, dry_run: bool = False) -> T:
        """The object as made. If its answer is lost (ClusterUnreachable) it may exist: a second try shows whether it does."""
        target = _collection(kind, namespace) + _OURS + ("&dryRun=All" if dry_run else "")
        request = _Request(verb="create", method="POST", target=target, plural=kind.plural, body=_bytes(body))
        item: T = self._decoded(object_of(kind.type), await self._send(request), request)
        return item

    async def merge_patch(self, kind: Kind[T], key: ObjectKey, body: Body, *, subresource: str = "") -> T:
        """Lists are replaced whole, so name `metadata.resourceVersion` where another's entries must survive."""
        return await self._patch(kind, key, _bytes(body), MERGE_PATCH, subresource=subresource)

    async def json_patch(
        self, kind: Kind[T], key: ObjectKey, operations: Sequence[Mapping[str, Any]], *, manager: str = FIELD_MANAGER
    ) -> T:
        """Single places of an object, in the name of `manager`. An operation `test` that does not hold is Invalid."""
        query = f"?fieldManager={quote(manager, safe='')}"
        return await self._patch(kind, key, encode(operations), JSON_PATCH, subresource="", query=query)

    async def apply(
        self, kind: Kind[T], key: ObjectKey, body: Body, *, manager: str, force: bool, subresource: str = ""
    ) -> T:
        """Server-side apply as `manager`; without `force` a field that another manager owns is a Conflict."""
        query = f"?fieldManager={quote(manager, safe='')}&force={'true' if force else 'false'}"
        return await self._patch(
            kind, key, _bytes(body), APPLY_PATCH, subresource=subresource, query=query, verb="apply"
        )

    async def delete(
        self,
        kind: Kind[T],
        key: ObjectKey,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "Background",
    ) -> T | None:
        """The object as it is now, while finalizers hold it; None if it is gone at once.

        `uid` and `resource_version` are preconditions: Conflict if they do not hold. Raises NotFound if there is none.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in wanted.items() if value}
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        request = _Request(
            verb="delete",
            method="DELETE",
            target=_path(kind, key),
            plural=kind.plural,
            body=encode(options | ({"preconditions": preconditions} if preconditions else {})),
        )
        answer = await self._send(request)
        if self._decoded(_decode_head, answer, request).kind == "Status":
            return None
        item = self._decoded(object_of(kind.type), answer, request)
        # Some kinds come back whole although no finalizer holds them: deletionTimestamp shows a pending deletion.
        return item if item.metadata.deletion_timestamp is not None else None

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
    ) -> bytes:
        """The generic door: the answer's bytes for any path (percent-encoded where needed), by the same rules."""
        plural, name, subresource = _resource_in(path)
        is_list = method == "GET" and path.startswith("/api") and plural != DISCOVERY and not name
        request = _Request(
            verb="list" if is_list else _VERBS.get(method, method.lower()),
            method=method,
            target=path + ("?" + urlencode(params) if params else ""),
            plural=plural,
            subresource=subresource,
            body=b"" if body is None else _bytes(body),
            content_type=content_type,
        )
        return await self._send(request)

    async def probe(self, timeout: float) -> None:
        """Return if the API server answers and accepts our credentials within `timeout` seconds, without a retry.

        The request is for the list of API versions, which every authenticated user may read, and no anonymous one.
        Raises Unauthorized, Forbidden (the server does not know our user), ClusterUnreachable or another ApiError.
        """
        await self._exchange(_Request(verb="get", method="GET", target="/api", plural=DISCOVERY), loop_time() + timeout)

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str], *, idle: float | None) -> AsyncIterator[Stream]:
        """An open watch, or a log. It breaks (see Stream.line) after `idle` seconds without a byte.

        The block is entered only after a successful answer; else it raises like every call. Opening has a deadline.
        """
        plural, _, _ = _resource_in(path)
        target = f"{path}?{urlencode(params)}"
        request = _Request(verb="watch", method="GET", target=target, plural=plural, packing="identity")
        stream = Stream(self.cluster)
        self._open_streams.add(stream)
        try:
            with stream.opening:
                stream.attach(await self._open(request, idle), self._long_line)
            yield stream
        finally:
            self._open_streams.discard(stream)
            stream.close()

    def report_undecodable(self, kind: Kind[Any], about: Object | Stub, why: str) -> None:
        """Report an object that cannot be decoded or cached to `on_undecodable`."""
        if self._on_undecodable is not None:
            self._on_undecodable(self.cluster, kind, about, why)

    async def _patch(
        self,
        kind: Kind[T],
        key: ObjectKey,
        body: bytes,
        content_type: str,
        *,
        subresource: str,
        query: str = _OURS,
        verb: str = "patch",
    ) -> T:
        request = _Request(
            verb=verb,
            method="PATCH",
            target=_path(kind, key, subresource) + query,
            plural=kind.plural,
            subresource=subresource,
            body=body,
            content_type=content_type,
        )
        item: T = self._decoded(object_of(kind.type), await self._send(request), request)
        return item

    async def _pages(
        self,
        kind: Kind[T],
        namespace: str,
        label_selector: str,
        size: int,
        is_wanted: Callable[[T], bool],
        items: MutableMapping[ObjectKey, T],
    ) -> Page[T]:
        """The collection in pages of `size` objects (0: all in one), with fewer where objects are large: the objects
        are in `items`, in place of what was there."""
        items.clear()
        garbage: dict[ObjectKey, str] = {}
        cont, limit, objects, length = "", size, 0, 0
        for _ in range(_MOST_PAGES):
            query = {"labelSelector": label_selector, "continue": cont, "limit": str(limit or "")}
            try:
                part = await self._one_page(kind, namespace, query, is_wanted)
            except TooLarge:
                if limit < 2:
                    raise
                limit = max(1, limit // 4)
                continue
            length += part.length
            if part.length <= LARGEST_PAGE // 2:
                limit = min(size, 2 * limit)
            objects += part.objects
            self._check_collection(kind, objects, length)
            for number, (key, item) in enumerate(part.items.items(), 1):
                items[key] = item
                if number % _GATHERED == 0:
                    await anyio.lowlevel.checkpoint()
            for stub, why in part.garbage:
                self.report_undecodable(kind, stub, why)
                if stub.key is not None:
                    garbage[stub.key] = why
            if not part.cont:
                return Page((), part.resource_version, garbage)
            if part.cont == cont:
                raise ClusterUnreachable(self.cluster, f"list {kind.plural}: the next page is the same page forever")
            cont = part.cont
        raise TooLarge(self.cluster, f"list {kind.plural}: it has more than {_MOST_PAGES} pages")

    async def _one_page(
        self, kind: Kind[T], namespace: str, query: Mapping[str, str], is_wanted: Callable[[T], bool]
    ) -> _Part[T]:
        given = {name: value for name, value in query.items() if value}
        path = _collection(kind, namespace) if namespace else kind.path()
        target = f"{path}?{urlencode(given)}" if given else path
        most = LARGEST_PAGE if self.cluster or query["limit"] else None
        async with AsyncExitStack() as held:
            request = _Request(verb="list", method="GET", target=target, plural=kind.plural, most=most, held=held)
            answer = await self._send(request)
            try:
                return await self._part(kind, list_of(kind), answer, request, is_wanted)
            except _TooDeep:
                return await self._part(kind, cut_list_of(kind), await without_depths(answer), request, is_wanted)

    async def _part(
        self,
        kind: Kind[T],
        decode: Callable[[bytes], Listing[T]],
        answer: bytes,
        request: _Request,
        is_wanted: Callable[[T], bool],
    ) -> _Part[T]:
        """The page, decoded in pieces, between which other tasks run. Of the objects without a name, one per piece is
        reported."""
        part, pieces, began = _Part[T](len(answer)), pieces_of(answer), perf_counter()
        while piece := self._decoded(lambda _: next(pieces, b""), answer, request):
            listing = self._decoded(decode, piece, request)
            part.resource_version, part.cont = listing.resource_version, listing.cont
            part.objects += len(listing.items) + len(listing.garbage)
            self._check_collection(kind, part.objects, part.length)
            part.items.update((item.key, item) for item in listing.items if is_wanted(item))
            nameless = [each for each in listing.garbage if each[0].key is None]
            named = [each for each in listing.garbage if each[0].key is not None]
            part.garbage += (*named, *nameless[:1])
            self.share.spend(began)
            await self.share.pause()
            began = perf_counter()
        return part

    def _check_collection(self, kind: Kind[Any], objects: int, length: int) -> None:
        if self.is_too_much(objects, length):
            most = f"{MOST_OBJECTS} objects or {_mebibytes(LARGEST_COLLECTION)}"
            raise TooLarge(self.cluster, f"list {kind.plural}: there are more than {most}")

    def is_too_much(self, objects: int, length: int) -> bool:
        """Whether a worker exceeds MOST_OBJECTS objects or the limit of bytes of one kind."""
        return bool(self.cluster) and (objects > MOST_OBJECTS or length > LARGEST_COLLECTION)

    def _decoded(self, decode: Callable[[bytes], _Answer], data: bytes, request: _Request) -> _Answer:
        try:
            return decode(data)
        except msgspec.ValidationError as error:
            expected, _, field = excerpt(str(error)).partition(" - at ")
            where = f"answer to {request} of cluster {self.cluster or 'manager'}"
            raise InvalidObject(where, field.strip("`") or "$", expected.removeprefix("Expected ")) from error
        except RecursionError as error:
            where = f"answer to {request} of cluster {self.cluster or 'manager'}"
            raise _TooDeep(where, "$", "an object that is not nested too deeply") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ClusterUnreachable(self.cluster, f"{request}: the answer is no JSON: {data[:100]!r}") from error

    async def _send(self, request: _Request) -> bytes:
        deadline = loop_time() + self._timeout
        attempt = 0
        while True:
            try:
                return await self._exchange(request, deadline)
            except (ApiError, ClusterUnreachable) as failure:
                attempt += 1
                wait = wait_before_retry(
                    failure,
                    is_repeatable=is_repeatable(request.method, request.body),
                    attempt=attempt,
                    chance=random.random(),  # noqa: S311  # spreads retries, guards nothing
                )
                if wait is None or loop_time() + wait >= deadline or self._session.closed:
                    raise
            await anyio.sleep(wait)

    async def _exchange(self, request: _Request, deadline: float) -> bytes:
        route = self._route
        proof = route.identity.ready() or await self._proof_by(route, deadline)
        try:
            return await self._once(request, route, proof, deadline)
        except Unauthorized as error:
            if route is not self._route:
                return await self._exchange(request, deadline)
            return await self._once(request, route, await _other_proof(route, proof, error), deadline)

    async def _proof_by(self, route: _Route, deadline: float) -> Proof:
        with anyio.move_on_after(deadline - loop_time()):
            return await route.identity.current()
        raise ClusterUnreachable(self.cluster, "no credentials in time")

    async def _once(self, request: _Request, route: _Route, proof: Proof, deadline: float) -> bytes:
        """Send the request once and read the answer. Raises unless the status is 2xx."""
        with _Account(self, request) as account:
            if self._places.locked():
                async with asyncio.timeout_at(deadline):
                    await self._places.acquire()
            else:
                await self._places.acquire()
            try:
                timeout = aiohttp.ClientTimeout(total=_left(deadline), sock_connect=CONNECT_TIMEOUT)
                async with self._start(request, route, proof, timeout=timeout) as response:
                    answer = await self._body(response, request)
            finally:
                self._places.release()
            account.status = str(response.status)
        return answer

    async def _open(self, request: _Request, idle: float | None) -> Response:
        deadline, route = loop_time() + self._timeout, self._route
        proof = route.identity.ready() or await self._proof_by(route, deadline)
        try:
            return await self._open_once(request, route, proof, idle=idle, deadline=deadline)
        except Unauthorized as error:
            other = await _other_proof(route, proof, error)
            return await self._open_once(request, route, other, idle=idle, deadline=deadline)

    async def _open_once(
        self, request: _Request, route: _Route, proof: Proof, *, idle: float | None, deadline: float
    ) -> Response:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=idle)
        with _Account(self, request) as account, anyio.fail_after(_left(deadline)):
            response = await self._start(request, route, proof, timeout=timeout)
            if response.status != 200:
                try:
                    await self._body(response, request)
                finally:
                    response.close()
                raise ClusterUnreachable(self.cluster, f"watch: status {response.status} instead of a stream")
            account.status = str(response.status)
        return response

    async def _body(self, response: Response, request: _Request) -> bytes:
        """The body of a successful answer. Raises the error of any other answer, and TooLarge."""
        if not 200 <= response.status < 300:
            said = await beginning(response, _LARGEST_ERROR, self._large_answer)
            raise error_from_answer(response.status, response.headers, said[:_LARGEST_ERROR], call=str(request))
        most = sys.maxsize if request.most is None else request.most
        answer = await beginning(response, most, self._large_answer, request.held)
        if len(answer) > most:
            del answer  # the traceback of the error would keep it in memory
            raise TooLarge(self.cluster, f"{request}: the answer has more than {_mebibytes(most)}")
        return answer

    def _start(
        self,
        request: _Request,
        route: _Route,
        proof: Proof,
        *,
        timeout: aiohttp.ClientTimeout,
    ) -> RequestContext:
        return self._session.request(
            request.method,
            URL(route.base + request.target, encoded=True),
            data=_payload(request.body),
            headers={
                **route.headers,
                **proof.headers,
                "Accept-Encoding": request.packing,
                **({"Content-Type": request.content_type} if request.body else {}),
            },
            ssl=proof.tls,
            timeout=timeout,
            **route.options,
        )

    def failure(self, request: _Request, error: BaseException) -> ClusterUnreachable | None:
        """An exception of the transport as ours; None for one that stays as it is."""
        if isinstance(error, TRANSPORT_ERRORS):
            why = f"{request.verb} {request.plural}: {explain(error)}"
            return ClusterUnreachable(self.cluster, why, was_sent=not isinstance(error, NOT_SENT))
        if isinstance(error, RuntimeError) and self._session.closed:
            return ClusterUnreachable(self.cluster, "the connection was given up")
        return None


async def _other_proof(route: _Route, refused: Proof, error: Unauthorized) -> Proof:
    other = await route.identity.other_than(refused)
    if other is not None:
        return other
    if route.identity.trouble:
        message = f"{error.message}; and there are no new credentials: {route.identity.trouble}"
        raise Unauthorized(error.status, error.reason, message) from error
    raise error


class _TooDeep(InvalidObject):
    """An object nested too deeply. A list leaves it out and goes on."""


class _Account:
    """The block of one request: translates exceptions of the transport into ours, and reports it whatever its result."""

    __slots__ = ("_client", "_request", "_started", "status")

    def __init__(self, client: Client, request: _Request) -> None:
        self._client, self._request, self._started, self.status = client, request, loop_time(), "Cancelled"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        failure = None if error is None else self._client.failure(self._request, error)
        seen = failure or error
        if isinstance(seen, (ApiError, ClusterUnreachable, NotLeading)):
            self.status = type(seen).__name__
        client, request = self._client, self._request
        if client.on_call is not None:
            seconds = loop_time() - self._started
            client.on_call(
                Call(client.cluster, request.verb, request.plural, request.subresource, self.status, seconds)
            )
        if failure is not None:
            raise failure from error


class _Head(msgspec.Struct, gc=False):
    kind: str = ""


_decode_head = msgspec.json.Decoder(_Head).decode


def _left(deadline: float) -> float:
    return max(0.001, deadline - loop_time())


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:g} MiB"


def _payload(body: bytes) -> bytes | io.BytesIO | None:
    return (body if len(body) <= _PIECE else io.BytesIO(body)) if body else None


def _bytes(body: Body) -> bytes:
    return body if isinstance(body, bytes) else encode(body)


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*").fullmatch


def _path(kind: Kind[Any], key: ObjectKey, subresource: str = "") -> str:
    namespace = _segment(kind, key.namespace) if kind.namespaced else ""
    return kind.path(ObjectKey(namespace, _segment(kind, key.name)), subresource=subresource)


def _collection(kind: Kind[Any], namespace: str) -> str:
    return kind.collection(_segment(kind, namespace) if kind.namespaced else "")


def _segment(kind: Kind[Any], name: str) -> str:
    """A name as a segment of a URL. Some names come from users; none may lead to another path. Raises Invalid."""
    if _PLAIN(name):
        return name
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise Invalid(400, "BadName", f"{name!r} cannot be the namespace or name of a {kind.kind}")
    return quote(name, safe="")


def _resource_in(path: str) -> tuple[str, str, str]:
    """Plural, name and subresource of an API path, as far as it has them; DISCOVERY for the plural of the API itself."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return parts[0], "", ""
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    plural, name, subresource, *_ = (*rest, "", "", "") if rest else (DISCOVERY, "", "")
    return plural, name, subresource
