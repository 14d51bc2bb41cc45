"""Workloads as rows of a table: one line of facts each, and the heaviest reason why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

import msgspec

from multikueue.answers.answer import JobAnswer, answer
from multikueue.answers.codes import Code
from multikueue.answers.seen import Seen, SeenJob, typed_name
from multikueue.api.kueue.admission_checks import CONTROLLER_NAME
from multikueue.api.kueue.workload import (
    ADMITTED,
    FINISHED,
    Workload,
    any_owner_of,
    granted,
    queue_of,
    workload_spec,
)
from multikueue.api.values import quantity
from multikueue.errors import InvalidObject
from multikueue.workload.nomination.prospects import Prospect, away
from multikueue_console.model.objects import SeenObjects

__all__ = ["ORDINARY", "Observer", "WorkloadRow", "seconds"]

USER_LABEL = "multikueue.dev/user"
"""On a job: who it is for, in tables of people."""


ORDINARY = frozenset(
    code.name
    for code in (
        Code.QuotaTaken,
        Code.BehindHead,
        Code.BackOff,
        Code.Leaving,
        Code.NextInLine,
        Code.WaitsForQuota,
        Code.WaitsOnWorkers,
        Code.NotAskedYet,
        Code.PodsStarting,
        Code.Terminating,
        Code.Held,
        Code.LocalQueueStopped,
        Code.ClusterQueueStopped,
        Code.WorkerAway,
        Code.AdmissionGated,
    )
)
"""Reasons to wait that pass by themselves, that somebody wanted, or that a queue or a cluster tells already."""


class WorkloadRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One workload. Times are seconds since 1970, 0 if unknown. As JSON an array in the order of the fields.

    `name`: of its job, KIND/NAME as commands take it. `code` and `reason`: the heaviest obstacle, empty for one that runs or is
    over. `since`: since when it is in its state. `started`: since when it is admitted, `ended`: when it finished. `amounts`:
    what its quota is for, or what it asks for, in the units that Kueue counts with. `evictions`: how often it lost its quota.
    """

    uid: str
    namespace: str
    workload: str
    name: str
    queue: str
    cluster_queue: str
    user: str
    state: str
    code: str
    reason: str
    cluster: str
    nominated: tuple[str, ...]
    priority: int
    pods: int
    created: int
    since: int
    started: int
    ended: int
    evictions: int
    amounts: Mapping[str, int]

    @property
    def is_over(self) -> bool:
        return self.state in ("Finished", "Failed")


class Observer:
    """Computes rows and answers from what was seen at one moment. What depends on the fleet is computed once."""

    def __init__(self, seen: SeenObjects, now: datetime) -> None:
        self._seen, self._now = seen, now
        self._away: dict[str, Prospect] = {
            cluster.metadata.name: gone for cluster in (seen.clusters or {}).values() if (gone := away(cluster))
        }
        self._own_checks = (
            None
            if seen.checks is None
            else {each.metadata.name for each in seen.checks.values() if each.spec.controller_name == CONTROLLER_NAME}
        )
        self._queues: dict[str, frozenset[str]] = {}

    def answer(self, workload: Workload) -> JobAnswer:
        """Why it waits or where it runs, by what was seen here: the same function as in the manager and in `why`."""
        namespace = workload.metadata.namespace
        gone = self._away.get(workload.status.cluster_name or "")
        seen = Seen(
            name=typed_name(workload),
            namespace=namespace,
            job=self._job_of(workload),
            workload=workload,
            queues=self._queues_of(namespace),
            cluster_queue=self._seen.cluster_queue_of(queue_of(workload)),
            workers=(gone,) if gone and workload.has(ADMITTED) else (),
            own_check=self._own_check_of(workload),
        )
        return answer(seen, self._now)

    def row(self, workload: Workload, told: JobAnswer | None = None) -> WorkloadRow:
        """`told`: an answer that is better than the one from here, as the manager's."""
        told, spec, meta = told or self.answer(workload), workload_spec(workload), workload.metadata
        queue, first = queue_of(workload), told.heaviest
        admission = workload.status.admission
        return WorkloadRow(
            uid=meta.uid,
            namespace=meta.namespace,
            workload=meta.name,
            name=told.job,
            queue=queue.name,
            cluster_queue=admission.cluster_queue if admission is not None else self._seen.cluster_queue_of(queue),
            user=meta.labels.get(USER_LABEL, ""),
            state=told.state,
            code=first.code if first is not None else "",
            reason=first.text if first is not None else "",
            cluster=told.cluster,
            nominated=workload.status.nominated_cluster_names,
            priority=spec.priority,
            pods=sum(each.count for each in spec.pod_sets),
            created=seconds(meta.creation_timestamp),
            since=seconds(told.since),
            started=_began(workload, ADMITTED),
            ended=_began(workload, FINISHED),
            evictions=_evictions(workload),
            amounts=_same_amounts(tuple(amounts(workload).items())),
        )

    def _job_of(self, workload: Workload) -> SeenJob | None:
        owner = any_owner_of(workload)
        return self._seen.jobs.get(owner.uid) if owner is not None else None

    def _queues_of(self, namespace: str) -> frozenset[str] | None:
        if self._seen.local_queues is None:
            return None
        if not self._queues:
            names: dict[str, set[str]] = {}
            for key in self._seen.local_queues:
                names.setdefault(key.namespace, set()).add(key.name)
            self._queues = {each: frozenset(found) for each, found in names.items()}
        return self._queues.get(namespace, frozenset())

    def _own_check_of(self, workload: Workload) -> str | None:
        if self._own_checks is None:
            return None
        return next((each.name for each in workload.status.admission_checks if each.name in self._own_checks), "")


def amounts(workload: Workload) -> dict[str, int]:
    """What it has quota for, else what it asks for as far as its status tells; in Kueue's units."""
    try:
        had = granted(workload)
        if had:
            return had
        total: dict[str, int] = {}
        for each in workload.status.resource_requests:
            for name, text in each.resources.items():
                total[name] = total.get(name, 0) + quantity.counted(name, text)
    except InvalidObject:
        return {}
    return total


@lru_cache(maxsize=1024)
def _same_amounts(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    """Once for all rows that have the same."""
    return dict(items)


def seconds(at: datetime | None) -> int:
    """Seconds since 1970; 0 for no time."""
    return int(at.timestamp()) if at is not None else 0


def _began(workload: Workload, type_: str) -> int:
    found = workload.condition(type_)
    return seconds(found.last_transition_time) if found is not None and found.status == "True" else 0


def _evictions(workload: Workload) -> int:
    stats = workload.status.scheduling_stats
    return sum(each.count for each in stats.evictions) if stats is not None else 0
