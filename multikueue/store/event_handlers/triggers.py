"""The keys to reconcile after a change: one table, by kind and by changed aspect.

A row says: if this aspect of an object (`changes`) differs, or the object was created or deleted, these keys
(`concerned`) go to these queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.kubernetes.builtins import (
    DeviceClass,
    LimitRange,
    Namespace,
    ResourceClaimTemplate,
    RuntimeClass,
    Secret,
)
from multikueue.api.kueue.admission_checks import AdmissionCheck
from multikueue.api.kueue.queues import ClusterQueue, Cohort, LocalQueue, ResourceFlavor, WorkloadPriorityClass
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import ClusterProfile, MultiKueueCluster, MultiKueueConfig
from multikueue.store.event_handlers import changes, concerned
from multikueue.store.event_handlers.changes import Change
from multikueue.store.queues import Key, Queue
from multikueue.store.state import State
from multikueue.store.workers.worker import WorkerAspect

__all__ = ["Row", "Table", "To", "keys_after"]

T = TypeVar("T")


class To(msgspec.Struct, Generic[T], frozen=True):
    """A queue, and the keys added to it."""

    queue: Queue
    keys: Callable[[Change[T], State], Iterable[Key]]


class Row(msgspec.Struct, Generic[T], frozen=True):
    """If `aspect` differs, or the object came or went, these keys go to these queues. None: at each change."""

    aspect: Callable[[T, State], object] | None
    targets: tuple[To[T], ...]


Table = tuple[Row[T], ...]
"""The rows of a kind."""


def keys_after(rows: Iterable[Row[T]], change: Change[T], state: State) -> list[tuple[Queue, Key]]:
    """The keys to reconcile, in order; a key may come more than once."""
    old, new = change.old, change.new
    found: list[tuple[Queue, Key]] = []
    for row in rows:
        aspect = row.aspect
        if aspect is None or old is None or new is None or aspect(old, state) != aspect(new, state):
            for to in row.targets:
                queue = to.queue
                for key in to.keys(change, state):
                    found.append((queue, key))  # noqa: PERF401  # a comprehension is one more call
    return found


def _in_cluster_queues(names: Callable[[Change[T], State], Iterable[str]]) -> tuple[To[T], ...]:
    """The workloads in these ClusterQueues, and the queues' own statuses."""

    def local_queues(change: Change[T], state: State) -> Iterator[ObjectKey]:
        for name in names(change, state):
            yield from (local.key for local in state.local_queues.by("cluster_queue", name))

    def workloads(change: Change[T], state: State) -> Iterator[Key]:
        for key in local_queues(change, state):
            yield from state.workloads.keys_by("named", key)

    def admission(change: Change[T], state: State) -> Iterable[Key]:
        return concerned.ONCE if any(True for _ in names(change, state)) else ()

    return (
        To("admission", admission),
        To("cluster_queues", names),
        To("local_queues", local_queues),
        To("workloads", workloads),
    )


# The table.

WORKLOAD: Table[Workload] = (
    Row(
        None,
        (
            To("admission", concerned.once),
            To("workloads", concerned.itself),
            To("workloads", concerned.workloads_beside),
        ),
    ),
    Row(changes.workload_for_its_job, (To("jobs", concerned.jobs_of),)),
    Row(None, (To("cluster_queues", concerned.cluster_queues_of), To("local_queues", concerned.local_queues_of))),
)

JOB: Table[AnyJob] = (
    Row(None, (To("jobs", concerned.its_job_key),)),
    Row(changes.job_for_those_below, (To("jobs", concerned.jobs_below),)),
    Row(changes.job_for_its_workload, (To("workloads", concerned.workloads_of),)),
    Row(None, (To("jobs", concerned.its_group),)),
)

COPY: Table[Workload] = (Row(changes.copy_for_a_decision, (To("workloads", concerned.workloads_of_a_copy),)),)
"""A Workload on a worker."""

REMOTE_JOB: Table[AnyJob] = (
    Row(None, (To("jobs", concerned.local_job_of), To("workloads", concerned.workloads_waiting_for_pods))),
    Row(changes.remote_job_for_a_decision, (To("workloads", concerned.workloads_of_a_remote_job),)),
    Row(changes.has_pods, (To("workloads", concerned.workloads_affected_by_its_pods),)),
)
"""A job on a worker."""

