"""Which objects of a worker belong to something here: its caches keep those, and of the others a few at a time.

And its expectations: requests whose outcome the caches do not show yet, and workloads it cannot take now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Protocol

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload, prebuilt_workload
from multikueue.api.meta import ObjectKey, controller_of
from multikueue.dispatch.remote import Asked, Unfit
from multikueue.store.caches.cache import ignore
from multikueue.store.caches.unknown_objects import UnknownObjects, UnknownObjectsRoom

__all__ = ["AWAY_MEMORY", "CONFLICT_MEMORY", "Expectations", "Known", "KnownObjects", "prebuilt_key"]

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

    def about(self, key: ObjectKey) -> tuple[Asked | None, datetime | None, bool]:
        """What was asked, when it was read, and whether the worker was found unfit for it, even if the time is over."""
        return self._asked.get(key), self._looked.get(key), key in self._unfit

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


class Known(Protocol):
    """The owners that objects on a worker may belong to."""

    def has_workload(self, key: ObjectKey, /) -> bool: ...
    def has_job(self, job: AnyJob, /) -> bool: ...


class KnownObjects:
    """Owner: a worker's view. Without `known` everything is kept: a worker that is looked at alone.

    The worker's watches are asked by `list_anew` for lists, when objects left out may be cached.
    """

    __slots__ = ("_expectations", "_known", "list_anew", "room")

    def __init__(self, known: Known | None, expectations: Expectations) -> None:
        self._known, self._expectations, self.room = known, expectations, UnknownObjectsRoom()
        self.list_anew: Callable[[], None] = ignore

    def limit_of_copies(self) -> UnknownObjects[Workload] | None:
        """The limit of unknown copies."""
        return self._limit(lambda copy: self._has_workload(copy.key), lambda copy: (copy.key,))

    def limit_of_jobs(self) -> UnknownObjects[Any] | None:
        """The limit of unknown jobs of one kind."""
        return self._limit(self._has_job, _names_of_job)

    def _limit(
        self, is_known: Callable[[Any], bool], names: Callable[[Any], Iterable[ObjectKey]]
    ) -> UnknownObjects[Any] | None:
        if self._known is None:
            return None
        return UnknownObjects(is_known, names, lambda: self.list_anew(), is_swept=_is_swept, room=self.room)

    def _has_job(self, job: AnyJob) -> bool:
        assert self._known is not None
        return any(map(self._has_workload, prebuilt_key(job))) or self._known.has_job(job)

    def _has_workload(self, key: ObjectKey) -> bool:
        """Also if it was requested, and is not seen yet."""
        assert self._known is not None
        expected = self._expectations.asked(key) is not None or self._expectations.is_creating(key)
        return expected or self._known.has_workload(key)


def prebuilt_key(job: AnyJob) -> Iterable[ObjectKey]:
    """The workload a remote job belongs to. A job with a controller has none: a controller may copy all labels and annotations,
    as KubeRay does from a RayJob to its RayCluster. Objects of ours have no controller."""
    name = "" if controller_of(job.metadata) is not None else prebuilt_workload(job.metadata)
    return (ObjectKey(job.metadata.namespace, name),) if name else ()


def _names_of_job(job: AnyJob) -> Iterable[ObjectKey]:
    """Its own key too: an elastic job is marked with an earlier slice for a while."""
    return (job.key, *prebuilt_key(job))


def _is_swept(item: Workload | AnyJob) -> bool:
    """Whether `WorkerView.held` names it, so that the sweep finds it. A job without a workload is left to its maker."""
    return isinstance(item, Workload) or any(prebuilt_key(item))
