"""What a group of Pods is made of: its members, those that count, and what of it is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from multikueue.api.job import AnyJob
from multikueue.api.pod import (
    FAILED_PHASE,
    GROUP_COUNT_ANNOTATION,
    GROUP_FAST_ANNOTATION,
    OVER,
    Pod,
    PodGroup,
    pod_status,
)
from multikueue.api.workload import Workload, workload_spec
from multikueue.jobs.framework import workloads
from multikueue.jobs.pods.roles import role_of

__all__ = [
    "able",
    "counted_of",
    "group_members",
    "is_fast",
    "lacks",
    "members_of",
    "missing",
    "parts",
    "replaceable",
    "roles_of",
    "total_of",
]

Tree = dict[str, Any]


def members_of(job: AnyJob) -> tuple[AnyJob, ...]:
    """The objects that a job is made of: itself, unless it is a group."""
    return job.members if isinstance(job, PodGroup) else (job,)


def parts(job: AnyJob, patch: Tree) -> Iterator[tuple[AnyJob, Tree]]:
    """Each object of a job that a patch of it changes, with its patch."""
    if not isinstance(job, PodGroup):
        yield job, patch
        return
    for member in job.members:
        if member.metadata.name in patch["members"]:
            yield member, patch["members"][member.metadata.name]


def missing(job: AnyJob, remote: AnyJob | None) -> tuple[AnyJob, ...]:
    """What of a job is to be made on a worker: itself, or those that count of a group and are not there."""
    if not isinstance(job, PodGroup):
        return (job,)
    there = {member.metadata.name for member in members_of(remote)} if remote is not None else set()
    return tuple(member for member in counted_of(job) if member.metadata.name not in there)


def lacks(group: PodGroup, remote: PodGroup) -> bool:
    """Whether a copy lacks members that still have something to do."""
    return any(pod_status(member).phase not in OVER for member in missing(group, remote))


def replaceable(job: AnyJob, workload: Workload) -> int | None:
    """How many members its Workload has room for that are not there, or failed; None if it is no group."""
    if not isinstance(job, PodGroup):
        return None
    there = roles_of(job)
    return sum(max(0, each.count - there[each.name]) for each in workload_spec(workload).pod_sets)


def able(job: AnyJob) -> int:
    """How many members of a group run, may run or have succeeded; 0 if it is none."""
    return len(counted_of(job)) if isinstance(job, PodGroup) else 0


def group_members(job: AnyJob) -> tuple[Pod, ...]:
    """Those of a group, the oldest first; empty if it is none."""
    return job.members if isinstance(job, PodGroup) else ()


def total_of(job: AnyJob) -> int | None:
    """How many members the group is to have; None if nobody says."""
    return workloads.positive(job.metadata.annotations.get(GROUP_COUNT_ANNOTATION, ""))


def is_fast(job: AnyJob) -> bool:
    """Whether it does not wait for all its members to be there."""
    return GROUP_FAST_ANNOTATION in job.metadata.annotations


def counted_of(job: AnyJob) -> tuple[Pod, ...]:
    """The members that run, may run or have succeeded: of more than the group is to have, the oldest."""
    able = (
        m for m in group_members(job) if m.metadata.deletion_timestamp is None and pod_status(m).phase != FAILED_PHASE
    )
    return tuple(able)[: total_of(job)]


def roles_of(job: AnyJob) -> Counter[str]:
    """How many of those that count have each role."""
    return Counter(map(role_of, counted_of(job)))
