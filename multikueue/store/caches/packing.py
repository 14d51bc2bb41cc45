"""Objects that nothing more is expected of, kept as compressed text: they take next to nothing, and lose nothing."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, TypeVar

import msgspec
from msgspec.structs import astuple

from multikueue.api.meta import Object, ObjectKey, decoder, encode

__all__ = ["Packing", "PackingMap", "WholeMap", "never"]

T = TypeVar("T", bound=Object)

_LONGEST = 2**13
"""Bytes of an object that may be packed. Nearly all have less, and a list with nothing but larger ones would take seconds."""

_MOST_BRACKETS = 500
"""An object with more may be nested too deeply to be decoded from a deeper call than it was at first."""

NEWEST = 256
"""How many objects that were over last are still whole: what has just ended is asked for until all of it is tidied up."""

_FASTEST, _WINDOW, _MEMORY = 1, 14, 7
"""zlib's level, the text it looks back on (16 KiB) and what it works in: with more, it spends most of its time on clearing
that."""


class Packing(Generic[T]):
    """Packs and unpacks the objects of one collection. The first one is the pattern of all: what others share with it,
    such as the template of a team's jobs, need not be in their text."""

    def __init__(self) -> None:
        self._kind: type[T] | None = None
        self._pattern = b""
        self._latest: tuple[T, bytes] | None = None

    def text_of(self, item: T) -> bytes | None:
        """The text that this very object was unpacked from, if it was the latest."""
        return self._latest[1] if self._latest is not None and self._latest[0] is item else None

    def packed(self, item: T) -> bytes | None:
        """The object as text; None if it is no object to be packed."""
        if any(isinstance(each, msgspec.Raw) and len(each) > _LONGEST for each in astuple(item)):
            return None
        text = encode(item)
        if len(text) > _LONGEST or text.count(b"{") + text.count(b"[") > _MOST_BRACKETS:
            return None
        if self._kind is None:
            self._kind, self._pattern = type(item), text[-(2**_WINDOW) :]
        if type(item) is not self._kind:
            return None
        how = zlib.compressobj(_FASTEST, zlib.DEFLATED, -_WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, self._pattern)
        return how.compress(text) + how.flush()

    def unpacked(self, text: bytes) -> T:
        """An object equal to the one that was packed."""
        assert self._kind is not None
        item = decoder(self._kind)(zlib.decompressobj(-_WINDOW, self._pattern).decompress(text))
        self._latest = item, text
        return item


def never(_item: object) -> bool:
    """No object is over."""
    return False


class WholeMap(dict[ObjectKey, T]):
    """Objects by key, none of which is ever packed: what is asked most often costs no call in Python."""

    find = dict.get

    def all_now(self) -> Iterator[T]:
        """All objects that there are now."""
        return iter(tuple(self.values()))

    going_on = all_now

    def another(self) -> WholeMap[T]:
        return WholeMap()


class PackingMap(MutableMapping[ObjectKey, T]):
    """Objects by key. One that `is_over` is kept packed, but for the newest, and unpacked for each question: few ask, and
    nothing of it is lost. Who shares a `packing` can take packed objects over from each other at little cost."""

    def __init__(self, is_over: Callable[[T], bool], packing: Packing[T] | None = None) -> None:
        self._is_over = is_over
        self._packing: Packing[T] = packing or Packing()
        self._items: dict[ObjectKey, T | bytes] = {}
        self._newest: dict[ObjectKey, None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._items)

    def __getitem__(self, key: ObjectKey) -> T:
        return self._whole(self._items[key])

    def __setitem__(self, key: ObjectKey, item: T) -> None:
        self._newest.pop(key, None)
        if not self._is_over(item):
            self._items[key] = item
        elif text := self._packing.text_of(item):
            self._items[key] = text
        else:
            self._items[key], self._newest[key] = item, None
            if len(self._newest) > NEWEST:
                self._pack(next(iter(self._newest)))

    def _pack(self, key: ObjectKey) -> None:
        del self._newest[key]
        item = self[key]
        self._items[key] = self._packing.packed(item) or item

    def __delitem__(self, key: ObjectKey) -> None:
        self._newest.pop(key, None)
        del self._items[key]

    def clear(self) -> None:
        self._items.clear()
        self._newest.clear()

    def find(self, key: ObjectKey) -> T | None:
        found = self._items.get(key)
        return self._packing.unpacked(found) if isinstance(found, bytes) else found

    def another(self) -> PackingMap[T]:
        """An empty one that shares what this one packs with."""
        return PackingMap(self._is_over, self._packing)

    def all_now(self) -> Iterator[T]:
        """All objects that there are now, each unpacked in its turn."""
        return map(self._whole, tuple(self._items.values()))

    def going_on(self) -> Iterator[T]:
        """The objects that are not packed."""
        return (item for item in tuple(self._items.values()) if not isinstance(item, bytes))

    def _whole(self, kept: T | bytes) -> T:
        return self._packing.unpacked(kept) if isinstance(kept, bytes) else kept
