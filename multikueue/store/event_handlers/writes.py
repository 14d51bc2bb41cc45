"""Writes under way, so that no reconcile is woken by its own write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from multikueue.api.jobs.job import JobKey
from multikueue.api.meta import Object, ObjectKey

__all__ = ["Writes"]


class Writes:
    """The versions seen since the request went out, by key of the writing reconcile.

    The watch often brings a write before its answer does. Only the answer says which version is the written one, so the
    reconcile is woken after it, if there was any other.
    """

    def __init__(self) -> None:
        self._seen: dict[ObjectKey | JobKey, set[str]] = {}

    @contextmanager
    def under_way(self, key: ObjectKey | JobKey, wake: Callable[[], None]) -> Iterator[Callable[[Object], None]]:
        """Meanwhile `should_hold_back` collects changes of `key`; the yielded function takes the answer. `wake` is called at
        the end if there was another change, or no answer came."""
        self._seen[key] = seen = set[str]()
        try:
            yield lambda answer: seen.discard(answer.metadata.resource_version)
        finally:
            del self._seen[key]
            if seen:
                wake()

    def should_hold_back(self, key: ObjectKey | JobKey, changed: Object) -> bool:
        """Whether the reconcile of `key` has a write under way, so that this version wakes it later, if at all."""
        seen = self._seen.get(key)
        if seen is not None:
            seen.add(changed.metadata.resource_version)
        return seen is not None
