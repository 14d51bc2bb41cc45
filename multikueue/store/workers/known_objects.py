"""Which objects of a worker belong to something here: its caches keep those, and of the others a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import Workload, prebuilt_workload
from multikueue.api.meta import ObjectKey, controller_of
from multikueue.store.caches.cache import ignore
from multikueue.store.caches.unknown_objects import UnknownObjects, UnknownObjectsRoom
from multikueue.store.workers.expectations import Expectations

__all__ = ["Known", "KnownObjects", "prebuilt_key"]


class Known(Protocol):
    """The owners that objects on a worker may belong to."""

    def has_workload(self, key: ObjectKey, /) -> bool: ...
    def has_job(self, job: AnyJob, /) -> bool: ...


class KnownObjects:
    """Owner: a worker's view. Without `known` everything is kept: a worker that is looked at alone.

    The worker's watches are asked by `list_anew` for lists, when objects left out may be cached.
    """

    __slots__ = ("_expectations", "_known", "_room", "list_anew")

    def __init__(self, known: Known | None, expectations: Expectations) -> None:
        self._known, self._expectations, self._room = known, expectations, UnknownObjectsRoom()
        self.list_anew: Callable[[], None] = ignore

    def limit_of_copies(self) -> UnknownObjects[Workload] | None:
        """The limit of copies that nobody knows."""
        return self._limit(lambda copy: self._has_workload(copy.key), lambda copy: (copy.key,))

    def limit_of_jobs(self) -> UnknownObjects[Any] | None:
        """The limit of jobs of one kind that nobody knows."""
        return self._limit(self._has_job, _names_of_job)

    def _limit(
        self, is_known: Callable[[Any], bool], names: Callable[[Any], Iterable[ObjectKey]]
    ) -> UnknownObjects[Any] | None:
        if self._known is None:
            return None
        return UnknownObjects(is_known, names, lambda: self.list_anew(), is_swept=_is_swept, room=self._room)

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
