"""The members of a group of Pods: which count, which are missing, and the role of each.

The role is Kueue's short hash of the fields that decide about admission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import (
    FAILED_PHASE,
    GROUP_COUNT_ANNOTATION,
    GROUP_FAST_ANNOTATION,
    OVER,
    ROLE_HASH_ANNOTATION,
    Pod,
    PodAmounts,
    PodGroup,
    pod_status,
)
from multikueue.api.kueue.workload import Workload, workload_spec
from multikueue.api.meta import decoder, encode
from multikueue.jobs.framework import workloads
from multikueue.jobs.trees.templates import part, tree_of

__all__ = [
    "able",
    "asked",
    "counted_of",
    "group_members",
    "has_missing",
    "is_fast",
    "members_of",
    "missing",
    "parts",
    "replaceable",
    "role_hash",
    "role_of",
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


_LENGTH = 8
_PARTS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)
_MAPS = ("nodeSelector", "overhead")
# Go's encoder escapes these, so that JSON can be embedded in HTML.
_ESCAPED = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def role_of(pod: Pod) -> str:
    """The role of a group member: the hash that the webhook wrote, or else a new one."""
    return pod.metadata.annotations.get(ROLE_HASH_ANNOTATION) or role_hash(tree_of(pod.spec))


def role_hash(spec: Tree) -> str:
    """The first eight hex digits of the SHA-256 of the pod spec's shape, as JSON in the order of Kueue's encoder.

    The spec must be as an API server shows it: objects in the order of their Go types. Kueue's shape lacks two fields that
    decide about amounts, resources of the pod as a whole and the policy of a sidecar: where a Pod has them, its hash is
    another one than Kueue's.
    """
    shape: Tree = {name: spec.get(name) or None for name in _PARTS if name != "priority"}
    shape |= {name: _sorted(shape[name]) for name in _MAPS}
    shape["priority"] = spec.get("priority")
    shape |= {name: _containers(spec.get(name)) for name in ("containers", "initContainers")}
    if whole := part(spec, "resources"):
        shape["resources"] = {name: _sorted(part(whole, name)) for name in ("limits", "requests")}
    text = encode({"spec": dict(sorted(shape.items()))})
    for plain, escaped in _ESCAPED:
        text = text.replace(plain, escaped)
    return sha256(text).hexdigest()[:_LENGTH]


def _containers(containers: list[Tree] | None) -> list[Tree] | None:
    """The hashed fields of containers: ports and requests."""
    if not containers:
        return None
    return [
        {
            "ports": each.get("ports") or None,
            "resources": {"requests": _sorted(part(each, "resources").get("requests"))},
            **({"restartPolicy": each["restartPolicy"]} if each.get("restartPolicy") else {}),
        }
        for each in containers
    ]


def _sorted(tree: Tree | None) -> Tree | None:
    return dict(sorted(tree.items())) if tree else None


def asked(spec: msgspec.Raw) -> tuple[object, ...]:
    """What decides about the amounts that a pod with this spec takes: equal for those that take the same.

    Quantities are compared as texts, which API servers write in one way.

    The hash of a role is in an annotation, which all users may write who may write the Pod. So what Pods of one role ask for
    is compared besides: one Pod speaks for all of its role.
    """
    pod = decoder(PodAmounts)(spec)
    return (
        [each.resources.asked for each in pod.containers],
        [(each.restart_policy, each.resources.asked) for each in pod.init_containers],
        pod.resources.asked if pod.resources is not None else None,
        pod.overhead,
        pod.runtime_class_name,
        {claim.name: claim for claim in pod.resource_claims},  # a Workload has one of each name, the last
    )
