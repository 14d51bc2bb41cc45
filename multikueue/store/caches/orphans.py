"""Objects on a worker that belong to nothing here: a few at a time are cached, to be swept."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from multikueue.api.meta import Object, ObjectKey

__all__ = ["MOST", "Orphans"]

T = TypeVar("T", bound=Object)

_Names = dict[str, set[int]]
"""Hashes of names, by namespace."""

MOST = 500
"""Objects of one kind on one worker. Each takes as much memory as any other, and a worker may show 200,000 of them."""


class Orphans(Generic[T]):
    """Owner: a cache of a worker. Of the objects that nobody knows, it admits those that come while there are fewer
    than MOST.

    `is_known` says whether an object belongs to something here: such an object is always admitted. `names` are the keys
    by which a workload finds an object as its own. `has_room` is called once half of those admitted are gone: it is
    time for another list.

    The names of objects that were not admitted are noted, as hashes, which take a fourth of their memory: a name too
    many costs one read. There may be some too many until the next list, never too few.
    """

    def __init__(
        self, is_known: Callable[[T], bool], names: Callable[[T], Iterable[ObjectKey]], has_room: Callable[[], None]
    ) -> None:
        self._left_out: _Names = {}
        self._is_known, self._names, self._has_room = is_known, names, has_room
        self._admitted: set[ObjectKey] = set()
        self._listed: dict[str, _Names] = {}
        """The names left out since each list under way was requested, by its namespace."""

    def may_have_left_out(self, names: Iterable[ObjectKey]) -> bool:
        """Whether an object of one of these names may exist that was not admitted."""
        return any(hash(key.name) in self._left_out.get(key.namespace, ()) for key in names)

    def admit(self, item: T) -> bool:
        """Whether to cache an object that is not cached. If not, its names are noted."""
        if item.key in self._admitted or self._is_known(item):
            return True
        if len(self._admitted) < MOST:
            self._admitted.add(item.key)
            return True
        under_way = {"", item.metadata.namespace} & self._listed.keys()
        for noted in (self._left_out, *(self._listed[namespace] for namespace in under_way)):
            for key in self._names(item):
                noted.setdefault(key.namespace, set()).add(hash(key.name))
        return False

    def gone(self, key: ObjectKey) -> None:
        """No object of that key is cached any more."""
        if key in self._admitted:
            self._admitted.remove(key)
            if len(self._admitted) == MOST // 2:
                self._has_room()

    def expect_list(self, namespace: str, get: Callable[[ObjectKey], T | None]) -> None:
        """A list is requested. Those admitted that never came, or that are known by now, take no room any more."""
        self._listed[namespace] = {}
        before = len(self._admitted)
        cached = [item for key in self._admitted if (item := get(key)) is not None]
        self._admitted = {item.key for item in cached if not self._is_known(item)}
        if len(self._admitted) <= MOST // 2 < before:
            self._has_room()

    def listed(self, namespace: str) -> None:
        """The list is applied: nothing else is left out of its namespace."""
        others = {place: names for place, names in self._left_out.items() if namespace not in ("", place)}
        self._left_out = others | self._listed.pop(namespace, {})
