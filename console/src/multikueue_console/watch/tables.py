"""Sinks of reflectors that keep of each object what is needed, and tell what has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Generic, TypeVar, cast

from multikueue.api.meta import Object, ObjectKey

__all__ = ["KeptTable"]

T = TypeVar("T", bound=Object)
V = TypeVar("V")


class _Values(MutableMapping[ObjectKey, Any]):
    """The objects of a list, of which only the values are kept: the objects of a whole list would take ten times the memory."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make = make
        self._values: dict[ObjectKey, Any] = {}

    def __setitem__(self, key: ObjectKey, item: Any) -> None:
        self._values[key] = self._make(item)

    def __getitem__(self, key: ObjectKey) -> Any:
        return self._values[key]

    def __delitem__(self, key: ObjectKey) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class KeptTable(Generic[T, V]):
    """The values of one kind's objects, by key; `make` computes the value of an object. `tell` is called with the key, the
    value before and the value now, None for none, once they differ. Several reflectors may fill it, one for each namespace."""

    def __init__(self, make: Callable[[T], V], tell: Callable[[ObjectKey, V | None, V | None], None]) -> None:
        self.unreadable: dict[ObjectKey, str] = {}
        self.values: dict[ObjectKey, V] = {}
        self._make, self._tell = make, tell

    def __len__(self) -> int:
        return len(self.values)

    def get(self, _key: ObjectKey, /) -> T | None:
        return None

    def newest(self, _namespace: str, /) -> int:
        return 0

    def expect_list(self, _namespace: str, /) -> None:
        """Nothing to do: no other source changes these objects."""

    def gathering(self) -> MutableMapping[ObjectKey, T]:
        return _Values(self._make)

    def replacing(self, items: Mapping[ObjectKey, T], _version: int, namespace: str, /) -> Iterator[None]:
        """`items`: what `gathering` has gathered. An object that cannot be read keeps its last value."""
        known = [key for key in self.values if namespace in ("", key.namespace)]
        for key in known:
            if key not in items and key not in self.unreadable:
                self._drop(key)
        for count, (key, value) in enumerate(items.items(), 1):
            self._put(key, cast("V", value))
            if count % 256 == 0:
                yield

    def should_keep(self, _item: T, /) -> bool:
        return True

    def upsert(self, item: T, /) -> None:
        self._put(item.key, self._make(item))

    def remove(self, item: T, /) -> None:
        self._drop(item.key)

    def _put(self, key: ObjectKey, value: V) -> None:
        before = self.values.get(key)
        if before != value:
            self.values[key] = value
            self._tell(key, before, value)

    def _drop(self, key: ObjectKey) -> None:
        before = self.values.pop(key, None)
        if before is not None:
            self._tell(key, before, None)
