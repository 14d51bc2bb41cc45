"""What the manager needs to know of a kind of jobs, and nothing more: the seam that each kind fills in."""

from __future__ import annotations

from typing import Any, Protocol, Self

import msgspec

from multikueue.api.job import AnyJob, JobKey
from multikueue.api.kinds import Kind
from multikueue.api.meta import Condition, OwnerReference
from multikueue.api.multikueue import CONTROLLER_NAME
from multikueue.api.workload import Finish, ReclaimablePod, Workload
from multikueue.jobs.framework.pod_set_info import Placing
from multikueue.jobs.framework.priority import Priority

MANAGED = CONTROLLER_NAME
"""The value of a job's managedBy that makes the kind's own controller leave it to us (contract 1.7)."""


class Submission(Protocol):
    """A job as an admission request shows it. `managed_by_default`: nobody chose who manages it."""

    @property
    def namespace(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def managed_by_default(self) -> bool: ...
    @property
    def controller(self) -> OwnerReference | None:
        """What controls it, where that may make it somebody else's affair."""
        ...

    def in_queue(self, name: str) -> Self:
        """The same if it named that queue."""
        ...

    def queue_patch(self, name: str) -> dict[str, Any]:
        """The operation of a JSON patch that puts it into that queue."""
        ...

    @property
    def is_part(self) -> bool:
        """Whether any job of a kind in use that controls it, in a queue or not, makes it its own affair."""
        ...


class Runtimes(Protocol):
    """Objects that say what the pods of a kind's jobs are like, where the jobs only name one of them."""

    @property
    def kinds(self) -> tuple[Kind[Any], ...]: ...

    def key(self, job: AnyJob) -> JobKey:
        """Which one the job names: the name of its kind (`Kind.name`), its namespace (empty if it has none) and name."""
        ...

    def problem(self, job: AnyJob) -> str | None:
        """Why nobody can tell the pods of a job, given with its runtime; None if one can."""
        ...


class Admitting(Protocol):
    """What the admission webhook does to one kind: jobs, or what jobs are made from."""

    @property
    def kind(self) -> Kind[Any]: ...

    def submitted(self, raw: msgspec.Raw) -> Any:
        """The `Submission` in an admission request, as the two below take it. Raises msgspec.DecodeError if it is none."""
        ...

    def refusal(self, job: Any, old: Any = None) -> str | None:
        """Why the job, new or changed from `old`, must not be; None if it may (quota-engine 6.1)."""
        ...

    def defaults(self, job: Any, *, queue_uses_multikueue: bool) -> list[dict[str, Any]]:
        """The JSON patch that makes a new job ours: held, and managed by us where its queue is dispatched."""
        ...


class Adapter(Admitting, Protocol):
    """One kind of jobs. Every method is a pure function of what the API servers hold."""

    @property
    def selector(self) -> str:
        """The labels of those on the manager cluster that may be ours, as a watch asks for them; empty for all."""
        ...

    @property
    def resumes(self) -> bool:
        """Whether one that was stopped can run again. One that cannot is deleted to be stopped, and, having nothing like
        managedBy, is held on the manager cluster for as long as it is dispatched."""
        ...

    @property
    def external(self) -> bool:
        """Whether somebody else makes the Workloads of its jobs, and holds and lets go of them at home."""
        ...

    @property
    def mirrors(self) -> bool:
        """Whether the status of a copy comes home. Where it does not, the copy alone tells how the job fares."""
        ...

    @property
    def runtimes(self) -> Runtimes | None:
        """Where the pods of its jobs are described; None if in the jobs."""
        ...

    @property
    def placing(self) -> Placing | None:
        """How its jobs are told where their pods go when they run on their own cluster; None if nobody tells them."""
        ...

    def queue_name(self, job: AnyJob) -> str:
        """The LocalQueue the job asks for; empty if it is not ours to queue."""
        ...

    def unmanaged_reason(self, job: AnyJob) -> str | None:
        """Why the job cannot be dispatched, in the words of contract 3.1 E4; None if it can."""
        ...

    def pod_priority_class(self, job: AnyJob) -> str:
        """The PriorityClass its pods ask for; empty if none."""
        ...

    def workload_name(self, job: AnyJob) -> str:
        """The name of the job's Workload (quota-engine 6.2)."""
        ...

    def waits_for(self, job: AnyJob) -> str | None:
        """What is missing for a Workload to be made of the job; empty if nothing is, None if it wants none now."""
        ...

    def workload_body(self, job: AnyJob, *, priority: Priority) -> dict[str, Any]:
        """The complete Workload to create for the job (quota-engine 6.2)."""
        ...

    def matches(self, job: AnyJob, workload: Workload) -> bool:
        """Whether the Workload describes the job as it is now (quota-engine 6.3)."""
        ...

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> dict[str, Any]:
        """The job to create on the winner (contract 1.6)."""
        ...

    def finished(self, job: AnyJob) -> Finish | None:
        """How the job ended; None while it has not."""
        ...

    def is_suspended(self, job: AnyJob) -> bool: ...

    def may_be_copied(self, job: AnyJob) -> bool:
        """Whether it is held and says what its user wrote, and no more: a Kueue of the manager cluster that starts a job
        writes into it what its flavors demand, and takes that back when it stops it."""
        ...

    def is_active(self, job: AnyJob) -> bool:
        """Whether its status tells of pods that run or still terminate."""
        ...

    def ready_pods(self, job: AnyJob) -> int:
        """How many of its pods are ready or have succeeded; 0 while they are fewer than it can do with."""
        ...

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:
        """How many of its pods will not be needed again, by pod set: others may have their quota (quota-engine 6.1)."""
        ...

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The whole status to give the local job now; None if there is nothing to write, or not yet."""
        ...

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        """The whole status to give a local job whose copy is gone, and of which only its Workload's Finished condition
        tells how it ended; None as for `status_to_copy`."""
        ...

    def status_patch(self, local: AnyJob, status: msgspec.Raw) -> dict[str, Any]:
        """The merge patch that gives the local job that status."""
        ...

    def start_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that lets the job run, just as it was seen: one that arrives late, from a manager that leads
        no more, must start nothing. None if it may run already."""
        ...

    def stop_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that holds the job with this UID; None if it is held already."""
        ...

    def release_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that lets go of a job that is over or being deleted; None if nothing of Kueue's keeps it."""
        ...

    def reset_status_patch(self, job: AnyJob) -> dict[str, Any] | None:
        """The merge patch that makes a stopped job's status say that nothing runs; None if it says so (CX-22)."""
        ...


def stays(adapter: Adapter, job: AnyJob, workload: Workload, *, dispatched: bool) -> bool:
    """Whether the pods of an admitted job are to run on the manager cluster. What is managed by us never does there, even
    where nobody dispatches it: the kind's own controller leaves it alone."""
    if dispatched or workload.status.cluster_name:
        return False
    return not adapter.resumes or adapter.unmanaged_reason(job) is not None