CLUSTER_QUEUE: Table[ClusterQueue] = (
    Row(changes.spec, _in_cluster_queues(concerned.name_of)),
    Row(changes.status, (To("cluster_queues", concerned.name_of),)),
    Row(changes.spec, (To("flavors", concerned.flavors_no_more_used), To("checks", concerned.checks_no_more_used))),
    Row(changes.checks, (To("jobs", concerned.jobs_waiting_there),)),
    Row(changes.followed, (To("capacity", concerned.once),)),
    Row(
        changes.said,
        (
            To("admission", concerned.once),
            To("cluster_queues", concerned.name_of),
            To("workloads", concerned.workloads_in_local_queues),
        ),
    ),
)

LOCAL_QUEUE: Table[LocalQueue] = (
    Row(
        changes.spec,
        (
            To("admission", concerned.once),
            To("cluster_queues", concerned.its_cluster_queue),
            To("local_queues", concerned.itself),
        ),
    ),
    Row(changes.status, (To("local_queues", concerned.itself),)),
    Row(changes.spec, (To("workloads", concerned.workloads_in_it),)),
    Row(changes.route, (To("jobs", concerned.jobs_in_it),)),
    Row(changes.said, (To("workloads", concerned.workloads_in_it),)),
)

FLAVOR: Table[ResourceFlavor] = (Row(None, (*_in_cluster_queues(concerned.moved), To("flavors", concerned.name_of))),)

COHORT: Table[Cohort] = (Row(None, (*_in_cluster_queues(concerned.moved), To("cohorts", concerned.name_of))),)

NAMESPACE: Table[Namespace] = (
    Row(None, (To("admission", concerned.once),)),
    Row(changes.labels, (To("jobs", concerned.jobs_in_namespace),)),
)
LIMIT_RANGE: Table[LimitRange] = (Row(None, (To("admission", concerned.once),)),)
RUNTIME_CLASS: Table[RuntimeClass] = (Row(None, (To("admission", concerned.once),)),)
CLAIM_TEMPLATE: Table[ResourceClaimTemplate] = (Row(None, (To("admission", concerned.once),)),)
DEVICE_CLASS: Table[DeviceClass] = (Row(None, (To("admission", concerned.once),)),)

CHECK: Table[AdmissionCheck] = (
    Row(None, (To("checks", concerned.name_of), *_in_cluster_queues(concerned.moved))),
    Row(
        changes.spec,
        (*_in_cluster_queues(concerned.queues_with_check), To("workloads", concerned.workloads_with_check)),
    ),
    Row(changes.presence, (To("jobs", concerned.jobs_that_wait_for_check),)),
    Row(changes.said, (To("workloads", concerned.workloads_with_check),)),
)

CONFIG: Table[MultiKueueConfig] = (
    Row(None, (To("checks", concerned.checks_with_config), To("workloads", concerned.workloads_with_config))),
    Row(None, (To("capacity", concerned.once),)),
)

CLUSTER: Table[MultiKueueCluster] = (
    Row(None, (To("clusters", concerned.name_of), To("checks", concerned.checks_with_cluster))),
    Row(changes.worker_for_workloads, (To("workloads", concerned.workloads_with_cluster),)),
)

SECRET: Table[Secret] = (Row(None, (To("clusters", concerned.clusters_of_secret),)),)
PROFILE: Table[ClusterProfile] = (Row(None, (To("clusters", concerned.clusters_of_profile),)),)

PRIORITY_CLASS: Table[WorkloadPriorityClass] = (Row(changes.value, (To("workloads", concerned.workloads_of_class),)),)
"""A change of the value is written into every workload that names the class (quota-engine 1.4)."""

_REACH: Table[Any] = (
    Row(None, (To("clusters", concerned.the_worker), To("workloads", concerned.workloads_dispatched_there))),
)

WORKER: Mapping[WorkerAspect, Table[Any]] = {
    "reach": (*_REACH, Row(None, (To("capacity", concerned.the_worker),))),
    "use": _REACH,
    "silence": (Row(None, (To("workloads", concerned.workloads_it_may_win),)),),
    "why": (),
}
"""By the aspect of the worker that changed."""
