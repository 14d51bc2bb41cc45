"""The jobs of one cluster: a cache per kind that the cluster has.

On the manager cluster also their nesting by controller references, and the runtimes that some kinds name.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, CustomJob, JobKey
from multikueue.api.jobs.pod import Pod
from multikueue.api.kind import Kind
from multikueue.api.kinds import POD_GROUPS, PODS
from multikueue.api.meta import ObjectKey, OwnerReference, controller_of
from multikueue.api.values.foreign import answer_or
from multikueue.jobs.framework.adapter import Adapter
from multikueue.jobs.framework.nesting import MOST_HOPS, Ancestor, Nested, is_whole, nested
from multikueue.jobs.framework.workloads import by_label
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.store.caches.cache import Cache, Failed, Indexer, Listener, ignore
from multikueue.store.caches.groups import Groups, group_key
from multikueue.store.caches.packing import never
from multikueue.store.caches.unknown_objects import UnknownObjects

__all__ = ["CONTROLLER", "JobCaches", "Nesting", "Runtimes", "controllers"]

Changed = Callable[[Adapter, AnyJob | None, AnyJob | None], None]
Opened = Callable[[Kind[Any], Cache[Any]], None]


def _none() -> None:
    """No limit of unknown objects."""


def _has_ended(adapter: Adapter, job: AnyJob) -> bool:
    """Not if its status is too malformed to say."""
    return answer_or(lambda: adapter.finished(job) is not None, otherwise=False)


class _LabelsOnly(Cache[AnyJob]):
    """Jobs without the annotations that name their Workloads and groups, so that these are not seen."""

    def upsert(self, item: AnyJob) -> None:
        super().upsert(by_label(item))

    def _take(self, item: AnyJob) -> None:
        super()._take(by_label(item))


class JobCaches:
    """Caches of jobs by kind. Batch Jobs are open from the start, other kinds once opened.

    `on_change` gets each real change, with the adapter of the kind, as in `Cache`. Changes of a group of Pods arrive
    when the group is read. `are_copies`: the jobs of a worker, whose annotations always count. `unknown` makes the limit of
    a new cache, if it has one. With `should_pack`, jobs that have ended are kept packed, but for Pods: their group holds
    them anyway, and is made of all of them each time one changes.
    """

    def __init__(
        self,
        adapters: Adapters,
        on_change: Changed = ignore,
        *,
        indexes: Mapping[str, Indexer[AnyJob]] | None = None,
        are_copies: bool = False,
        unknown: Callable[[], UnknownObjects[Any] | None] = _none,
        should_pack: bool = False,
    ) -> None:
        self._unknown, self._should_pack = unknown, should_pack
        self._adapters, self._on_change, self._copies = adapters, on_change, are_copies
        self._indexes: dict[str, Indexer[Any]] = dict(indexes or {})
        self._caches: dict[str, Cache[Any]] = {}
        self.is_on: Callable[[str], bool] = self._caches.__contains__
        """Whether the kind of that name is open."""
        self._followers: list[Listener[AnyJob]] = []
        self._observers: list[tuple[Listener[AnyJob], Failed]] = []
        self._waiting: list[Opened] = []
        for adapter in adapters:
            if not adapter.kind.is_optional:
                self.open(adapter.kind)

    def __iter__(self) -> Iterator[AnyJob]:
        return chain.from_iterable(tuple(self._caches.values()))

    def __len__(self) -> int:
        return sum(map(len, self._caches.values()))

    def all_keys(self) -> tuple[JobKey, ...]:
        """The keys of all jobs, for which none is unpacked."""
        return tuple(JobKey(kind, *key) for kind, cache in tuple(self._caches.items()) for key in cache.all_keys())

    @property
    def kinds(self) -> tuple[Kind[Any], ...]:
        """The open kinds, without groups of Pods, which no API has."""
        return tuple(self._adapters.named(name).kind for name in self._caches if name != POD_GROUPS.name)

    def open(self, kind: Kind[Any]) -> Cache[Any]:
        """The cache of a kind, open from now on."""
        found = self._caches.get(kind.name)
        if found is not None:
            return found
        indexes = self._indexes | ({"group": group_key} if kind is PODS else {})
        on_change = partial(self._on_change, self._adapters.named(kind.name))
        should_read_all = self._copies or self._adapters.has_identifier_annotations
        cache_type: type[Cache[Any]] = Cache if should_read_all else _LabelsOnly
        is_over = (
            partial(_has_ended, self._adapters.named(kind.name)) if self._should_pack and kind is not PODS else never
        )
        cache = cache_type(on_change, indexes=indexes, unknown=self._unknown(), is_over=is_over)
        self._tell(cache)
        self._caches[kind.name] = cache
        if kind is PODS:
            self._gather(cache)
        for opened in self._waiting:
            opened(kind, cache)
        return cache

    def _gather(self, pods: Cache[Pod]) -> None:
        """Opens the groups of these Pods, which are jobs too."""
        groups = Groups(
            pods,
            partial(self._on_change, self._adapters.named(POD_GROUPS.name)),
            are_copies=self._copies,
            indexes=self._indexes,
        )
        self._tell(groups)
        self._caches[POD_GROUPS.name] = groups

    def _tell(self, cache: Cache[Any]) -> None:
        """Has the new cache notify all listeners."""
        for listener in self._followers:
            cache.follow(listener)
        for listener, failed in self._observers:
            cache.observe(listener, failed)

    @contextmanager
    def telling(self, opened: Opened) -> Iterator[None]:
        """Calls `opened` for each kind opened meanwhile."""
        self._waiting.append(opened)
        try:
            yield
        finally:
            self._waiting.remove(opened)

    def of(self, kind: Kind[Any]) -> Cache[Any]:
        """The cache of a kind; KeyError if it is not open."""
        return self._caches[kind.name]

    def follow(self, listener: Listener[AnyJob]) -> None:
        """Call `listener` with changes of jobs of all kinds, as `Cache.follow` does."""
        self._followers.append(listener)
        for cache in self._caches.values():
            cache.follow(listener)

    def observe(self, listener: Listener[AnyJob], failed: Failed = ignore) -> None:
        """Call `listener` with changes of jobs of all kinds, as `Cache.observe` does."""
        self._observers.append((listener, failed))
        for cache in self._caches.values():
            cache.observe(listener, failed)

    def get(self, key: JobKey) -> AnyJob | None:
        cache = self._caches.get(key.kind)
        return cache.get(key.object) if cache is not None else None

    def by(self, index: str, value: Hashable) -> Iterator[AnyJob]:
        """The jobs of any kind with this index value."""
        for cache in self._caches.values():
            yield from cache.by(index, value)

    def first(self, index: str, value: ObjectKey) -> AnyJob | None:
        """The first job with this index value."""
        for cache in self._caches.values():
            keys = cache.keys_by(index, value)
            if keys:
                return cache.get(keys[0])
        return None

    def upsert(self, job: AnyJob) -> None:
        self.of(self._adapters.of(job).kind).upsert(job)

    def remove(self, job: AnyJob) -> None:
        self.of(self._adapters.of(job).kind).remove(job)

    def has_unreadable(self, key: JobKey) -> bool:
        """Whether the job exists and cannot be decoded."""
        cache = self._caches.get(key.kind)
        return cache is not None and bool(cache.unreadable) and key.object in cache.unreadable

    def may_have_left_out(self, names: Iterable[ObjectKey]) -> bool:
        """As `Cache.may_have_left_out`, of any kind."""
        return any(cache.may_have_left_out(names) for cache in self._caches.values())

    def forget(self) -> None:
        """Forget all jobs, as if deleted."""
        for cache in self._caches.values():
            cache.replace(())


class Runtimes:
    """The runtimes on the manager cluster, by kind. When one changes, `touch` is called with each job that names it."""

    def __init__(self, adapters: Adapters, jobs: JobCaches, touch: Callable[[JobKey], None]) -> None:
        self._adapters, self._jobs, self._touch = adapters, jobs, touch
        self._caches: dict[str, Cache[Any]] = {
            kind.name: Cache(partial(self._changed, kind.name))
            for adapter in adapters
            for kind in (adapter.runtimes.kinds if adapter.runtimes else ())
        }

    def of(self, kind: Kind[Any]) -> Cache[Any]:
        return self._caches[kind.name]

    def completed(self, job: AnyJob) -> AnyJob:
        """The job with the runtime it names, if its kind has runtimes and this one exists."""
        if not isinstance(job, CustomJob):
            return job
        runtimes = self._adapters.of(job).runtimes
        if runtimes is None:
            return job
        key = runtimes.key(job)
        found = self._caches[key.kind].get(key.object) if key.kind in self._caches else None
        return msgspec.structs.replace(job, runtime=found.spec) if found is not None else job

    def _changed(self, kind: str, old: AnyJob | None, new: AnyJob | None) -> None:
        seen = new or old
        assert seen is not None
        key = JobKey(kind, *seen.key)
        for adapter in self._adapters:
            if adapter.runtimes is None or adapter.kind not in self._jobs.kinds:
                continue
            for job in self._jobs.of(adapter.kind):
                if adapter.runtimes.key(job) == key:
                    self._touch(JobKey(adapter.kind.name, *job.key))


CONTROLLER = "controller"
"""The index of `controllers` in caches of jobs."""


def controllers(job: AnyJob) -> Iterable[str]:
    """The UID of the job's controller, if any."""
    owner = controller_of(job.metadata)
    return (owner.uid,) if owner is not None else ()


