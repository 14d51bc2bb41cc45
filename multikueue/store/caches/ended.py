"""The finished workloads that still have a copy on their worker, in the order of their ends."""

from __future__ import annotations

from bisect import bisect_left, insort
from datetime import datetime

from multikueue.api.meta import ObjectKey

__all__ = ["EndedCopies"]

_End = tuple[datetime, ObjectKey]
_Place = tuple[str, str]


class EndedCopies:
    """Owner: the store; written by the reconcile of each workload. An index by worker and namespace, so that none is looked
    at to find those over a bound."""

    def __init__(self) -> None:
        self._places: dict[ObjectKey, tuple[_Place, _End]] = {}
        self._ends: dict[_Place, list[_End]] = {}

    def put(self, key: ObjectKey, worker: str, at: datetime) -> None:
        """The workload ended at that time, and its copy is on that worker."""
        self.remove(key)
        place, end = self._places[key] = (worker, key.namespace), (at, key)
        insort(self._ends.setdefault(place, []), end)

    def remove(self, key: ObjectKey) -> None:
        """The workload or its copy is gone."""
        known = self._places.pop(key, None)
        if known is None:
            return
        place, end = known
        ends = self._ends[place]
        del ends[bisect_left(ends, end)]
        if not ends:
            del self._ends[place]

    def is_among(self, key: ObjectKey, most: int) -> bool:
        """Whether fewer than `most` of its worker and namespace ended after it; true for one that is not known."""
        known = self._places.get(key)
        if known is None:
            return True
        place, end = known
        ends = self._ends[place]
        return len(ends) - bisect_left(ends, end) <= most

    def out_by(self, key: ObjectKey, most: int) -> ObjectKey | None:
        """The one that is not among `most` any more since `key` is known; None if all are."""
        if not self.is_among(key, most):
            return key
        place, _ = self._places.get(key, (None, None))
        ends = self._ends[place] if place is not None else []
        return ends[-most - 1][1] if len(ends) > most else None
