"""The contract of a job kind: what the manager needs to know of it."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, Protocol, Self

import msgspec

from multikueue.api.jobs.job import AnyJob, JobKey
from multikueue.api.kind import Kind
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.workload import Finish, ReclaimablePod, Workload
from multikueue.api.meta import Condition, OwnerReference
from multikueue.jobs.framework.pod_set_info import PodSetInfoWriter
from multikueue.jobs.framework.priority import Priority

MANAGED = CONTROLLER_NAME
"""The value of a job's managedBy that makes the kind's own controller leave it to us (contract 1.7)."""


class Submission(Protocol):
    """A job as an admission request shows it. `is_managed_by_default`: managedBy is unset, or the kind's default."""

    @property
    def namespace(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def is_managed_by_default(self) -> bool: ...
    @property
    def controller(self) -> OwnerReference | None:
        """The controlling owner; None also where the owner must not exempt the object from the queue."""
        ...

    def in_queue(self, name: str) -> Self:
        """A copy of the object with this queue name."""
        ...

    def queue_patch(self, name: str) -> dict[str, Any]:
        """The JSON patch operation that sets this queue name."""
        ...

    @property
    def is_part(self) -> bool:
        """Whether a controlling job of a kind in use, even one without a queue, exempts the object from the queue."""
        ...


class Runtimes(Protocol):
    """Objects that describe the pods of a kind whose jobs only name such an object."""

    @property
    def kinds(self) -> tuple[Kind[Any], ...]: ...

    def key(self, job: AnyJob) -> JobKey:
        """The object that the job names: its kind (`Kind.name`), namespace (empty if cluster-scoped) and name."""
        ...

    def problem(self, job: AnyJob) -> str | None:
        """Why the pods of a job, given with its runtime, are unknown; None if they are known."""
        ...


class Admitting(Protocol):
    """The admission webhook's part of one kind: of jobs, or of objects from which jobs are made."""

    @property
    def kind(self) -> Kind[Any]: ...

    def submitted(self, raw: msgspec.Raw) -> Any:
        """The `Submission` in an admission request, for the next two methods. Raises msgspec.DecodeError otherwise."""
        ...

    def refusal(self, job: Any, old: Any = None) -> str | None:
        """Why the job, new or changed from `old`, is refused; None if it is allowed (quota-engine 6.1)."""
        ...

    def defaults(self, job: Any, *, is_multikueue_queue: bool) -> list[dict[str, Any]]:
        """The JSON patch that suspends a new job, and sets managedBy where its queue is dispatched."""
        ...


class Adapter(Admitting, Protocol):
    """One kind of jobs. Every method is a pure function of objects as the API servers hold them."""

    @property
    def selector(self) -> str:
        """The label selector of the watch on the manager cluster; empty for all objects."""
        ...

    @property
    def may_resume(self) -> bool:
        """Whether a stopped job can run again. A job that cannot is deleted to stop it; and since it has nothing like
        managedBy, it stays gated on the manager cluster while it is dispatched."""
        ...

    @property
    def is_external(self) -> bool:
        """Whether another controller creates the Workloads of its jobs, and suspends and starts its local jobs."""
        ...

    @property
    def is_mirrored(self) -> bool:
        """Whether the copy's status is written to the local job. If not, only the copy has the state of the job."""
        ...

    @property
    def should_tell_suspension(self) -> bool:
        """Whether the status of a waiting job does not say that it is suspended unless we do (`suspension_patch`)."""
        ...

    @property
    def why_one_place(self) -> str:
        """Why the manager cluster cannot be a worker of the queue of such a job: without managedBy it would have to wait
        suspended here for its end on a worker. Empty if it can."""
        ...

    @property
    def runtimes(self) -> Runtimes | None:
        """The objects that describe the pods of its jobs; None if the jobs do."""
        ...

    @property
    def pod_set_info(self) -> PodSetInfoWriter | None:
        """Writes pod set info into jobs that run on the manager cluster; None if nothing is written."""
        ...

    def queue_name(self, job: AnyJob) -> str:
        """The LocalQueue that the job names; empty if the job is not ours to queue."""
        ...

    def unmanaged_reason(self, job: AnyJob) -> str | None:
        """Why the job cannot be dispatched, as contract 3.1 E4 words it; None if it can."""
        ...

    def pod_priority_class(self, job: AnyJob) -> str:
        """The PriorityClass of its pods; empty if none."""
        ...

    def workload_name(self, job: AnyJob) -> str:
        """The name of the job's Workload (quota-engine 6.2)."""
        ...

    def waits_for(self, job: AnyJob) -> str | None:
        """The reason why the job has no Workload yet: empty if nothing, None if the job needs no Workload now."""
        ...

    def workload_body(self, job: AnyJob, *, priority: Priority) -> dict[str, Any]:
        """The complete Workload to create for the job (quota-engine 6.2)."""
        ...

    def is_equivalent(self, job: AnyJob, workload: Workload) -> bool:
        """Whether the Workload describes the job's present spec (quota-engine 6.3)."""
        ...

    def as_counted(self, job: AnyJob, workload: Workload) -> AnyJob | None:
        """The job to copy to a worker: with as many pods as its Workload counts, where that is fewer than it has now. None
        if it asks for anything that the Workload does not count. Looked at as the copy is made (contract 1.6)."""
        ...

    def resized(self, job: AnyJob, remote: AnyJob, *, pods: int) -> dict[str, Any] | None:
        """The merge patch of a running copy's spec that gives it the local job's size; empty if it has that, or if the
        local job has another number of pods: then a later slice may be about to be admitted. None if jobs of the kind
        cannot change their size while they run."""
        ...

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> dict[str, Any]:
        """The job to create on the winner (contract 1.6)."""
        ...

    def finished(self, job: AnyJob) -> Finish | None:
        """The end of the job; None if it has not ended."""
        ...

    def is_suspended(self, job: AnyJob) -> bool: ...

    def may_be_copied(self, job: AnyJob) -> bool:
        """Whether the job is suspended and has only what its user wrote. A Kueue of the manager cluster that starts a
        job writes the demands of its flavors into the template, and restores it when it stops the job."""
        ...

    def is_active(self, job: AnyJob) -> bool:
        """Whether its status shows pods that run or terminate."""
        ...

    def ready_pods(self, job: AnyJob) -> int:
        """The number of pods that are ready or have succeeded; 0 below the minimum that the job needs."""
        ...

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:
        """The number of pods that are no longer needed, by pod set: others may have their quota (quota-engine 6.1)."""
        ...

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The whole status to write to the local job now; None if nothing is new, or nothing may be written yet."""
        ...

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        """The whole status to write to a local job whose copy is gone, from its Workload's Finished condition, which
        alone still says how it ended; None as for `status_to_copy`."""
        ...

    def status_patch(self, local: AnyJob, status: msgspec.Raw) -> dict[str, Any]:
        """The merge patch that writes this status to the local job."""
        ...

    def start_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that starts the job; None if it may run already. Its precondition is the resource version, so
        that a late write of a former leader starts nothing."""
        ...

    def stop_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that suspends the job with this UID; None if it is suspended already."""
        ...

    def release_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that removes Kueue's finalizer from a finished or deleted job; None if it has none."""
        ...

    def reset_status_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that makes a stopped job's status show no pods; None if it shows none (CX-22)."""
        ...

    def suspension_patch(self, job: AnyJob, now: datetime) -> dict[str, Any] | None:
        """The merge patch by which the status of a waiting job says that it is suspended; None if it says so, or if its own
        controller does."""
        ...


def is_local(adapter: Adapter, job: AnyJob, workload: Workload, *, is_dispatched: bool) -> bool:
    """Whether the pods of an admitted job run on the manager cluster. A job managed by us never does, even if it is not
    dispatched: the kind's own controller ignores it."""
    if is_dispatched or workload.status.cluster_name:
        return False
    return not adapter.may_resume or adapter.unmanaged_reason(job) is not None


def is_told_at_home(adapter: Adapter, job: AnyJob) -> bool:
    """Whether the job's own status says how it goes on while it runs on a worker. Else its controller here writes it."""
    return adapter.is_mirrored and adapter.unmanaged_reason(job) is None


class OwnJob:
    """A job of the manager cluster, and what its adapter says of it, each asked once."""

    def __init__(self, job: AnyJob, adapter: Adapter) -> None:
        self.job, self.adapter = job, adapter

    @cached_property
    def finished(self) -> Finish | None:
        """Its final status."""
        return self.adapter.finished(self.job)

    @cached_property
    def unmanaged_reason(self) -> str | None:
        """Why it is not dispatched; None if it is."""
        return self.adapter.unmanaged_reason(self.job)

    @cached_property
    def pod_set_info(self) -> str:
        """The name of the Workload whose pod set info it has; empty if none."""
        info = self.adapter.pod_set_info
        return info.pod_set_info_of(self.job) if info is not None else ""

    @property
    def may_run(self) -> bool:
        """Whether it has, or may have, pods on the manager cluster, or still has the pod set info of a run there: it is
        not dispatched. Started from that state, it could not go where another flavor demands."""
        if self.pod_set_info:
            return True
        if self.unmanaged_reason is None:
            return False
        return self.adapter.is_active(self.job) or not self.adapter.is_suspended(self.job)
