"""The nesting of jobs on the manager cluster, by controller references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.meta import OwnerReference, controller_of
from multikueue.jobs.framework.nesting import MOST_HOPS, Ancestor, Nested, is_whole, nested
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.store.caches.jobs import JobCaches

__all__ = ["CONTROLLER", "Nesting", "controllers"]

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
