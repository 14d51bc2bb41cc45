"""Groups of Pods: many objects, one Workload. Each write to a group is a write to each of its members.

A patch of a group has the patches of its members by name, which `parts` separates again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import (
    GROUP_COUNT_ANNOTATION,
    GROUP_SERVING_ANNOTATION,
    MANAGED_LABEL,
    RETRIABLE_ANNOTATION,
    SUCCEEDED_PHASE,
    Pod,
    is_of_stateful_set,
    pod_status,
)
from multikueue.api.kind import Kind
from multikueue.api.kinds import POD_GROUPS, PODS
from multikueue.api.kueue.compatibility import NEWEST
from multikueue.api.kueue.workload import (
    FINISHED,
    QUEUE_LABEL,
    SUCCEEDED,
    Finish,
    ReclaimablePod,
    Workload,
    workload_spec,
)
from multikueue.api.meta import Condition, decoder, encode
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.pod_set_info import PodSetInfoWriter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.kinds.pods.members import asked, counted_of, group_members, is_fast, role_of, roles_of, total_of
from multikueue.jobs.kinds.pods.pod import GROUP_POD_SET_INFO, PLAIN_POD, PlainPod, pod_set

__all__ = ["POD_GROUP", "GroupOfPods"]

Tree = dict[str, Any]

_by_name: Callable[[msgspec.Raw], dict[str, msgspec.Raw]] = decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class GroupOfPods(PlainPod):
    """The adapter of groups; has no state. Methods it inherits read the metadata, which is that of one of its Pods."""

    most_pod_sets: int = NEWEST.most_pod_sets

    @property
    def kind(self) -> Kind[Any]:
        return POD_GROUPS

    @property
    def pod_set_info(self) -> PodSetInfoWriter:
        return GROUP_POD_SET_INFO

    def queue_name(self, job: AnyJob) -> str:
        labels = job.metadata.labels
        return labels.get(QUEUE_LABEL, "") if labels.get(MANAGED_LABEL) == "true" else ""

    def pod_priority_class(self, job: AnyJob) -> str:
        return next(filter(None, map(PLAIN_POD.pod_priority_class, group_members(job))), "")

    # --- the Workload ------------------------------------------------------------------------------------------------

    def workload_name(self, job: AnyJob) -> str:
        return job.metadata.name

    def waits_for(self, job: AnyJob) -> str:
        total, counted, name = total_of(job), counted_of(job), job.metadata.name
        if total is None:
            return f"'{name}' group has no total count"
        if not counted or (len(counted) < total and not is_fast(job)):
            return f"'{name}' group has fewer runnable pods than expected"
        for what in (QUEUE_LABEL, GROUP_COUNT_ANNOTATION):
            said = {(m.metadata.labels | m.metadata.annotations).get(what) for m in counted}
            if len(said) > 1:
                return f"the pods of group '{name}' have different values of {what}"
        if different := _different(counted):
            return f"the pods of group '{name}' with the role {different} ask for different amounts"
        most = self.most_pod_sets
        return "" if len(roles_of(job)) <= most else f"'{name}' group has more than {most} roles"

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        """One pod set per role, in the order of names. A fast group does not wait for its members, so it has one pod
        set, with the role of the oldest."""
        counted, counts = counted_of(job), roles_of(job)
        if is_fast(job):
            return [pod_set(counted[0], name=role_of(counted[0]), count=total_of(job) or 1)]
        first = {role_of(member): member for member in reversed(counted)}
        return [pod_set(first[role], name=role, count=counts[role]) for role in sorted(first)]

    def workload_body(self, job: AnyJob, *, priority: Priority) -> Tree:
        owners = [workloads.member_reference(PODS, member.metadata) for member in counted_of(job)]
        return workloads.group_workload_body(
            job, name=job.metadata.name, owners=owners, pod_sets=self.pod_sets(job), priority=priority
        )

    def is_equivalent(self, job: AnyJob, workload: Workload) -> bool:
        """Whether the pod sets have room for all counted members, and each asks for what its pod set counts. Failed members
        do not count: they may be replaced."""
        spec = workload_spec(workload)
        if workload.metadata.name != job.metadata.name:
            return False
        if not is_of_stateful_set(job) and not workloads.has_time_of(spec, job):
            return False
        if workload.has(FINISHED):
            return True
        room = {each.name: each.count for each in spec.pod_sets}
        if any(count > room.get(role, 0) for role, count in roles_of(job).items()):
            return False
        if is_of_stateful_set(job):  # its Workload is made of its template, which no API server has completed
            return True
        takes = {each.name: asked(_template(each.template).spec) for each in spec.pod_sets}
        return all(asked(member.spec) == takes[role_of(member)] for member in counted_of(job))

    # --- the status --------------------------------------------------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:
        total, members = total_of(job), group_members(job)
        if total is None or job.metadata.annotations.get(GROUP_SERVING_ANNOTATION) == "true":
            return None
        succeeded = sum(pod_status(member).phase == SUCCEEDED_PHASE for member in members)
        given_up = any(member.metadata.annotations.get(RETRIABLE_ANNOTATION) == "false" for member in members)
        if succeeded < total and not (given_up and all(map(PLAIN_POD.finished, members))):
            return None
        return Finish(reason=SUCCEEDED, message=f"Pods succeeded: {succeeded}/{total}.")

    def is_suspended(self, job: AnyJob) -> bool:
        """Whether none of its Pods runs or may run."""
        return all(map(PLAIN_POD.is_suspended, group_members(job)))

    def is_active(self, job: AnyJob) -> bool:
        return any(map(PLAIN_POD.is_active, group_members(job)))

    def ready_pods(self, job: AnyJob) -> int:
        counted = counted_of(job)
        return len(counted) if len(counted) == total_of(job) and all(map(PLAIN_POD.ready_pods, counted)) else 0

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:
        """Succeeded members by role. None of a serving group: its Pods are replaced."""
        if job.metadata.annotations.get(GROUP_SERVING_ANNOTATION) == "true":
            return ()
        over = Counter(role_of(m) for m in group_members(job) if pod_status(m).phase == SUCCEEDED_PHASE)
        return tuple(ReclaimablePod(name=role, count=count) for role, count in sorted(over.items()))

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The new statuses of members by name. A member that is being deleted gets none."""
        there = {member.metadata.name: member for member in group_members(remote)}
        found = {
            member.metadata.name: PLAIN_POD.status_to_copy(member, there[member.metadata.name])
            for member in group_members(local)
            if member.metadata.name in there and member.metadata.deletion_timestamp is None
        }
        return _gathered(found)

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        if self.finished(local):
            return None
        return _gathered({m.metadata.name: PLAIN_POD.status_of_end(m, end) for m in counted_of(local)})

    def status_patch(self, local: AnyJob, status: msgspec.Raw) -> Tree:
        said = _by_name(status)
        members = (member for member in group_members(local) if member.metadata.name in said)
        return {"members": {m.metadata.name: PLAIN_POD.status_patch(m, said[m.metadata.name]) for m in members}}

    def release_patch(self, job: AnyJob) -> Tree | None:
        return _each(group_members(job), PLAIN_POD.release_patch)

    def reset_status_patch(self, job: AnyJob) -> Tree | None:
        return None if self.finished(job) else _each(group_members(job), PLAIN_POD.reset_status_patch)

    # --- start -------------------------------------------------------------------------------------------------------

    def start_patch(self, job: AnyJob) -> Tree | None:
        held = tuple(member for member in counted_of(job) if PLAIN_POD.finished(member) is None)
        return _each(held, PLAIN_POD.start_patch)


POD_GROUP = GroupOfPods()


class _Template(msgspec.Struct, frozen=True, gc=False):
    spec: msgspec.Raw = msgspec.Raw(b"{}")


_template: Callable[[msgspec.Raw], _Template] = decoder(_Template)


def _different(members: tuple[Pod, ...]) -> str:
    """The role of two members that ask for different amounts; empty if there is none."""
    takes: dict[str, object] = {}
    for member in members:
        role, its = role_of(member), asked(member.spec)
        if takes.setdefault(role, its) != its:
            return role
    return ""


def _gathered(found: dict[str, msgspec.Raw | None]) -> msgspec.Raw | None:
    said = {name: status for name, status in found.items() if status is not None}
    return msgspec.Raw(encode(said)) if said else None


def _each(members: tuple[Pod, ...], patch_of: Callable[[AnyJob], Tree | None]) -> Tree | None:
    found = {member.metadata.name: patch_of(member) for member in members}
    patches = {name: patch for name, patch in found.items() if patch is not None}
    return {"members": patches} if patches else None
