"""Jobs and Workloads as the API server shows them, where the tests of this room need more than the public builders say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from multikueue.api.jobs.job import AnyJob, Job
from multikueue.api.kueue.workload import Workload, WorkloadSpec
from multikueue.api.meta import Object, decoder, encode
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB
from tests.builders import NOW, JobBuilder, WorkloadBuilder, job

J = TypeVar("J", bound=AnyJob)
S = TypeVar("S", bound=Object)
Tree = dict[str, Any]


def ours(name: str = "j") -> JobBuilder:
    """A suspended job in the queue `main` that is managed by us."""
    return job(name).queue("main").managed_by().suspended()


def with_spec(job: Job, **fields: Any) -> Job:
    """The job with these fields of its spec set, in the API's spelling."""
    return msgspec.structs.replace(job, spec=msgspec.Raw(encode(tree(job.spec) | fields)))


def with_status(job: J, status: Tree) -> J:
    return msgspec.structs.replace(job, status=msgspec.Raw(encode(status)))


def leaving(seen: S) -> S:
    """The object while it is being deleted."""
    return msgspec.structs.replace(seen, metadata=msgspec.structs.replace(seen.metadata, deletion_timestamp=NOW))


def tree(raw: msgspec.Raw) -> Tree:
    shown: Tree = decoder(dict[str, Any])(raw)
    return shown


def plain(value: Any) -> Any:
    """What the API server receives of a value."""
    return msgspec.json.decode(encode(value))


def stored(body: Tree, *, uid: str = "uid-wl", version: int = 7) -> Workload:
    """A created Workload, as the API server gives it back."""
    shown = plain(body)
    shown["metadata"] |= {"uid": uid, "resourceVersion": str(version), "generation": 1}
    seen: Workload = decoder(Workload)(encode(shown))
    return seen


def workload_of(job: Job, *, priority: Priority | None = None) -> Workload:
    """The stored Workload that belongs to the job."""
    return stored(BATCH_JOB.workload_body(job, priority=priority or Priority()))


def become(seen: Workload, change: Callable[[WorkloadBuilder], WorkloadBuilder]) -> Workload:
    """The Workload after what `change` says happened to it; its spec stays the very bytes."""
    return change(WorkloadBuilder(seen, WorkloadSpec())).value
