"""The members of a group of Pods: which count, and which are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import (
    FAILED_PHASE,
    GROUP_COUNT_ANNOTATION,
    GROUP_FAST_ANNOTATION,
    OVER,
    Pod,
    PodGroup,
    pod_status,
)
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.jobs.framework import workloads
from multikueue.jobs.kinds.pods.roles import role_of

__all__ = [
    "able",
    "counted_of",
    "group_members",
    "has_missing",
    "is_fast",
    "members_of",
    "missing",
    "parts",
    "replaceable",
    "roles_of",
    "total_of",
]

Tree = dict[str, Any]


def members_of(job: AnyJob) -> tuple[AnyJob, ...]:
    """The objects of a job: its members if it is a group, else the job itself."""
    return job.members if isinstance(job, PodGroup) else (job,)


def parts(job: AnyJob, patch: Tree) -> Iterator[tuple[AnyJob, Tree]]:
    """The objects that a patch of the job changes, each with its own patch."""
    if not isinstance(job, PodGroup):
        yield job, patch
        return
    for member in job.members:
        if member.metadata.name in patch["members"]:
            yield member, patch["members"][member.metadata.name]


def missing(job: AnyJob, remote: AnyJob | None) -> tuple[AnyJob, ...]:
    """Objects still to create on the worker: the job, or the counted members of its group that are not there."""
    if not isinstance(job, PodGroup):
        return (job,)
    there = {member.metadata.name for member in members_of(remote)} if remote is not None else set()
    return tuple(member for member in counted_of(job) if member.metadata.name not in there)


def has_missing(group: PodGroup, remote: PodGroup) -> bool:
    """Whether a copy lacks members that have not finished."""
    return any(pod_status(member).phase not in OVER for member in missing(group, remote))


def replaceable(job: AnyJob, workload: Workload) -> int | None:
    """The number of members that its Workload has room for and that are missing or failed; None for other jobs.

    The members of a fast group come one by one: it lacks one of a role as long as none is there, as in Kueue.
    """
    if not isinstance(job, PodGroup):
        return None
    there = roles_of(job)
    if is_fast(job):
        return sum(each.count > 0 and not there[each.name] for each in workload_spec(workload).pod_sets)
    return sum(max(0, each.count - there[each.name]) for each in workload_spec(workload).pod_sets)


def able(job: AnyJob) -> int:
    """The number of counted members of a group; 0 if the job is no group."""
    return len(counted_of(job)) if isinstance(job, PodGroup) else 0


def group_members(job: AnyJob) -> tuple[Pod, ...]:
    """The members of a group, the oldest first; empty if the job is no group."""
    return job.members if isinstance(job, PodGroup) else ()


def total_of(job: AnyJob) -> int | None:
    """The total number of members that the group declares; None if it declares none."""
    return workloads.positive(job.metadata.annotations.get(GROUP_COUNT_ANNOTATION, ""))


def is_fast(job: AnyJob) -> bool:
    """Whether the group gets its Workload before all its members exist (fast admission)."""
    return GROUP_FAST_ANNOTATION in job.metadata.annotations


def counted_of(job: AnyJob) -> tuple[Pod, ...]:
    """The members that count: they run, may run or have succeeded. Of more than the declared total, the oldest."""
    able = (
        m for m in group_members(job) if m.metadata.deletion_timestamp is None and pod_status(m).phase != FAILED_PHASE
    )
    return tuple(able)[: total_of(job)]


def roles_of(job: AnyJob) -> Counter[str]:
    """The number of counted members by role."""
    return Counter(map(role_of, counted_of(job)))
