"""Keeps a sink equal to one collection, across failures of connection and server: one file, as it is one state machine.

A round lists the collection in pages, hands it to the sink, then watches from its version. Rules:

- The end of a stream is normal. The next watch starts at the last version.
- An expired version, in either form, causes a new list. The sink finds the objects deleted meanwhile.
- A server that was unreachable, or whose connection broke, must know the version before the next watch from it.
- A bookmark of an older version than the last one is that of a server restored from a backup: a new list.
- A silent connection is a broken one.
- Every repetition comes after a pause.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import timedelta
from time import perf_counter
from typing import Generic, NoReturn, Protocol, TypeVar

import anyio

from multikueue.api.kind import Kind
from multikueue.api.meta import Object, ObjectKey, version_of
from multikueue.api.values.foreign import why_unreadable
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
from multikueue.kube.cluster_client import Lines, WatchingClient
from multikueue.kube.decode import (
    UNREADABLE,
    Stub,
    StubMeta,
    WatchEvent,
    change_of,
    event_of,
    object_of,
    stub_of,
    whole,
    without_depths,
)
from multikueue.kube.errors import error_from_status
from multikueue.kube.transport.loop_share import UNMETERED, LoopShare

__all__ = ["OnState", "Pace", "Reflector", "Sink"]

T = TypeVar("T", bound=Object)

OnState = Callable[[bool, str], None]

_LONGEST_PAUSE = timedelta(seconds=30)
_SHORTEST_PAUSE = timedelta(milliseconds=100)
_LONGEST_PAUSE_WITHOUT_KIND = timedelta(seconds=30)
"""Longest pause between two lists of a kind that the server does not have. The first pauses are shorter,
for a cluster that is being set up."""

_SETTLED_AFTER = timedelta(seconds=5)
"""After so long a watch without an event counts as working."""

_YIELD_EVERY = 64
"""Events between two checkpoints: reading does not suspend while data is buffered, and a flood would block the loop."""

_PAUSE_BETWEEN_LISTS = timedelta(seconds=5)
"""The shortest time between a list and the next one that `list_anew` requests."""

_DOUBTS = 3
"""Consecutive watches without an event after which the reflector lists again."""


class Sink(Protocol[T]):
    """Receives a collection: the objects of one namespace, or of all (""). Each call is synchronous, an atomic change.

    `unreadable` has the objects that exist but cannot be decoded or cached, with the reason: they are missing from the
    collection, not deleted. The sink adds those that it cannot cache, and goes on with the rest.
    """

    @property
    def unreadable(self) -> dict[ObjectKey, str]: ...

    def newest(self, namespace: str, /) -> int:
        """The highest resource version reported for that namespace since its last list, by any source."""

    def __len__(self) -> int:
        """The number of objects."""

    def get(self, key: ObjectKey, /) -> T | None:
        """The last cached version, from any source: this watch, an answer to our write, an earlier connection."""

    def expect_list(self, namespace: str, /) -> None:
        """A list request is sent: changes from other sources from now on may be newer than the list."""

    def gathering(self) -> MutableMapping[ObjectKey, T]:
        """An empty mapping for the objects of a list, until all of them are there."""

    def replacing(self, items: Mapping[ObjectKey, T], version: int, namespace: str, /) -> Iterator[None]:
        """Replace the collection by `items`, as of the resource version: missing objects are deleted.

        The sink works in steps, so that other tasks run in between. Of several items with one key the last counts."""

    def should_keep(self, item: T, /) -> bool:
        """Whether to add or update the object, by a list or a watch. If not, the sink notes that it exists."""

    def upsert(self, item: T, /) -> None:
        """Add or update the object."""

    def remove(self, item: T, /) -> None:
        """Delete the object; `item` is its last state."""


class _Broken(Exception):
    """The watch cannot go on."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a reflector lists and waits. `idle` is the seconds of silence after which the connection counts as broken: servers
    send bookmarks every two minutes. `page` is the number of objects in a part of a list. `sleep` and `jitter` (in [0, 1))
    are for tests."""

    idle: float = 180.0
    page: int = 500
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    jitter: Callable[[], float] = random.random


AS_USUAL = Pace()


class Reflector(Generic[T]):
    """One collection of one cluster. `run` belongs in one task, which owns the state.

    `synced` is set once the sink has the whole collection. `refused` is true if the last failure was NotFound (no such
    kind) or Forbidden. `on_state` is called with (True, "") when the watch is established, and with (False, why) on
    each failure; the normal end of a watch and an expired version are no failures. `vouch` is awaited before
    each list after the first: an error of another class than those of cluster and server ends the reflector. `share` is
    what the work on its lines may take of the event loop.
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
        vouch: Callable[[], Awaitable[None]] | None = None,
        share: LoopShare = UNMETERED,
        pace: Pace = AS_USUAL,
    ) -> None:
        self.synced = anyio.Event()
        self.refused = False
        self._client, self._kind, self._sink, self._on_state = client, kind, sink, on_state
        self._label_selector, self._namespace, self._pace = label_selector, namespace, pace
        self._vouch, self._share = vouch, share
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
        self._following = anyio.CancelScope()
        self._listed_at = 0.0
        self._left_out = 0
        self._is_asked_anew = False
        self._next_list: asyncio.TimerHandle | None = None

    async def run(self) -> NoReturn:
        """List and watch until cancelled. Errors of cluster and server are handled here."""
        while True:
            fresh, pause = not self._version or self._has_moved() or self._is_asked_anew, None
            try:
                if fresh:
                    await self._list()
                elif self._away:
                    await self._check_version()
                    if not self._version:
                        continue  # `hurry` cleared it meanwhile: a watch without a version misses deletions
                if not self._has_moved() and not self._is_asked_anew:
                    with anyio.CancelScope() as self._following:
                        await self._watch(is_fresh=fresh)
            except (ApiError, ClusterUnreachable, InvalidObject, _Broken) as error:
                pause = self._failed(error, is_fresh=fresh)
            except anyio.get_cancelled_exc_class() as error:
                # anyio keeps the error of a cancelled task in a cycle, and with its traceback a page of the list.
                raise error.with_traceback(None) from None
            if pause is not None:  # not in the handler: the traceback would keep a large answer in memory for so long
                with anyio.CancelScope() as self._pause:
                    await self._pace.sleep(pause)

    def hurry(self) -> None:
        """The cluster answers again: end the pause and list, so that the sink is up to date."""
        if not self._standing:
            self._version = ""
            self._failures = 0
            self.retry()

    def retry(self) -> None:
        """The cluster still answers: end the pause."""
        if not self._standing:
            self._pause.cancel()

    def list_anew(self) -> None:
        """The sink may want objects that it did not want before: list again, if there are any, after a while."""
        if self._left_out and self._next_list is None:
            wait = max(0.0, self._listed_at + _PAUSE_BETWEEN_LISTS.total_seconds() - anyio.current_time())
            self._next_list = asyncio.get_running_loop().call_later(wait, self._ask_anew)

    def _ask_anew(self) -> None:
        self._next_list, self._is_asked_anew = None, True
        self._following.cancel()

    def _is_wanted(self, item: T) -> bool:
        is_wanted = self._sink.should_keep(item)
        self._left_out += not is_wanted
        return is_wanted

    def _has_moved(self) -> bool:
        """Whether the client changed its server since the last list: resource versions are not comparable then."""
        return self._route is not self._client.route

    async def _list(self) -> None:
        if self._vouch is not None and self.synced.is_set():
            await self._vouch()
        self._route, self._version = self._client.route, ""
        self._left_out, self._is_asked_anew = 0, False
        self._sink.expect_list(self._namespace)
        listed = self._sink.gathering()
        page = await self._client.list(
            self._kind,
            namespace=self._namespace,
            label_selector=self._label_selector,
            page=self._pace.page,
            is_wanted=self._is_wanted,
            into=listed,
        )
        # An object that cannot be decoded keeps its last cached version: it is not deleted.
        listed.update((key, old) for key in page.undecodable if (old := self._sink.get(key)) is not None)
        version = page.resource_version
        before = self._unreadable()  # they stay so until they are read: what is neither there nor set aside is gone
        self._sink.unreadable.update(page.undecodable)
        began = perf_counter()
        for _ in self._sink.replacing(listed, version_of(version), self._namespace):
            self._share.spend(began)
            await self._share.pause()
            began = perf_counter()
        self._forget_gone(before.keys() - page.undecodable.keys(), listed)
        new = dict(self._unreadable().items() - page.undecodable.items())
        for key, why in new.items():
            self._client.report_undecodable(self._kind, listed.get(key) or Stub(StubMeta(key.name, key.namespace)), why)
        self._version, self._taken, self._listed_at = version, 0, anyio.current_time()
        self.synced.set()

    def _forget_gone(self, doubted: Iterable[ObjectKey], listed: Mapping[ObjectKey, T]) -> None:
        """Of what was set aside before a list: what the list does not have, and what the sink has taken from it."""
        for key in doubted:
            if key not in listed or self._sink.get(key) == listed[key]:
                self._sink.unreadable.pop(key, None)

    def _unreadable(self) -> dict[ObjectKey, str]:
        """The unreadable objects of this collection: the sink may have other collections."""
        return {key: why for key, why in self._sink.unreadable.items() if self._namespace in ("", key.namespace)}

    async def _check_version(self) -> None:
        """Ask a server that was unreachable whether it has reached our newest version, answers to our writes included.

        A server restored from a backup has not: its watch would be silent until it does, so the reflector lists again.
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

    async def _watch(self, *, is_fresh: bool) -> None:
        """Watch the collection from our version. Returns at the normal end of the watch."""
        opened: float | None = None
        self._received = False
        try:
            async with self._client.stream(self._path, self._query(), idle=self._pace.idle) as stream:
                opened = anyio.current_time()
                await self._follow(stream)
            if self._has_moved():
                return
            if not self._received and anyio.current_time() - opened < _SETTLED_AFTER.total_seconds():
                raise _Broken("the server closed the watch at once")
        except Expired:
            self._version = ""
            self._fruitless += is_fresh
            raise
        except (ApiError, ClusterUnreachable, _Broken) as error:
            self._away = isinstance(error, ClusterUnreachable)
            if opened is not None or isinstance(error, (Invalid, NotFound, ServerError)):
                self._doubt_version(lived=anyio.current_time() - opened if opened is not None else 0.0)
            raise
        self._doubt_version(lived=anyio.current_time() - opened)

    def _query(self) -> dict[str, str]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(290 + int(291 * self._pace.jitter())),
        }
        return query | ({"labelSelector": self._label_selector} if self._label_selector else {})

    def _doubt_version(self, *, lived: float) -> None:
        """List again after a watch without events: one that was open long enough, or several short ones.

        A server restored from a backup may be behind the version of the watch, and would stay silent.
        """
        if self._received:
            return
        self._fruitless += lived < _SETTLED_AFTER.total_seconds()
        if lived >= _SETTLED_AFTER.total_seconds() or self._fruitless >= _DOUBTS:
            self._version = ""

    async def _follow(self, stream: Lines) -> None:
        # After a watch that ended without an event, an open watch alone does not count as working yet.
        wait = _SETTLED_AFTER.total_seconds() if self._fruitless else 0.0
        settled = asyncio.get_running_loop().call_later(wait, self._stands)
        count, share = 0, self._share
        try:
            while line := await stream.line():
                began = perf_counter()
                try:
                    version = self._take(line)
                except RecursionError:
                    version = self._take_odd(await without_depths(line))
                self._version = version or self._version
                if not self._received:
                    self._received, self._fruitless = True, 0
                    self._stands()
                self._taken += len(line)
                line = b""  # else it would stay in memory until the next one comes
                if self._client.is_too_much(len(self._sink) + self._left_out, self._taken):
                    self._version = ""  # only a list has the real size: the count of bytes includes replaced versions
                    return
                count += 1
                if share.spend(began) or count % _YIELD_EVERY == 0:
                    await share.pause()
        finally:
            settled.cancel()

    def _take(self, line: bytes) -> str:
        """Hand the change to the sink; returns its version."""
        try:
            change = self._decode_change(line)
        except UNREADABLE:
            return self._take_odd(line)
        return self._take_odd(line) if change.type == "ERROR" else self._take_object(change.type, change.object)

    def _take_object(self, type_: str, item: T) -> str:
        """Hand the object to the sink; returns its version. A BOOKMARK has only a version."""
        before = self._sink.unreadable.pop(item.key, "") if self._sink.unreadable else ""
        if type_ in ("ADDED", "MODIFIED"):
            if self._is_wanted(item):
                self._sink.upsert(item)
        elif type_ == "DELETED":
            self._sink.remove(item)
        elif type_ == "BOOKMARK":
            return self._marked(item.metadata.resource_version)
        if self._sink.unreadable and (why := self._sink.unreadable.get(item.key, before)) != before:
            self._client.report_undecodable(self._kind, item, why)
        return item.metadata.resource_version

    def _marked(self, version: str) -> str:
        """The version of a bookmark, which shows how far the server is."""
        before = self._version
        if version_of(version) < version_of(before):
            self._version = ""
            raise _Broken(f"the server went back from version {before} to {version}")
        return version

    def _take_odd(self, line: bytes) -> str:
        """Classify a line that is no plain change of a decodable object. Raises RecursionError if nested too deeply."""
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
            return self._marked(stub_of(event.object).metadata.resource_version)
        try:
            item = self._decode(whole(event.object))
        except UNREADABLE as error:
            return self._take_undecodable(event, error)
        return self._take_object(event.type, item)

    def _take_undecodable(self, event: WatchEvent, error: Exception) -> str:
        """One object that cannot be decoded must not stop the watch: its last version stays, unless it was deleted."""
        stub, why = stub_of(event.object), why_unreadable(error)
        before = self._sink.unreadable.pop(stub.key, "") if stub.key is not None else ""
        if why != before:
            self._client.report_undecodable(self._kind, stub, why)
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

    def _failed(self, error: Exception, *, is_fresh: bool) -> float:
        """Report the failure; returns the seconds to wait."""
        self._failures += 1
        self.refused = isinstance(error, (NotFound, Forbidden))
        # Versions expire in normal operation, but not right after their list.
        if is_fresh or not isinstance(error, Expired):
            self._standing = False
            self._on_state(False, self._why(error))
        return self._pause_after(error)

    def _why(self, error: Exception) -> str:
        if isinstance(error, NotFound):
            return f"the server has no kind {self._kind.kind} ({self._kind.api_version})"
        return error.why if isinstance(error, ClusterUnreachable) else str(error)

    def _pause_after(self, error: Exception) -> float:
        if isinstance(error, NotFound):
            return float(min(_LONGEST_PAUSE_WITHOUT_KIND.total_seconds(), 2 ** min(self._failures, 10))) * (
                0.75 + self._pace.jitter() / 2
            )
        if isinstance(error, ApiError) and error.after is not None:
            return error.after + self._pace.jitter()
        longest: float = min(_LONGEST_PAUSE.total_seconds(), 0.5 * 2 ** min(self._failures, 10))
        return max(_SHORTEST_PAUSE.total_seconds(), longest * self._pace.jitter())
