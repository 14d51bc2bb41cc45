"""The storage of one cluster, like etcd: all versions of all objects, their counter, and a history for watches.

Synchronous and single-threaded. Objects are never changed in place, so listeners may keep what they receive.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import msgspec

from fakekube.model.wire import Object

__all__ = [
    "ADDED",
    "DELETED",
    "MODIFIED",
    "Backup",
    "Change",
    "Compacted",
    "Listener",
    "Revisions",
    "Storage",
    "Version",
    "key_of",
]

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
ADDED: ChangeType = "ADDED"
MODIFIED: ChangeType = "MODIFIED"
DELETED: ChangeType = "DELETED"

_encode = msgspec.json.Encoder().encode


def key_of(namespace: str, name: str) -> str:
    """The key of an object within its resource. The order of keys is the order of lists."""
    return f"{namespace}/{name}" if namespace else name


class Version:
    """An object from resource version `rv` on."""

    __slots__ = ("_rest", "key", "object", "rv")

    def __init__(self, rv: int, key: str, item: Object) -> None:
        self.rv, self.key, self.object = rv, key, item
        self._rest: bytes | None = None

    @property
    def rest(self) -> bytes:
        """The object's JSON without apiVersion and kind, from the first key to the last brace; encoded once.

        So all API versions share the bytes: a prefix `{"apiVersion":...,"kind":...,` makes a whole object.
        """
        if self._rest is None:
            self._rest = _encode({k: v for k, v in self.object.items() if k not in ("apiVersion", "kind")})[1:]
        return self._rest


class Change:
    """One write: the new version (for DELETED the last state under a new resource version), and the old one."""

    __slots__ = ("old", "storage", "type", "version")

    def __init__(self, type_: ChangeType, storage: str, version: Version, old: Version | None) -> None:
        self.type, self.storage, self.version, self.old = type_, storage, version, old


Listener = Callable[[Change], None]


class Backup(NamedTuple):
    """All objects as they were at a resource version, by resource and key."""

    rv: int
    versions: Mapping[str, Mapping[str, Version]]


class Compacted(Exception):
    """The history does not reach back to the version. `oldest` is the oldest version from which it is complete."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {wanted} ({oldest})")
        self.wanted, self.oldest = wanted, oldest


class _Shelf:
    """The objects of one resource."""

    __slots__ = ("compacted", "history", "keys", "listeners", "versions")

    def __init__(self) -> None:
        self.versions: dict[str, Version] = {}
        self.keys: list[str] = []  # sorted
        self.history: list[Change] = []
        self.compacted = 0
        self.listeners: tuple[Listener, ...] = ()


class Revisions:
    """The counter of resource versions. As in etcd, an empty store is at 1.

    Clusters that share a counter are like API servers over one etcd: versions order their writes across all of them.
    """

    __slots__ = ("latest",)

    def __init__(self) -> None:
        self.latest = 1


