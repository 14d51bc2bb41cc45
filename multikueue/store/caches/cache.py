"""The last seen objects of one kind in one cluster, indexed; changed only by events and answers to our own writes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from typing import Generic, TypeVar

import msgspec

from multikueue.api.meta import Object, ObjectKey, version_of
from multikueue.api.values.foreign import why_unreadable
from multikueue.errors import InvariantBroken
from multikueue.store.caches.packing import PackingMap, WholeMap, never
from multikueue.store.caches.unknown_objects import UnknownObjects

T = TypeVar("T", bound=Object)

Indexer = Callable[[T], Iterable[Hashable]]
Listener = Callable[[T | None, T | None], None]
Failed = Callable[[Exception], None]


STEP = 100
"""The number of objects of a list applied between two turns of other tasks."""

REMEMBERED = 4096
"""The number of deleted UIDs remembered: far more than late events can name."""


def ignore(*_news: object) -> None:
    """The listener that ignores all changes."""


@dataclass(slots=True)
class _Told(Generic[T]):
    """Events of a collection since its last list: the highest version, and, while the next list is under way, the
    newest of each object (None: deleted)."""

    newest: int = 0
    news: dict[ObjectKey, T | None] | None = None


class Cache(Generic[T]):
    """Objects by key. Owner: the store of the cluster; every method is synchronous, so each change is atomic.

    - Only the newest version is kept. An answer to our own write is applied by `upsert` like an event (read your
      writes), and older events are ignored. An object seen deleted does not return by a late event.
    - A list replaces everything known before its request, without regard to versions: a cluster restored from a backup
      counts its versions again from an earlier one.
    - `on_change(old, new)` gets each real change: (None, new) added, (old, new) changed, (old, None) deleted.
    - Who decides by the objects follows the cache (`on_change`, `follow`) and is part of the change. Who only looks
      observes it (`observe`), after the change is made: an error there costs nothing but that look.
    - `unreadable` has the objects that cannot be decoded or applied, and why. Their absence, or their older version,
      means nothing. An error in a follower costs only that object: the change is rolled back, the object is set aside,
      and its next version, or the next list, is another attempt.
    - A list covers one namespace, or all (""): a client that lists some namespaces has a collection for each.
    - With `unknown`, the cache keeps only some of the unknown objects at a time.
    - An object that `is_over` is kept packed: each question unpacks it. `indexes_until_over` are of the others.
    """

    def __init__(
        self,
        on_change: Listener[T] = ignore,
        *,
        indexes: Mapping[str, Indexer[T]] | None = None,
        indexes_until_over: Mapping[str, Indexer[T]] | None = None,
        unknown: UnknownObjects[T] | None = None,
        is_over: Callable[[T], bool] = never,
    ) -> None:
        self._unknown = unknown
        self.unreadable: dict[ObjectKey, str] = {}
        self._objects: PackingMap[T] | WholeMap[T] = WholeMap() if is_over is never else PackingMap(is_over)
        self.get: Callable[[ObjectKey], T | None] = self._objects.find
        """The object of that key, if there is one: asked so often that it is the map's own answer, without a call between."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._lists: dict[str, _Told[T]] = {"": _Told()}
        self._decides: list[Listener[T]] = [on_change]
        self._looks: list[tuple[Listener[T], Failed]] = []
        of_all, of_others = indexes or {}, indexes_until_over or {}
        self._indexes: dict[str, dict[Hashable, dict[ObjectKey, None]]] = {name: {} for name in (*of_all, *of_others)}
        self._leaves_indexes: Callable[[T], bool] | None = is_over if of_others else None
        self._when_over = tuple((self._indexes[name], indexer) for name, indexer in of_all.items())
        self._until_over = self._when_over + tuple((self._indexes[name], of) for name, of in of_others.items())

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return self._objects.all_now()

    def all_keys(self) -> tuple[ObjectKey, ...]:
        """The keys of all objects, for which none is unpacked."""
        return tuple(self._objects)

    def going_on(self) -> Iterator[T]:
        """The objects that are not packed: all that are not over, and few others."""
        return self._objects.going_on()

    def follow(self, listener: Listener[T]) -> None:
        """Call `listener` with each real change too, after `on_change` and as a part of the change: if it raises, the
        change is rolled back."""
        self._decides.append(listener)

    def observe(self, listener: Listener[T], failed: Failed = ignore) -> None:
        """Call `listener` with each real change, once it is made. What it raises goes to `failed` and nowhere else."""
        self._looks.append((listener, failed))

    def by(self, index: str, value: Hashable) -> tuple[T, ...]:
        """The objects whose index function named `value`, in the order they came."""
        return tuple([self._objects[key] for key in self._indexes[index].get(value, ())])

    def keys_by(self, index: str, value: Hashable) -> tuple[ObjectKey, ...]:
        """The keys of the objects with this index value."""
        return tuple(self._indexes[index].get(value, ()))

    def named(self, index: str) -> tuple[Hashable, ...]:
        """All values of the index."""
        return tuple(self._indexes[index])

    def newest(self, namespace: str = "", /) -> int:
        """The highest version seen in that namespace since its last list."""
        return self._collection(namespace).newest

    def should_keep(self, item: T, /) -> bool:
        """Whether to keep an object of a watch or list. A caller that upserts an object by itself knows it. An unknown
        object that is kept, and whose new version is too large for that, is dropped."""
        unknown = self._unknown
        if unknown is None:
            return True
        key = item.key
        if (key in self._objects and not unknown.has(key)) or unknown.admit(item):
            return True
        if (old := self._objects.find(key)) is not None:
            self._drop(old)
        return False

    def may_have_left_out(self, names: Iterable[ObjectKey]) -> bool:
        """Whether an object of one of these names may exist that was left out."""
        return self._unknown is not None and self._unknown.may_have_left_out(names)

    def upsert(self, item: T) -> None:
        """Apply an object, unless a newer version is known or the object was deleted."""
        key, is_late = item.key, item.metadata.uid in self._gone
        version = version_of(item.metadata.resource_version)
        for told in self._lists.values() if len(self._lists) == 1 else self._collections_with(item):
            told.newest = max(told.newest, version)
            if told.news is not None and not is_late:
                _note(told.news, item)
        if is_late:
            return self._is_gone(key)
        old = self._objects.find(key)
        if old is not None:
            # Most changes are of a status: a raw spec that stays the same is kept once, and so decoded once (`api.meta`).
            before, spec = getattr(old, "spec", None), getattr(item, "spec", None)
            if isinstance(spec, msgspec.Raw) and spec is not before and spec == before:
                msgspec.structs.force_setattr(item, "spec", before)
        if old is None or version_of(old.metadata.resource_version) < version:
            self._attempt(key, old, item)
        return None

    def remove(self, item: T) -> None:
        """The object is deleted: by a watch event, or the answer to our own delete.

        The two race, with each other and with answers to earlier writes, so the UID is remembered: a deleted object
        never returns, and any later event of it is late.
        """
        key, version = item.key, version_of(item.metadata.resource_version)
        for told in self._collections_with(item):
            told.newest = max(told.newest, version)
            if told.news is not None:
                told.news[key] = None
        self._gone[item.metadata.uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        old = self._objects.find(key)
        if old is not None and old.metadata.uid == item.metadata.uid:
            self._drop(old)
        self._is_gone(key)

    def _is_gone(self, key: ObjectKey) -> None:
        """Unless another object has its name."""
        if self._unknown is not None and key not in self._objects:
            self._unknown.gone(key)

    def gathering(self) -> MutableMapping[ObjectKey, T]:
        """Keeps the objects of a list as this cache does, until it has all of them."""
        return self._objects.another()

    def expect_list(self, namespace: str = "", /) -> None:
        """A list is requested: events that arrive before its answer may be newer than the list."""
        self._collection(namespace).news = {}
        if self._unknown is not None:
            self._unknown.expect_list(namespace, self._objects.find)

    def replace(self, items: Iterable[T], version: int = 0, namespace: str = "", /) -> None:
        """Apply a list as of `version`: missing objects are deleted, unless they came after it."""
        for _ in self.replacing({item.key: item for item in items}, version, namespace):
            pass

    def replacing(self, listed: Mapping[ObjectKey, T], version: int = 0, namespace: str = "", /) -> Iterator[None]:
        """As `replace`, in steps, so that the caller can give other tasks a turn at each. Meanwhile the cache looks as
        if a watch had reported some of the changes, deletions first; other events apply as always."""
        told = self._collection(namespace)
        news = told.news = told.news or {}
        told.newest = max((version, *(came.version for came in news.values() if came is not None)))
        try:
            for number, key in enumerate(tuple(self._objects), 1):
                if key not in listed and namespace in ("", key.namespace):
                    self._miss(key, news.get(key), version)
                if number % STEP == 0:
                    yield
            for number, (key, item) in enumerate(listed.items(), 1):
                came = news.get(key, item)
                if came is None:
                    self.upsert(item)
                else:
                    self._take(came if came.version > item.version else item)
                if number % STEP == 0:
                    yield
            if self._unknown is not None:
                self._unknown.listed(namespace)
        finally:
            told.news = None

    def _miss(self, key: ObjectKey, came: T | None, version: int) -> None:
        """The object is missing in a list of that version."""
        if came is not None and came.version > version:
            self._take(came)
        elif (old := self._objects.find(key)) is not None:
            self._drop(old)

    def _collection(self, namespace: str) -> _Told[T]:
        return self._lists.setdefault(namespace, _Told())

    def _collections_with(self, item: T) -> tuple[_Told[T], ...]:
        """The listed collections that have the object."""
        own = self._lists.get(item.metadata.namespace) if item.metadata.namespace else None
        return (self._lists[""],) if own is None else (self._lists[""], own)

    def _take(self, item: T) -> None:
        self._gone.pop(item.metadata.uid, None)
        old = self._objects.find(item.key)
        if old != item:
            self._attempt(item.key, old, item)

    def _drop(self, old: T) -> None:
        self._attempt(old.key, old, None)

    def _attempt(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        try:
            self._change(key, old, new)
        except InvariantBroken:
            raise
        except Exception as error:  # noqa: BLE001  # the boundary: one object's error costs no other object
            self.unreadable[key] = why_unreadable(error)
            if new is not None:
                return
        else:
            self.unreadable.pop(key, None)
        for listener, failed in self._looks:
            try:
                listener(old, new)
            except InvariantBroken:
                raise
            except Exception as error:  # noqa: BLE001  # the boundary: who looks is no part of what is done
                with suppress(Exception):
                    failed(error)

    def _change(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        self._hold(key, old, new)
        if new is None:  # a deletion is never rolled back: call all listeners
            return _tell(self._decides, old, new)
        told = 0
        try:
            for listener in self._decides:
                told += 1
                listener(old, new)
        except Exception:
            self._hold(key, new, old)
            _tell(self._decides[:told], new, old)
            raise
        return None

    def _hold(self, key: ObjectKey, old: T | None, new: T | None) -> None:
        """Replaces the old object by the new one, in the indexes too; changes nothing if an index function fails."""
        left: list[tuple[dict[Hashable, dict[ObjectKey, None]], Hashable]] = []
        found: list[tuple[dict[Hashable, dict[ObjectKey, None]], Hashable]] = []
        for item, entries in ((old, left), (new, found)):
            if item is not None:
                is_over = self._leaves_indexes is not None and self._leaves_indexes(item)
                for index, of in self._when_over if is_over else self._until_over:
                    entries.extend(zip(repeat(index), of(item)))
        for index, value in left:
            keys = index.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del index[value]
        if new is None:
            del self._objects[key]
            self._is_gone(key)
        else:
            self._objects[key] = new
        for index, value in found:
            index.setdefault(value, {})[key] = None


def _tell(listeners: Sequence[Listener[T]], old: T | None, new: T | None) -> None:
    """Calls all listeners, even if one fails."""
    if listeners:
        try:
            listeners[0](old, new)
        finally:
            _tell(listeners[1:], old, new)


def _note(news: dict[ObjectKey, T | None], item: T) -> None:
    """Remembers the newest version of each object since a list was requested. Versions known before do not count: after
    a restore from a backup they may be higher than any new one."""
    came = news.get(item.key)
    if came is None or came.version <= item.version:
        news[item.key] = item


class ByName(Mapping[str, T]):
    """The objects of a cluster-scoped kind by name: a live view of the cache."""

    def __init__(self, cache: Cache[T]) -> None:
        self._cache = cache

    def __getitem__(self, name: str) -> T:
        found = self._cache.get(ObjectKey("", name))
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (item.metadata.name for item in self._cache)

    def __len__(self) -> int:
        return len(self._cache)
