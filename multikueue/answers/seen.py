"""What was seen of a job and of what it depends on: the input of its answer. Each caller fills in what it may read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from multikueue.api.kubernetes.printed import PrintedEvent, PrintedPod
from multikueue.api.kueue.workload import (
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    UNDISPATCHABLE_ANNOTATION,
    Finish,
    Workload,
    any_owner_of,
    workload_spec,
)
from multikueue.api.meta import ObjectMeta, Value, controller_of
from multikueue.api.values.foreign import answer_or
from multikueue.quota.visibility.explain import Explanation
from multikueue.workload.nomination.prospects import Prospect

if TYPE_CHECKING:
    from multikueue.api.jobs.job import AnyJob
    from multikueue.jobs.framework.adapter import Adapter

__all__ = ["LOST_AFTER", "Seen", "SeenJob", "is_held", "of_job", "typed_name"]

LOST_AFTER = timedelta(minutes=15)
"""The default of the setting dispatch.worker_lost_timeout."""


class SeenJob(Value, frozen=True):
    """An object of any kind that was submitted.

    `is_of_known_kind` is False for a kind that no adapter handles. `unmanaged`: why this object can never be dispatched
    (`Adapter.unmanaged_reason`), empty if it can. `priority_class`: the PriorityClass of its pods. `ready`: its pods that are
    ready or have succeeded, None if its status does not say. `end`: how it ended, None if it has not.
    """

    kind: str
    meta: ObjectMeta
    is_of_known_kind: bool = True
    unmanaged: str = ""
    priority_class: str = ""
    ready: int | None = None
    end: Finish | None = None

    @property
    def queue(self) -> str:
        return self.meta.labels.get(QUEUE_LABEL, "")

    @property
    def workload_class(self) -> str:
        return self.meta.labels.get(PRIORITY_CLASS_LABEL, "")

    @property
    def owner(self) -> str:
        """The object that controls it, as commands take it; empty if none does."""
        found = controller_of(self.meta)
        return f"{found.kind.lower()}/{found.name}" if found else ""


class Seen(Value, frozen=True):
    """A job, its Workload, and what they depend on. What was not looked for, or may not be read, is None or empty.

    `name`: as commands take it, KIND/NAME. `queues`: the LocalQueues of its namespace. `classes`: the
    WorkloadPriorityClasses. `cluster_queue`: the name behind its LocalQueue. `quota`: why it has no quota. `workers`: what
    each worker is to it. `pods`: its pods there. `told`: events of the job without a Workload. `jobs`: names of jobs by the
    keys and UIDs of their Workloads and by their own UIDs. `own_check`: the admission check that is MultiKueue's, empty if
    there is none. `lost_after`: how long a worker may be away before its jobs queue again. `is_foreseen`: the job
    is not submitted yet. `not_seen`: what could not be read, each in a few words.
    """

    name: str
    namespace: str
    job: SeenJob | None = None
    workload: Workload | None = None
    queues: frozenset[str] | None = None
    classes: frozenset[str] | None = None
    cluster_queue: str = ""
    quota: Explanation | None = None
    workers: tuple[Prospect, ...] = ()
    pods: tuple[PrintedPod, ...] | None = None
    told: tuple[PrintedEvent, ...] = ()
    jobs: Mapping[str, str] = {}
    own_check: str | None = None
    lost_after: timedelta = LOST_AFTER
    is_foreseen: bool = False
    not_seen: tuple[str, ...] = ()

    def job_of(self, workload: str) -> str:
        """The name of a Workload's job, given the Workload's key or UID; that itself if the job is not known."""
        return self.jobs.get(workload, workload)

    def newest(self, *reasons: str) -> PrintedEvent | None:
        """The newest event with one of these reasons."""
        found = [each for each in self.told if each.reason in reasons]
        return max(found, key=lambda each: each.at.timestamp() if each.at else 0.0, default=None)


class _Counts(Value, frozen=True):
    ready: int = 0
    ready_replicas: int = 0
    succeeded: int = 0


def of_job(job: AnyJob, adapter: Adapter) -> SeenJob:
    """A job of a kind that is dispatched. An adapter counts no ready pods before there are as many as the job needs."""
    counts = answer_or(lambda: msgspec.json.decode(job.status, type=_Counts), _Counts())
    return SeenJob(
        kind=adapter.kind.kind,
        meta=job.metadata,
        unmanaged=answer_or(lambda: adapter.unmanaged_reason(job) or "", ""),
        priority_class=answer_or(lambda: adapter.pod_priority_class(job), ""),
        ready=answer_or(lambda: adapter.ready_pods(job), 0) or counts.ready + counts.ready_replicas + counts.succeeded,
        end=answer_or(lambda: adapter.finished(job), None),
    )


def is_held(workload: Workload) -> bool:
    """Whether it is inactive because a person wants it so, and not to explain why its job cannot be dispatched."""
    return not workload_spec(workload).active and UNDISPATCHABLE_ANNOTATION not in workload.metadata.annotations


def typed_name(workload: Workload) -> str:
    """The name of a Workload as commands take it: that of its job, else its own."""
    owner = any_owner_of(workload)
    return f"{owner.kind.lower()}/{owner.name}" if owner else f"workload/{workload.metadata.name}"
