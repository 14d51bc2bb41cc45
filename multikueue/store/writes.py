"""Writes under way, so that a reconcile is not woken by what it wrote itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from multikueue.api.job import JobKey
from multikueue.api.meta import Object, ObjectKey

__all__ = ["Writes"]


class Writes:
    """By key of the reconcile that writes: the versions that were seen since its request went out.

    The watch often brings a write before its answer does. Which of the versions is the written one only the answer tells, so
    the reconcile is woken after it, if there was any other.
    """

    def __init__(self) -> None:
        self._seen: dict[ObjectKey | JobKey, set[str]] = {}

    @contextmanager
    def under_way(self, key: ObjectKey | JobKey, wake: Callable[[], None]) -> Iterator[Callable[[Object], None]]:
        """Meanwhile `holds_back` takes the news for `key`; what is yielded is told the answer. `wake` is called at the end if
        there was news beside the answer, or no answer came."""
        self._seen[key] = seen = set[str]()
        try:
            yield lambda answer: seen.discard(answer.metadata.resource_version)
        finally:
            del self._seen[key]
            if seen:
                wake()

    def holds_back(self, key: ObjectKey | JobKey, changed: Object) -> bool:
        """Whether the reconcile of `key` writes just now, so that it is woken for this version later, if at all."""
        seen = self._seen.get(key)
        if seen is not None:
            seen.add(changed.metadata.resource_version)
        return seen is not None
