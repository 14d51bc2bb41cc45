"""The default adapter, for every kind that does not override it (contract 1.6, quota-engine 6).

A job is one object with a queue label and a field that suspends it. Its copy is the same object, and the copy's status
is written back to it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kueue.workload import QUEUE_LABEL, PodSet, ReclaimablePod, Workload, workload_spec
from multikueue.api.meta import encode
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.adapter import Adapter, Runtimes
from multikueue.jobs.framework.pod_set_info import PodSetInfoWriter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.trees.templates import is_same_template, merge_patch, part, tree_of

__all__ = ["DefaultAdapter"]

Tree = dict[str, Any]


class DefaultAdapter(Adapter):
    """Base class of adapters. A subclass adds its kind, pod sets, status and the switch that suspends."""

    __slots__ = ()

    selector: ClassVar[str] = ""
    is_external: ClassVar[bool] = False
    may_resume: ClassVar[bool] = True
    is_mirrored: ClassVar[bool] = True
    should_tell_suspension: ClassVar[bool] = False

    @property
    def why_one_place(self) -> str:
        return ""

    @property
    def runtimes(self) -> Runtimes | None:
        return None

    @property
    def pod_set_info(self) -> PodSetInfoWriter | None:
        return None

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        """The pod sets of the job's Workload."""
        raise NotImplementedError

    def remote_fields(self, job: AnyJob) -> Tree:
        """The fields of a copy besides its metadata."""
        return {"spec": job.spec}

    def queue_name(self, job: AnyJob) -> str:
        return job.metadata.labels.get(QUEUE_LABEL, "")

    def unmanaged_reason(self, job: AnyJob) -> str | None:  # noqa: ARG002  # no managedBy
        return None

    def is_idle(self, job: AnyJob) -> bool:
        return self.is_suspended(job) and not self.is_active(job)

    def may_be_told(self, local: AnyJob) -> bool:
        """Whether we may write how it goes on: while it is not managed by us its own controller does, unless it is idle."""
        return not self.finished(local) and (not self.unmanaged_reason(local) or self.is_idle(local))

    def pod_priority_class(self, job: AnyJob) -> str:
        named = (part(pods["template"], "spec").get("priorityClassName") for pods in self.pod_sets(job))
        return str(next(filter(None, named), ""))

    def workload_name(self, job: AnyJob) -> str:
        return workloads.prebuilt_name(job) or workloads.workload_name(self.kind, job.metadata)

    def waits_for(self, job: AnyJob) -> str | None:  # noqa: ARG002  # a job of one object is complete
        return ""

    def workload_body(self, job: AnyJob, *, priority: Priority) -> Tree:
        return workloads.workload_body(self.kind, job, pod_sets=self.pod_sets(job), priority=priority)

    def is_equivalent(self, job: AnyJob, workload: Workload) -> bool:
        spec = workload_spec(workload)
        if not workloads.may_be_of(workload, spec, job):
            return False
        ours, admitted = self.pod_sets(job), workload.has("Admitted")
        return len(ours) == len(spec.pod_sets) and all(
            _is_same(own, seen, should_ignore_tolerations=admitted)
            for own, seen in zip(ours, spec.pod_sets, strict=True)
        )

    def as_counted(self, job: AnyJob, workload: Workload) -> AnyJob | None:
        return job if self.is_equivalent(job, workload) else None

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> Tree:
        metadata = workloads.remote_metadata(
            job, workload_name=workload_name, origin=origin, attempt=attempt, queue=queue
        )
        own = {"apiVersion": self.kind.api_version, "kind": self.kind.kind, "metadata": metadata}
        return self.remote_fields(job) | own

    def resized(self, job: AnyJob, remote: AnyJob, *, pods: int) -> Tree | None:  # noqa: ARG002  # of one size
        return None

    def may_be_copied(self, job: AnyJob) -> bool:
        return self.is_suspended(job)

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:  # noqa: ARG002
        return ()

    def status_patch(self, local: AnyJob, status: msgspec.Raw) -> Tree:
        return workloads.precisely(local) | {"status": merge_patch(tree_of(local.status), tree_of(status))}

    def suspension_patch(self, job: AnyJob, now: datetime) -> Tree | None:  # noqa: ARG002  # only batch Jobs need it
        return None

    def release_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002  # nothing of Kueue's keeps it
        return None


def _is_same(own: Tree, seen: PodSet, *, should_ignore_tolerations: bool) -> bool:
    if (own["count"], own.get("minCount")) != (seen.count, seen.min_count):
        return False
    return is_same_template(encode(own["template"]), bytes(seen.template), should_ignore_tolerations)
