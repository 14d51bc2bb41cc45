"""Keeps a sink equal to one collection of one cluster, through whatever the connection and the server do.

A round is: list everything in pages, hand it over, then watch from there. The rules (python-stack 5.2): an end of the
stream is normal and the watch goes on from the last version; an expired version, in either form, means listing again,
and the sink finds out what was deleted meanwhile; a server that was away must know the version before it is watched from
again; silence is death; nothing is ever repeated without a pause.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Generic, NoReturn, Protocol, TypeVar

import anyio
import anyio.lowlevel

from multikueue.api.kinds import Kind
from multikueue.api.meta import Object, ObjectKey, version_of
from multikueue.api.unreadable import why_unreadable
from multikueue.errors import (
    ApiError,
    ClusterUnreachable,
    Expired,
    Forbidden,
    Invalid,
    InvalidObject,
    NotFound,
    ServerError,
)
from multikueue.kube.cluster_client import Lines, Page, WatchingClient
from multikueue.kube.decode import (
    UNREADABLE,
    Event,
    Stub,
    StubMeta,
    change_of,
    event_of,
    object_of,
    stub_of,
    whole,
    without_depths,
)
from multikueue.kube.errors import error_from_status

__all__ = ["OnState", "Reflector", "Sink"]

T = TypeVar("T", bound=Object)

OnState = Callable[[bool, str], None]

_LONGEST_PAUSE = 30.0
_SHORTEST_PAUSE = 0.1
_ABSENT_PAUSE = 30.0
"""Most seconds between two looks for a kind that the server does not have; sooner at first, while things are set up."""

_SETTLED = 5.0
"""Seconds after which a watch that brought nothing yet counts as a working one."""

_YIELD_EVERY = 64
"""Events; reading does not suspend while data is buffered, so in a flood we must step aside ourselves."""

_DOUBTS = 3
"""Watches in a row that brought nothing, after which the version they started from is doubted."""


class Sink(Protocol[T]):
    """What takes in a collection: the objects of a namespace, or of all (""). All synchronous: each call is one atomic change.

    `unreadable` holds what is there and cannot be read or taken in, and why: it is missing from the collection, and not
    gone. The sink adds what it cannot take in itself, and goes on with the rest.
    """

    @property
    def unreadable(self) -> dict[ObjectKey, str]: ...

    def newest(self, namespace: str, /) -> int:
        """The highest version that anybody told it of that namespace since its last list."""

    def __len__(self) -> int:
        """How many objects it has."""

    def get(self, key: ObjectKey, /) -> T | None:
        """The object as it was last taken in, from whomever: the answer to a write of ours, or the connection before."""

    def expect_list(self, namespace: str, /) -> None:
        """A list is asked for: what others tell the sink from now on may be newer than what the list says."""

    def replacing(self, items: Sequence[T], version: int, namespace: str, /) -> Iterator[None]:
        """The whole collection as of the resource version: what is missing is gone. The sink finds the differences, step by
        step, so that others have turns in between; the last of an object counts."""

    def upsert(self, item: T, /) -> None:
        """Added or changed."""

    def remove(self, item: T, /) -> None:
        """Gone; the object is as it was last."""


class _Broken(Exception):
    """The watch cannot be read on."""


class Reflector(Generic[T]):
    """One collection of one cluster. `run` it in one task; that task owns the state here.

    `synced` is set once the sink has the whole collection. `refused` says that the server's last word was that it has no
    such kind, or does not let us see it. `on_state` is told (True, "") when the watch stands, and
    (False, why) on each failed attempt to get it to stand; the normal end of a watch and a forgotten version are none.
    `idle` is the seconds of silence after which a peer is taken for dead: servers send bookmarks every two minutes.
    `vouch` is awaited before it lists anew: what it raises that is neither of cluster nor of server ends the reflector.
    `sleep` and `jitter` (in [0, 1)) are for tests.
    """

    def __init__(
        self,
        client: WatchingClient,
        kind: Kind[T],
        sink: Sink[T],
        *,
        on_state: OnState,
        label_selector: str = "",
        namespace: str = "",
        idle: float = 180.0,
        page: int = 500,
        vouch: Callable[[], Awaitable[None]] | None = None,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.synced = anyio.Event()
        self.refused = False
        self._client, self._kind, self._sink, self._on_state = client, kind, sink, on_state
        self._label_selector, self._namespace, self._idle, self._page = label_selector, namespace, idle, page
        self._vouch, self._sleep, self._jitter = vouch, sleep, jitter
        self._decode, self._decode_change = object_of(kind.type), change_of(kind.type)
        self._path = kind.collection(namespace) if namespace else kind.path()
        self._version = ""
        self._route: object = None
        self._standing = False
        self._failures = 0
        self._fruitless = 0
        self._received = False
        self._taken = 0
        self._away = False
        self._pause = anyio.CancelScope()

    async def run(self) -> NoReturn:
        """Reflect until cancelled. Errors of cluster and server never leave it."""
        while True:
            fresh = not self._version or self._has_moved()
            try:
                if fresh:
                    await self._list()
                elif self._away:
                    await self._check_version()
                    if not self._version:
                        continue  # hurried meanwhile: a watch from no version at all never tells what is gone
                if not self._has_moved():
                    await self._watch(fresh=fresh)
            except (ApiError, ClusterUnreachable, InvalidObject, _Broken) as error:
                with anyio.CancelScope() as self._pause:
                    await self._sleep(self._failed(error, fresh=fresh))

    def hurry(self) -> None:
        """The cluster answers again: end a pause now, and list anew, so that what we hold is as of now."""
        if not self._standing:
            self._version = ""
            self._failures = 0
            self.retry()

    def retry(self) -> None:
        """The cluster answers still: end a pause now."""
        if not self._standing:
            self._pause.cancel()

    def _has_moved(self) -> bool:
        """Whether the client speaks with another server since we listed: a version means nothing there."""
        return self._route is not self._client.route

    async def _list(self) -> None:
        if self._vouch is not None and self.synced.is_set():
            await self._vouch()
        self._route = self._client.route
        self._sink.expect_list(self._namespace)
        page = await self._client.list(
            self._kind, namespace=self._namespace, label_selector=self._label_selector, page=self._page
        )
        # What exists but cannot be read stays as it was last read: it is not gone.
        kept = tuple(old for key in page.undecodable if (old := self._sink.get(key)) is not None)
        version = page.resource_version
        before = self._unreadable()  # they stay so until they are read: what is neither there nor set aside is gone
        self._sink.unreadable.update(page.undecodable)
        for _ in self._sink.replacing((*page.items, *kept), version_of(version), self._namespace):
            await anyio.lowlevel.checkpoint()
        self._forget_gone(before, page)
        new = dict(self._unreadable().items() - page.undecodable.items())
        found = {item.key: item for item in page.items if item.key in new} if new else {}
        for key, why in new.items():
            self._client.report_garbage(self._kind, found.get(key) or Stub(StubMeta(key.name, key.namespace)), why)
        self._version, self._taken = version, 0
        self.synced.set()

    def _forget_gone(self, before: Mapping[ObjectKey, str], page: Page[T]) -> None:
        """Of what was set aside before a list: what the list does not have, and what the sink has taken from it."""
        doubted = before.keys() - page.undecodable.keys()
        listed = {item.key: item for item in page.items if item.key in doubted} if doubted else {}
        for key in doubted:
            if key not in listed or self._sink.get(key) == listed[key]:
                self._sink.unreadable.pop(key, None)

    def _unreadable(self) -> dict[ObjectKey, str]:
        """Of this collection: the sink may have others."""
        return {key: why for key, why in self._sink.unreadable.items() if self._namespace in ("", key.namespace)}

    async def _check_version(self) -> None:
        """Ask a server that was away whether it has come as far as we have, by answers to our own writes too.

        One that was restored from a backup meanwhile has not, and would keep silent until it has: then list anew.
        """
        version = version_of(self._version)
        reached = str(max(version, self._sink.newest(self._namespace))) if version else self._version
        wanted = {"limit": "1", "resourceVersion": reached, "resourceVersionMatch": "NotOlderThan"}
        try:
            await self._client.request("GET", self._path, params=wanted)
        except (Expired, ServerError):
            self._version = ""
            raise
        self._away = False

    async def _watch(self, *, fresh: bool) -> None:
        """Follow the collection from the version we have; returns at the normal end of a watch."""
        opened: float | None = None
        self._received = False
        try:
            async with self._client.stream(self._path, self._query(), idle=self._idle) as stream:
                opened = anyio.current_time()
                await self._follow(stream)
            if self._has_moved():
                return
            if not self._received and anyio.current_time() - opened < _SETTLED:
                raise _Broken("the server closed the watch at once")
        except Expired:
            self._version = ""
            self._fruitless += fresh
            raise
        except (ApiError, ClusterUnreachable, _Broken) as error:
            self._away = opened is None and isinstance(error, ClusterUnreachable)
            if opened is not None or isinstance(error, (Invalid, NotFound, ServerError)):
                self._doubt_version(lived=anyio.current_time() - opened if opened is not None else 0.0)
            raise
        self._doubt_version(lived=anyio.current_time() - opened)

    def _query(self) -> dict[str, str]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(290 + int(291 * self._jitter())),
        }
        return query | ({"labelSelector": self._label_selector} if self._label_selector else {})

    def _doubt_version(self, *, lived: float) -> None:
        """A watch that brought nothing does not vouch for the version it started from.

        A server restored from a backup never reached that version and stays silent for ever: so list again, after one
        watch that had its time, or after several that had none.
        """
        if self._received:
            return
        self._fruitless += lived < _SETTLED
        if lived >= _SETTLED or self._fruitless >= _DOUBTS:
            self._version = ""

    async def _follow(self, stream: Lines) -> None:
        # After a watch that ended before it brought anything, an open one alone is no good news yet.
        wait = _SETTLED if self._fruitless else 0.0
        settled = asyncio.get_running_loop().call_later(wait, self._stands)
        count = 0
        try:
            while line := await stream.line():
                try:
                    self._take(line)
                except RecursionError:
                    self._took(self._take_odd(await without_depths(line)))
                self._taken += len(line)
                if self._client.is_too_much(len(self._sink), self._taken):
                    self._version = ""  # a list says how much there really is
                    return
                count += 1
                if count % _YIELD_EVERY == 0:
                    await anyio.lowlevel.checkpoint()
        finally:
            settled.cancel()

    def _take(self, line: bytes) -> None:
        try:
            change = self._decode_change(line)
        except UNREADABLE:
            version = self._take_odd(line)
        else:
            odd = change.type == "ERROR"
            version = self._take_odd(line) if odd else self._take_object(change.type, change.object)
        self._took(version)

    def _took(self, version: str) -> None:
        self._version = version or self._version
        if not self._received:
            self._received, self._fruitless = True, 0
            self._stands()

    def _take_object(self, type_: str, item: T) -> str:
        """Hand the object to the sink; answers its version. A BOOKMARK is nothing but a version."""
        before = self._sink.unreadable.pop(item.key, "") if self._sink.unreadable else ""
        if type_ in ("ADDED", "MODIFIED"):
            self._sink.upsert(item)
        elif type_ == "DELETED":
            self._sink.remove(item)
        if self._sink.unreadable and (why := self._sink.unreadable.get(item.key, before)) != before:
            self._client.report_garbage(self._kind, item, why)
        return item.metadata.resource_version

    def _take_odd(self, line: bytes) -> str:
        """A line that is no plain change of an object of our shape: find out what it is. RecursionError: it goes too deep."""
        try:
            event = event_of(line)
        except RecursionError:
            raise
        except UNREADABLE:
            if not line.endswith(b"\n"):
                raise _Broken("the stream was cut off in the middle of a line") from None
            self._version = ""
            raise _Broken(f"a line of the watch is no event: {line[:100]!r}") from None
        if event.type == "ERROR":
            raise error_from_status(event.object, call=f"watch {self._kind.plural}")
        if event.type == "BOOKMARK":
            return stub_of(event.object).metadata.resource_version
        try:
            item = self._decode(whole(event.object))
        except UNREADABLE as error:
            return self._take_garbage(event, error)
        return self._take_object(event.type, item)

    def _take_garbage(self, event: Event, error: Exception) -> str:
        """One odd object must not stop a watch: keep what we knew of it, unless it is gone."""
        stub, why = stub_of(event.object), why_unreadable(error)
        before = self._sink.unreadable.pop(stub.key, "") if stub.key is not None else ""
        if why != before:
            self._client.report_garbage(self._kind, stub, why)
        if event.type != "DELETED" and stub.key is not None:
            self._sink.unreadable[stub.key] = why
        elif stub.key is not None and (gone := self._sink.get(stub.key)) is not None:
            self._sink.remove(gone)
        return stub.metadata.resource_version

    def _stands(self) -> None:
        self._failures = 0
        self.refused = False
        if not self._standing:
            self._standing = True
            self._on_state(True, "")

    def _failed(self, error: Exception, *, fresh: bool) -> float:
        """Tell of the failure; answers the seconds to wait."""
        self._failures += 1
        self.refused = isinstance(error, (NotFound, Forbidden))
        # A version grows old in the normal course of things; one that was listed just now does not.
        if fresh or not isinstance(error, Expired):
            self._standing = False
            self._on_state(False, self._why(error))
        return self._pause_after(error)

    def _why(self, error: Exception) -> str:
        if isinstance(error, NotFound):
            return f"the server has no kind {self._kind.kind} ({self._kind.api_version})"
        return error.why if isinstance(error, ClusterUnreachable) else str(error)

    def _pause_after(self, error: Exception) -> float:
        if isinstance(error, NotFound):
            return float(min(_ABSENT_PAUSE, 2 ** min(self._failures, 10))) * (0.75 + self._jitter() / 2)
        if isinstance(error, ApiError) and error.after is not None:
            return error.after + self._jitter()
        longest: float = min(_LONGEST_PAUSE, 0.5 * 2 ** min(self._failures, 10))
        return max(_SHORTEST_PAUSE, longest * self._jitter())