class Nesting:
    """Answers from `jobs`, which have the index `CONTROLLER`. `is_admitted`: whether a job's own Workload is admitted."""

    def __init__(self, adapters: Adapters, jobs: JobCaches, is_admitted: Callable[[AnyJob], bool]) -> None:
        self._adapters, self._jobs, self._admitted = adapters, jobs, is_admitted

    def of(self, job: AnyJob) -> Nested | None:
        """The state of the owner in a queue that a job is nested in; None if there is none."""
        if not is_whole(self._adapters.of(job)):
            return None
        return self.under(job.metadata.namespace, controller_of(job.metadata))

    def under(self, namespace: str, controller: OwnerReference | None) -> Nested | None:
        """As `of`, for a job in the namespace that has this controller."""
        return nested(self._line(namespace, controller))

    def is_stale(self, namespace: str, controller: OwnerReference) -> bool:
        """Whether the job of the controller's name is another one: it owns nothing that names it so (kueue#14658)."""
        adapter = self._adapters.owner(controller.api_version, controller.kind)
        job = self._jobs.get(JobKey(adapter.kind.name, namespace, controller.name)) if adapter is not None else None
        return job is not None and job.metadata.uid != controller.uid

    def below(self, uid: str) -> Iterator[JobKey]:
        """The jobs nested below the one with this UID, at most `MOST_HOPS` levels deep."""
        level = [uid]
        for _ in range(MOST_HOPS):
            found = [job for each in level for job in self._jobs.by(CONTROLLER, each)]
            whole = [(job, adapter) for job in found if is_whole(adapter := self._adapters.of(job))]
            yield from (JobKey(adapter.kind.name, *job.key) for job, adapter in whole)
            level = [job.metadata.uid for job, _ in whole]
            if not level:
                return

    def _line(self, namespace: str, controller: OwnerReference | None) -> Iterator[Ancestor | None]:
        while controller is not None:
            adapter = self._adapters.owner(controller.api_version, controller.kind)
            if adapter is None or not is_whole(adapter):
                return
            job = self._jobs.get(JobKey(adapter.kind.name, namespace, controller.name))
            if job is None:
                yield None
                return
            if job.metadata.uid != controller.uid:
                return
            yield Ancestor(is_in_queue=bool(adapter.queue_name(job)), is_admitted=self._admitted(job))
            controller = controller_of(job.metadata)
