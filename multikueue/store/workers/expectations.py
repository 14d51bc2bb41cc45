"""Expectations of one worker: requests whose outcome its caches do not show yet, and workloads it cannot take now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from multikueue.api.meta import ObjectKey
from multikueue.dispatch.remote import Asked, Unfit

__all__ = ["AWAY_MEMORY", "CONFLICT_MEMORY", "Expectations"]

CONFLICT_MEMORY = timedelta(minutes=5)
"""How long a worker is skipped for a workload after a foreign object was found in the place of its copy or job."""

AWAY_MEMORY = timedelta(seconds=5)
"""How long a worker is skipped for a workload whose job could not be requested there (yet). By then it is known whether
the worker is away."""


class Expectations:
    """Owner: the worker's outbox. By workload: the job requested with unknown outcome, the time of the last live read
    of its job, the copy being created, which may exist before it is seen, and why the worker is skipped."""

    def __init__(self) -> None:
        self._asked: dict[ObjectKey, Asked] = {}
        self._looked: dict[ObjectKey, datetime] = {}
        self._creating: set[ObjectKey] = set()
        self._unfit: dict[ObjectKey, Unfit] = {}

    def __bool__(self) -> bool:
        """Whether something unseen may exist there."""
        return bool(self._asked or self._creating)

    def asked(self, key: ObjectKey) -> Asked | None:
        return self._asked.get(key)

    def awaited(self) -> set[ObjectKey]:
        """The workloads whose job was requested, with unknown outcome."""
        return set(self._asked)

    def ask(self, key: ObjectKey, asked: Asked) -> None:
        self._asked[key] = asked

    def answered(self, key: ObjectKey) -> None:
        """The outcome of the request is known."""
        self._asked.pop(key, None)

    def looked(self, key: ObjectKey) -> datetime | None:
        return self._looked.get(key)

    def look(self, key: ObjectKey, when: datetime) -> None:
        """Its job was read live from the worker at that time, and an answer came."""
        self._looked[key] = when

    def is_creating(self, key: ObjectKey) -> bool:
        return key in self._creating

    @contextmanager
    def creating(self, key: ObjectKey) -> Iterator[None]:
        """Marks the copy as being created meanwhile."""
        self._creating.add(key)
        try:
            yield
        finally:
            self._creating.discard(key)

    def unfit(self, key: ObjectKey, now: datetime) -> Unfit | None:
        found = self._unfit.get(key)
        if found is not None and now >= found.until:
            del self._unfit[key]
            return None
        return found

    def is_passed_over(self, key: ObjectKey) -> bool:
        """Whether the worker was found unfit for it, even if the time is over."""
        return key in self._unfit

    def pass_over(self, key: ObjectKey, unfit: Unfit) -> None:
        self._unfit[key] = unfit

    def forget(self, key: ObjectKey) -> None:
        """The workload is gone."""
        self._unfit.pop(key, None)
        self._looked.pop(key, None)

    def clear(self) -> None:
        """The name stands for another cluster now. Creations under way stay: their context ends them."""
        self._asked.clear()
        self._looked.clear()
        self._unfit.clear()
