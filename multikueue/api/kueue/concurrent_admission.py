"""Concurrent Admission (KEP 8691): work that tries each flavor of its ClusterQueue by itself, and runs on the first it gets.

The Workload of a job is the parent there. It does not queue; its variants do, Workloads that it owns, each for one flavor.
"""

from __future__ import annotations

from multikueue.api.kueue.queues import (
    ClusterQueueSpec,
    ConcurrentAdmissionPolicy,
)
from multikueue.api.kueue.workload import Workload
from multikueue.api.meta import ObjectKey, OwnerReference

__all__ = [
    "FLAVORS_ANNOTATION",
    "GATE",
    "PARENT_LABEL",
    "allowed_flavors",
    "flavor_of",
    "flavors_in_order",
    "last_acceptable_flavor",
    "parent_key",
    "parent_of",
    "policy_of",
    "stays",
]

PARENT_LABEL = "kueue.x-k8s.io/concurrent-admission-parent"
"""On a parent: `true`."""

FLAVORS_ANNOTATION = "kueue.x-k8s.io/workload-allowed-resource-flavors"
"""On a Workload: the only flavors that it may use, separated by commas. A variant has one."""

GATE = "kueue.x-k8s.io/concurrent-admission"
"""The preemption gate of a variant: of those of a parent, only one preempts at a time."""

_MOST_FLAVORS = 16


def parent_of(workload: Workload) -> OwnerReference | None:
    """The parent of a variant, which controls it; None: it is no variant."""
    for owner in workload.metadata.owner_references:
        if owner.controller and owner.kind == "Workload" and owner.api_version.startswith("kueue.x-k8s.io/"):
            return owner
    return None


def parent_key(workload: Workload) -> ObjectKey | None:
    """The key of the parent of a variant; another Workload may have it by now. None: it is no variant."""
    owner = parent_of(workload)
    return ObjectKey(workload.metadata.namespace, owner.name) if owner is not None else None


def allowed_flavors(workload: Workload) -> tuple[str, ...]:
    """The only flavors that a Workload may use; empty: any."""
    text = workload.metadata.annotations.get(FLAVORS_ANNOTATION, "")
    return tuple(name for each in text.split(",") if (name := each.strip()))


def flavor_of(variant: Workload) -> str:
    """The flavor of a variant; empty if it names none."""
    return next(iter(allowed_flavors(variant)), "")


def policy_of(spec: ClusterQueueSpec) -> ConcurrentAdmissionPolicy | None:
    """The policy of a ClusterQueue whose work has variants; None without one.

    One that Kueue's webhook refuses counts as none: with several resource groups or too many flavors, with StrictFIFO, or with
    constraints that say nothing.
    """
    policy, groups = spec.concurrent_admission_policy, spec.resource_groups
    if policy is None or len(groups) != 1 or len(groups[0].flavors) > _MOST_FLAVORS:
        return None
    if spec.queueing_strategy == "StrictFIFO" or not _is_sound(policy, flavors_in_order(spec)):
        return None
    return policy


def flavors_in_order(spec: ClusterQueueSpec) -> tuple[str, ...]:
    """The flavors of the first resource group, the most preferred first."""
    return tuple(flavor.name for flavor in spec.resource_groups[0].flavors) if spec.resource_groups else ()


def stays(policy: ConcurrentAdmissionPolicy) -> bool:
    """Whether work stays on the flavor that it got first."""
    return policy.migration.mode == "RetainFirstAdmission"


def last_acceptable_flavor(policy: ConcurrentAdmissionPolicy) -> str | None:
    """The least preferred flavor that work may move to; None: any."""
    constraints = policy.migration.constraints
    return constraints.last_acceptable_flavor_name if constraints is not None else None


def _is_sound(policy: ConcurrentAdmissionPolicy, flavors: tuple[str, ...]) -> bool:
    if policy.migration.constraints is None:
        return True
    last = last_acceptable_flavor(policy)
    return not stays(policy) and (last is None or last in flavors)
