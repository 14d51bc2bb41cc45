"""Parts of objects that are carried as raw JSON and read by many: each text is decoded once while it is in use."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from multikueue.api.meta import decoder

__all__ = ["Decoded"]

T = TypeVar("T")


class Decoded(Generic[T]):
    """Values of one type by the identity of their raw text: the latest ones, of so many bytes that the large objects of
    a tenant take little memory when they are gone. The text is kept beside its value, so that no other text can have
    its identity.
    """

    def __init__(self, kind: type[T], *, most: int, most_bytes: int) -> None:
        self._kind = kind
        self._most, self._most_bytes = most, most_bytes
        self._known: dict[int, tuple[msgspec.Raw, T]] = {}
        self._bytes = 0

    def of(self, raw: msgspec.Raw) -> T:
        """Raises msgspec.ValidationError for a text that is no such value."""
        known = self._known.get(id(raw))
        if known is not None:
            return known[1]
        value = decoder(self._kind)(raw)
        self._known[id(raw)] = raw, value
        self._bytes += len(raw)
        while len(self._known) > self._most or self._bytes > self._most_bytes:
            oldest, _ = self._known.pop(next(iter(self._known)))
            self._bytes -= len(oldest)
        return value
