"""The runtimes that the jobs of some kinds name, and that describe their pods."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob, CustomJob, JobKey
from multikueue.api.kind import Kind
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.store.caches.cache import Cache
from multikueue.store.caches.jobs import JobCaches

__all__ = ["Runtimes"]


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
        runtimes = self._adapters.of(job).runtimes
        if runtimes is None or not isinstance(job, CustomJob):
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
