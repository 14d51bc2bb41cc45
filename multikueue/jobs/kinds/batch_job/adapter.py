"""batch/v1 Job: its Workload, its copy on a worker, and the status copied back (quota-engine 6, contract 5.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from multikueue.api.jobs.job import AnyJob, Job, job_spec, job_status
from multikueue.api.kind import Kind
from multikueue.api.kinds import JOBS
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.slices import is_elastic
from multikueue.api.kueue.workload import (
    FAILED,
    SUCCEEDED,
    Finish,
    PodSet,
    ReclaimablePod,
    Workload,
    fewer_pods,
    workload_spec,
)
from multikueue.api.meta import Condition, decoder, encode
from multikueue.jobs.framework import webhook, workloads
from multikueue.jobs.framework.adapter import MANAGED
from multikueue.jobs.framework.default_adapter import DefaultAdapter
from multikueue.jobs.framework.pod_set_info import PodSetInfoWriter
from multikueue.jobs.kinds.batch_job import status as batch_status
from multikueue.jobs.kinds.batch_job.status import count_indexes
from multikueue.jobs.kinds.batch_job.template import (
    BATCH_POD_SET_INFO,
    fewest_pods,
    is_partially_admitted,
    is_same_pod_set,
    of_size,
    pod_set,
    pods_count,
    remote_spec,
    resized,
)
from multikueue.jobs.trees.templates import merge_patch, tree_of

Tree = dict[str, Any]

STOPPING_ANNOTATION = "kueue.x-k8s.io/stopping"
"""On a Job that Kueue is stopping, until its template is restored: a crash between these steps must not lose the
restoration."""

_REASONS = {batch_status.COMPLETE: SUCCEEDED, batch_status.FAILED: FAILED}

_UNMARKED: Tree = {"annotations": {STOPPING_ANNOTATION: None}}


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    priority_class_name: str = ""


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


_template: Callable[[msgspec.Raw], _Template] = decoder(_Template)


@dataclass(frozen=True, slots=True)
class BatchJob(DefaultAdapter):
    """The adapter of batch/v1 Job; has no state. `has_failed_indexes`: as in `Compatibility`."""

    has_failed_indexes: bool = True
    kind: ClassVar[Kind[Job]] = JOBS
    pod_set_info: ClassVar[PodSetInfoWriter] = BATCH_POD_SET_INFO
    should_tell_suspension: ClassVar[bool] = True

    def of(self, compatibility: Compatibility) -> BatchJob:
        """The adapter as another release of Kueue has it."""
        return type(self)(compatibility.has_failed_indexes)

    def submitted(self, raw: msgspec.Raw) -> webhook.Submitted:
        return webhook.read_job(raw)

    def refusal(self, job: webhook.Submitted, old: webhook.Submitted | None = None) -> str | None:
        return webhook.refusal(job, old)

    def defaults(self, job: webhook.Submitted, *, is_multikueue_queue: bool) -> list[Tree]:
        return webhook.default_job(job, is_multikueue_queue=is_multikueue_queue)

    def unmanaged_reason(self, job: AnyJob) -> str | None:
        manager = job_spec(job).managed_by or ""
        return None if manager == MANAGED else f'Expecting spec.managedBy to be "{MANAGED}" not "{manager}"'

    def pod_priority_class(self, job: AnyJob) -> str:
        return _template(job_spec(job).template).spec.priority_class_name

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        return [pod_set(job)]

    def remote_fields(self, job: AnyJob) -> Tree:
        return {"spec": remote_spec(job)}

    def resized(self, job: AnyJob, remote: AnyJob, *, pods: int) -> Tree:
        return resized(job, remote) if pods_count(job) == pods else {}

    def is_equivalent(self, job: AnyJob, workload: Workload) -> bool:
        """Compares counts, containers, execution time, and tolerations until admission.

        A start adds to the template only tolerations and a smaller number of pods among these.
        """
        theirs = _pod_set_of(job, workload)
        if theirs is None or (pods_count(job) != theirs.count and not is_partially_admitted(job, workload)):
            return False
        return is_same_pod_set(job, theirs, should_ignore_tolerations=workload.has("Admitted"))

    def as_counted(self, job: AnyJob, workload: Workload) -> AnyJob | None:
        """Fewer pods after partial admission, and of an elastic job that has grown: a later slice counts the others."""
        theirs = _pod_set_of(job, workload)
        if theirs is None or (pods_count(job) != theirs.count and not is_elastic(workload)):
            return None
        if not is_same_pod_set(job, theirs, should_ignore_tolerations=workload.has("Admitted")):
            return None
        counted = fewer_pods(workload).get(theirs.name, theirs.count)
        if counted >= pods_count(job):
            return job
        change = of_size(job, counted)
        if is_elastic(workload) and _is_elastic_index(job):
            change |= {"completions": counted}
        return replace(job, spec=msgspec.Raw(encode(tree_of(job.spec) | change)))

    # --- the status --------------------------------------------------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:
        for each in job_status(job).conditions:
            if each.status == "True" and each.type in _REASONS:
                return Finish(reason=_REASONS[each.type], message=each.message)
        return None

    def is_suspended(self, job: AnyJob) -> bool:
        return job_spec(job).suspend

    def may_be_copied(self, job: AnyJob) -> bool:
        return self.is_suspended(job) and not _is_stopping(job)

    def is_active(self, job: AnyJob) -> bool:
        status = job_status(job)
        return status.active > 0 or status.terminating > 0

    def ready_pods(self, job: AnyJob) -> int:
        status, wanted = job_status(job), pods_count(job)
        ready = min(wanted, status.ready + status.succeeded + len(status.uncounted_terminated_pods.succeeded))
        fewest = fewest_pods(job)
        return ready if ready >= (wanted if fewest is None else fewest) else 0

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:
        """The pods that neither run nor may run again.

        Example: with 50 completions, 100 at a time, one over and 49 that run, one pod of 50. Kueue gives all 50 back here
        until 0.20 (#16111); and where a work queue was scaled below what is over, also what runs.
        """
        status = job_status(job)
        if not (status.succeeded or status.failed_indexes):  # the usual case, without decoding the much longer spec
            return ()
        spec = job_spec(job)
        if spec.parallelism == 1:
            return ()
        total = spec.parallelism if spec.completions is None else spec.completions
        needed = max(min(spec.parallelism, total - self._over(job, total)), status.active + status.terminating)
        freed = pods_count(job) - needed
        return (ReclaimablePod(name="main", count=freed),) if freed > 0 else ()

    def _over(self, job: AnyJob, total: int) -> int:
        """The completions, of so many, for which no pod runs again.

        `succeeded` may count indexes that a scaling took away (kueue#13117), and more than `total` of a work queue.
        """
        status = job_status(job)
        if not _is_indexed(job):
            return min(status.succeeded, total)
        failed = (status.failed_indexes,) if self.has_failed_indexes and status.failed_indexes else ()
        return count_indexes((status.completed_indexes, *failed), below=total)

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The status for the local job, if it is new and may be written now (contract 5.3).

        Never for a finished job. While the local job is suspended and idle, only an end is written: a startTime there would
        freeze the template. Nor is more written to one not managed by us, whose own controller writes the rest. While neither
        job has started, nothing is written.
        """
        if not self.may_be_told(local):
            return None
        ours, theirs = tree_of(local.status), tree_of(remote.status)
        if batch_status.end_of(theirs) is None:
            never_started = not ours.get("startTime") and not theirs.get("startTime")
            if never_started or self.is_idle(local):
                return None
        return _news(local, ours, theirs)

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        """The counters stay as last seen: the final ones are unknown."""
        if not self.may_be_told(local):
            return None
        type_ = batch_status.COMPLETE if end.reason == SUCCEEDED else batch_status.FAILED
        said = msgspec.structs.replace(end, type=type_, observed_generation=0)
        ours = tree_of(local.status)
        return _news(local, ours, ours | {"conditions": [tree_of(msgspec.Raw(encode(said)))]})

    def reset_status_patch(self, job: AnyJob) -> Tree | None:
        """Only for a suspended, unfinished job managed by us. The counters of finished pods stay: they may not
        decrease."""
        if self.unmanaged_reason(job) or self.finished(job) or not self.is_suspended(job):
            return None
        status = tree_of(job.status)
        clean = batch_status.reset(status)
        if clean == status or batch_status.comparable(clean) == batch_status.comparable(status):
            return None
        return workloads.precisely(job) | {"status": merge_patch(status, clean)}

    def suspension_patch(self, job: AnyJob, now: datetime) -> Tree | None:
        """No other controller says that a Job managed by us is suspended, and without that kubectl calls it `Running`."""
        if self.unmanaged_reason(job) or self.finished(job) or not self.is_suspended(job):
            return None
        status = tree_of(job.status)
        told = batch_status.suspended(status, now)
        return workloads.precisely(job) | {"status": merge_patch(status, told)} if told != status else None

    # --- start and stop ----------------------------------------------------------------------------------------------

    def start_patch(self, job: AnyJob) -> Tree | None:
        return workloads.precisely(job) | {"spec": {"suspend": False}} if self.is_suspended(job) else None

    def stop_patch(self, job: AnyJob) -> Tree | None:
        """Also removes the mark of a Kueue that was uninstalled while it stopped the job: no other controller will."""
        if self.may_be_copied(job):
            return None
        # The UID keeps the patch from a new job of the same name.
        mark = _UNMARKED if _is_stopping(job) else {}
        return {"metadata": {"uid": job.metadata.uid} | mark, "spec": {"suspend": True}}


BATCH_JOB = BatchJob()


def _pod_set_of(job: AnyJob, workload: Workload) -> PodSet | None:
    """The pod set of a Workload that may be the job's; None if it cannot be."""
    spec = workload_spec(workload)
    return spec.pod_sets[0] if workloads.may_be_of(workload, spec, job) and len(spec.pod_sets) == 1 else None


def _is_stopping(job: AnyJob) -> bool:
    return job.metadata.annotations.get(STOPPING_ANNOTATION) == "true"


def _news(local: AnyJob, ours: Tree, theirs: Tree) -> msgspec.Raw | None:
    """The status `theirs` as far as the local job, whose status is `ours`, may have it; None if it may not, or nothing
    is new."""
    suspended = job_spec(local).suspend
    status = batch_status.writable(ours, theirs, is_suspended=suspended, may_shrink_succeeded=_is_elastic_index(local))
    if status is None or batch_status.comparable(status) == batch_status.comparable(ours):
        return None
    return msgspec.Raw(encode(status))


def _is_elastic_index(job: AnyJob) -> bool:
    """Whether the indexes of the job may be scaled down: the one case in which `succeeded` may decrease."""
    spec = job_spec(job)
    return _is_indexed(job) and spec.completions == spec.parallelism


def _is_indexed(job: AnyJob) -> bool:
    return job_spec(job).completion_mode == "Indexed"
