"""Objects on a worker that belong to nothing here: a few at a time are cached, to be swept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import msgspec

from multikueue.api.meta import Object, ObjectKey

__all__ = ["MOST", "UnknownObjects", "UnknownObjectsRoom"]

T = TypeVar("T", bound=Object)

_Names = dict[str, set[int]]
"""Hashes of names, by namespace."""

MOST = 500
"""Objects of one kind on one worker, which may show 200,000 of them."""

MOST_BYTES = 4 * 2**20
"""Bytes of them, as JSON, of all kinds on one worker: an object may have 1.5 MiB. One is admitted whatever its size."""


class UnknownObjectsRoom:
    """The bytes that the unknown objects of one worker take, of all kinds together, and whether any was ever left out:
    of nearly all workers none is."""

    def __init__(self) -> None:
        self.used, self.has_left_out = 0, False

    def has_place_for(self, size: int) -> bool:
        return not self.used or self.used + size <= MOST_BYTES


class UnknownObjects(Generic[T]):
    """Owner: a cache of a worker. Of unknown objects it admits those that come while there are fewer
    than MOST, and fewer bytes than MOST_BYTES in the `room` of the worker.

    `is_known` says whether an object belongs to something here: such an object is always admitted. `is_swept` says whether
    the sweep removes an unknown object; another one is not admitted. `names` are the keys by which a workload
    finds an object as its own. `has_room` is called once half of those admitted are gone: it is time for another list.

    The names of objects that were not admitted are noted, as hashes, which take a fourth of their memory: a name too
    many costs one read. There may be some too many until the next list, never too few.
    """

    def __init__(
        self,
        is_known: Callable[[T], bool],
        names: Callable[[T], Iterable[ObjectKey]],
        has_room: Callable[[], None],
        *,
        is_swept: Callable[[T], bool],
        room: UnknownObjectsRoom,
    ) -> None:
        self._left_out: _Names = {}
        self._is_known, self._names, self._has_room, self._is_swept = is_known, names, has_room, is_swept
        self._room = room
        self._admitted: dict[ObjectKey, int] = {}
        """With their sizes in bytes."""
        self._listed: dict[str, _Names] = {}
        """The names left out since each list under way was requested, by its namespace."""

    def may_have_left_out(self, names: Iterable[ObjectKey]) -> bool:
        """Whether an object of one of these names may exist that was not admitted."""
        return any(hash(key.name) in self._left_out.get(key.namespace, ()) for key in names)

    def has(self, key: ObjectKey) -> bool:
        """Whether the cached object of that key is one that was admitted, though unknown."""
        return key in self._admitted

    def admit(self, item: T) -> bool:
        """Whether to cache this version of an object that is not cached, or that was admitted. If not, its names are noted."""
        if self._is_known(item):
            return True
        had = self._give_back(item.key)
        if self._is_swept(item) and (had or len(self._admitted) < MOST):
            size = len(msgspec.json.encode(item))
            if self._room.has_place_for(size):
                self._admitted[item.key] = size
                self._room.used += size
                return True
        self._room.has_left_out = True
        under_way = {"", item.metadata.namespace} & self._listed.keys()
        for noted in (self._left_out, *(self._listed[namespace] for namespace in under_way)):
            for key in self._names(item):
                noted.setdefault(key.namespace, set()).add(hash(key.name))
        return False

    def gone(self, key: ObjectKey) -> None:
        """No object of that key is cached any more."""
        many, full = len(self._admitted), self._room.used
        if self._give_back(key) and (
            len(self._admitted) == MOST // 2 < many or self._room.used <= MOST_BYTES // 2 < full
        ):
            self._has_room()

    def _give_back(self, key: ObjectKey) -> bool:
        """Takes back what was admitted of that key, if anything."""
        size = self._admitted.pop(key, 0)
        self._room.used -= size
        return size > 0

    def expect_list(self, namespace: str, get: Callable[[ObjectKey], T | None]) -> None:
        """A list is requested. Those admitted that never came, or that are known by now, take no room any more."""
        self._listed[namespace] = {}
        many, full = len(self._admitted), self._room.used
        for key in tuple(self._admitted):
            item = get(key)
            if item is None or self._is_known(item):
                self._give_back(key)
        if len(self._admitted) <= MOST // 2 < many or self._room.used <= MOST_BYTES // 2 < full:
            self._has_room()

    def listed(self, namespace: str) -> None:
        """The list is applied: nothing else is left out of its namespace."""
        others = {place: names for place, names in self._left_out.items() if namespace not in ("", place)}
        self._left_out = others | self._listed.pop(namespace, {})
