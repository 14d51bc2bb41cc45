"""A cache of values derived from JSON objects.

Lookups go by identity for speed, and by content, as clusters share most objects.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

__all__ = ["Remembered"]

T = TypeVar("T")

_MOST = 1024


class Remembered(Generic[T]):
    """A cached function of immutable JSON objects, with bounded memory. Equal objects share one result."""

    def __init__(self, make: Callable[[Mapping[str, Any]], T]) -> None:
        self._make = make
        self._by_identity: OrderedDict[int, tuple[Mapping[str, Any], T]] = OrderedDict()
        self._by_content: OrderedDict[bytes, T] = OrderedDict()

    def __call__(self, source: Mapping[str, Any]) -> T:
        known = self._by_identity.get(id(source))
        if known is not None:
            return known[1]
        made = self._of_content(source)
        self._by_identity[id(source)] = source, made  # holds the source, so that its id is not reused
        if len(self._by_identity) > _MOST:
            self._by_identity.popitem(last=False)
        return made

    def _of_content(self, source: Mapping[str, Any]) -> T:
        content = msgspec.json.encode(source)
        if content not in self._by_content:
            self._by_content[content] = self._make(source)
            if len(self._by_content) > _MOST:
                self._by_content.popitem(last=False)
        return self._by_content[content]