class Storage:
    """All objects of one cluster, by `Resource.storage` and key. `history` is the number of changes kept per
    resource."""

    def __init__(self, *, history: int = 10_000, revisions: Revisions | None = None) -> None:
        self._revisions = revisions or Revisions()
        self._limit = history
        self._shelves: dict[str, _Shelf] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._untold: deque[Change] = deque()
        self._telling = False

    @property
    def rv(self) -> int:
        """The latest resource version."""
        return self._revisions.latest

    def get(self, storage: str, key: str) -> Version | None:
        shelf = self._shelves.get(storage)
        return None if shelf is None else shelf.versions.get(key)

    def put(self, storage: str, key: str, item: Object) -> Version:
        """Store an object, new or updated, stamped with the next resource version."""
        shelf = self._shelf(storage)
        old = shelf.versions.get(key)
        if old is None:
            insort(shelf.keys, key)
        version = shelf.versions[key] = self._stamped(key, item)
        self._changed(shelf, Change(ADDED if old is None else MODIFIED, storage, version, old))
        return version

    def remove(self, storage: str, key: str, last: Object | None = None) -> Version:
        """Remove an object. Returns its last state under a new resource version. Raises KeyError if it is missing."""
        shelf = self._shelf(storage)
        old = shelf.versions.pop(key)
        del shelf.keys[bisect_left(shelf.keys, key)]
        version = self._stamped(key, old.object if last is None else last)
        self._changed(shelf, Change(DELETED, storage, version, old))
        return version

    def select(self, storage: str, namespace: str = "", *, after: str = "") -> list[Version]:
        """The stored objects (of a namespace) in the order of their keys, from after a key on."""
        shelf = self._shelves.get(storage)
        if shelf is None:
            return []
        start, end = _span(shelf.keys, namespace, after)
        versions = shelf.versions
        if start == 0 and end == len(shelf.keys):
            return [versions[key] for key in shelf.keys]
        return [versions[key] for key in shelf.keys[start:end]]

    def select_at(self, storage: str, rv: int, namespace: str = "", *, after: str = "") -> list[Version]:
        """The result of `select` as of a resource version. Raises Compacted."""
        state = {version.key: version for version in self.select(storage, namespace, after=after)}
        later = self.since(storage, rv)
        if not later:
            return list(state.values())
        for change in reversed(later):
            if change.old is None:
                state.pop(change.version.key, None)
            else:
                state[change.version.key] = change.old
        keys = sorted(state)
        start, end = _span(keys, namespace, after)
        return [state[key] for key in keys[start:end]]

    def since(self, storage: str, rv: int) -> list[Change]:
        """The changes after a resource version, in order; none for a future version. Raises Compacted."""
        shelf = self._shelves.get(storage)
        if shelf is None:
            return []
        if rv < shelf.compacted:
            raise Compacted(rv, shelf.compacted)
        return shelf.history[bisect_right(shelf.history, rv, key=_rv_of) :]

    def compact(self, rv: int | None = None) -> None:
        """Drop the history up to a resource version, by default all of it. Reads of older versions raise Compacted."""
        limit = self.rv if rv is None else rv
        for shelf in self._shelves.values():
            del shelf.history[: bisect_right(shelf.history, limit, key=_rv_of)]
            shelf.compacted = max(shelf.compacted, limit)

    def backup(self) -> Backup:
        """The current state, for `restore`."""
        return Backup(self.rv, {name: dict(shelf.versions) for name, shelf in self._shelves.items()})

    def skip(self, versions: int) -> None:
        """Advance the counter, as writes of unrelated objects would."""
        self._revisions.latest += versions

    def restore(self, backup: Backup) -> None:
        """Return to the state of a backup: objects and their versions, the counter set back, and no history.

        Listeners receive the differences, under the versions that the objects had or have.
        """
        changes: list[Change] = []
        for name, shelf in self._shelves.items():
            then = backup.versions.get(name, {})
            changes += _differences(name, shelf.versions, then)
            shelf.versions, shelf.keys, shelf.history = dict(then), sorted(then), []
            shelf.compacted = backup.rv
        self._revisions.latest = backup.rv
        self._untold.extend(changes)
        if not self._telling:
            self._tell()

    def subscribe(self, listener: Listener, storage: str | None = None) -> Callable[[], None]:
        """Call `listener` right after each change of one resource, or of all. Returns the function that unsubscribes
        it.

        A listener may write: listeners receive its changes after all of them have received the current one.
        """
        if storage is None:
            self._listeners = (*self._listeners, listener)
            return lambda: self._unsubscribe(listener)
        shelf = self._shelf(storage)
        shelf.listeners = (*shelf.listeners, listener)
        return lambda: _drop(shelf, listener)

    def storages(self) -> Iterator[str]:
        """The names of the resources that have, or had, objects."""
        return iter(tuple(self._shelves))

    def _unsubscribe(self, listener: Listener) -> None:
        self._listeners = tuple(each for each in self._listeners if each != listener)

    def _shelf(self, storage: str) -> _Shelf:
        shelf = self._shelves.get(storage)
        if shelf is None:
            shelf = self._shelves[storage] = _Shelf()
        return shelf

    def _stamped(self, key: str, item: Object) -> Version:
        self._revisions.latest += 1
        rv = self._revisions.latest
        return Version(rv, key, {**item, "metadata": {**item["metadata"], "resourceVersion": str(rv)}})

    def _changed(self, shelf: _Shelf, change: Change) -> None:
        shelf.history.append(change)
        # The history may exceed the limit by a quarter, so that not every write moves the whole list.
        if len(shelf.history) > self._limit + self._limit // 4:
            excess = len(shelf.history) - self._limit
            shelf.compacted = shelf.history[excess - 1].version.rv
            del shelf.history[:excess]
        self._untold.append(change)
        if not self._telling:
            self._tell()

    def _tell(self) -> None:
        self._telling = True
        try:
            while self._untold:
                change = self._untold.popleft()
                for listener in self._shelves[change.storage].listeners:
                    listener(change)
                for listener in self._listeners:
                    listener(change)
        finally:
            self._telling = False


def _differences(storage: str, now: Mapping[str, Version], then: Mapping[str, Version]) -> Iterator[Change]:
    """The changes from one state of a resource to another."""
    for key, version in now.items():
        if key not in then:
            yield Change(DELETED, storage, version, version)
    for key, version in then.items():
        old = now.get(key)
        if old is None or old.rv != version.rv:
            yield Change(ADDED if old is None else MODIFIED, storage, version, old)


def _rv_of(change: Change) -> int:
    return change.version.rv


def _drop(shelf: _Shelf, listener: Listener) -> None:
    shelf.listeners = tuple(each for each in shelf.listeners if each != listener)


def _span(keys: list[str], namespace: str, after: str) -> tuple[int, int]:
    """The slice of the sorted keys that is in a namespace and after a key."""
    if not namespace:
        return (bisect_right(keys, after) if after else 0), len(keys)
    # "0" is the character after "/".
    start = bisect_right(keys, after) if after else bisect_left(keys, f"{namespace}/")
    return start, bisect_left(keys, f"{namespace}0")
