"""Plain Pods: their Workload, their copy on a worker, and the status copied back (contract 1.6, 1.7).

A scheduling gate holds a Pod. Pods have nothing like managedBy to say that another cluster runs them, so the local gate
stays while the Pod is dispatched; the worker's Kueue removes the copy's gate. A running Pod can never be gated again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import (
    ADMISSION_GATE,
    FAILED_PHASE,
    GROUP_LABEL,
    MANAGED_LABEL,
    OVER,
    PENDING,
    POD_FINALIZER,
    POD_INDEX_LABEL,
    RUNNING,
    SUCCEEDED_PHASE,
    TOPOLOGY_GATE,
    PodGroup,
    group_of,
    pod_spec,
    pod_status,
)
from multikueue.api.kind import Kind
from multikueue.api.kinds import PODS
from multikueue.api.kueue.compatibility import Compatibility
from multikueue.api.kueue.workload import FAILED, QUEUE_LABEL, SUCCEEDED, Finish, Workload
from multikueue.api.meta import Condition, decoder, encode
from multikueue.api.values.canonical import canonical
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.default_adapter import DefaultAdapter
from multikueue.jobs.framework.pod_set_info import PodSetInfo, PodSetInfoWriter, placed
from multikueue.jobs.kinds.pods import webhook
from multikueue.jobs.kinds.pods.members import role_of
from multikueue.jobs.trees.templates import merge_patch, part, tree_of, with_comparable_containers, with_single_entries

__all__ = [
    "GROUP_POD_SET_INFO",
    "HELD",
    "PLAIN_POD",
    "POD_POD_SET_INFO",
    "GroupPodSetInfoWriter",
    "PlainPod",
    "PodPodSetInfoWriter",
    "at_home",
    "is_fresh",
    "news",
    "pod_set",
]

Tree = dict[str, Any]

_NOT_FOR_REMOTE = ("priority", "preemptionPolicy")
"""Fields that the API server derives from the Pod's PriorityClass. The worker's refuses values other than its own."""

_GATES = (ADMISSION_GATE, TOPOLOGY_GATE)

_fields = decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class PlainPod(DefaultAdapter):
    """The adapter of v1 Pod; has no state. `has_identifier_annotations`: as in `Compatibility`."""

    has_identifier_annotations: bool = True
    selector: ClassVar[str] = f"{MANAGED_LABEL}=true"
    may_resume: ClassVar[bool] = False

    def of(self, compatibility: Compatibility) -> PlainPod:
        """The adapter as another release of Kueue has it."""
        return PlainPod(compatibility.has_identifier_annotations)

    @property
    def kind(self) -> Kind[Any]:
        return PODS

    @property
    def pod_set_info(self) -> PodSetInfoWriter:
        return POD_POD_SET_INFO

    def submitted(self, raw: msgspec.Raw) -> webhook.SubmittedPod:
        return webhook.read_pod(raw, has_identifier_annotations=self.has_identifier_annotations)

    def refusal(self, job: webhook.SubmittedPod, old: webhook.SubmittedPod | None = None) -> str | None:
        return webhook.refusal(job, old)

    def defaults(self, job: webhook.SubmittedPod, *, is_multikueue_queue: bool) -> list[Tree]:  # noqa: ARG002
        return webhook.default_pod(job)

    def queue_name(self, job: AnyJob) -> str:
        labels = job.metadata.labels
        is_ours = labels.get(MANAGED_LABEL) == "true" and not group_of(job.metadata)
        return labels.get(QUEUE_LABEL, "") if is_ours else ""

    def pod_priority_class(self, job: AnyJob) -> str:
        return pod_spec(job).priority_class_name

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        return [pod_set(job)]

    def remote_fields(self, job: AnyJob) -> Tree:
        """All fields, except those that the worker's API server must derive. The copy keeps its gate, which the
        worker's Kueue removes."""
        spec = {key: value for key, value in _fields(job.spec).items() if key not in _NOT_FOR_REMOTE}
        written = tree_of(job.spec)
        compared = with_comparable_containers(written)
        return {"spec": spec | {key: value for key, value in compared.items() if value != written[key]}}

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> Tree:
        """Of a member of a group, too."""
        body = DefaultAdapter.remote_body(  # `slots` makes another class, which super() does not know
            self, job, workload_name=workload_name, origin=origin, attempt=attempt, queue=queue
        )
        group = group_of(job.metadata)
        return body | {"metadata": workloads.with_identifier(body["metadata"], GROUP_LABEL, group)} if group else body

    # --- the status --------------------------------------------------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:
        status = pod_status(job)
        if status.phase not in OVER:
            return None
        return Finish(reason=SUCCEEDED if status.phase == SUCCEEDED_PHASE else FAILED, message=status.message)

    def is_suspended(self, job: AnyJob) -> bool:
        return pod_spec(job).has_gate(ADMISSION_GATE) or pod_status(job).phase in OVER

    def may_be_copied(self, job: AnyJob) -> bool:  # noqa: ARG002  # no controller changes it while it is gated
        return True

    def is_active(self, job: AnyJob) -> bool:
        """True from the moment it has a node: its containers may be about to start."""
        status = pod_status(job)
        return status.phase == RUNNING or (status.phase not in OVER and status.has("PodScheduled"))

    def ready_pods(self, job: AnyJob) -> int:
        status = pod_status(job)
        return 1 if status.phase == SUCCEEDED_PHASE or (status.phase == RUNNING and status.has("Ready")) else 0

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:
        """The whole remote status whenever it is new, once the copy is no longer gated. A copy that failed because it
        is being deleted, as by an eviction on its worker, may run again, so its status is not written."""
        if remote.metadata.deletion_timestamp is not None and pod_status(remote).phase == FAILED_PHASE:
            return None
        if self.finished(local) or (pod_spec(remote).has_gate(ADMISSION_GATE) and not self.finished(remote)):
            return None
        return news(tree_of(local.status), at_home(tree_of(remote.status)))

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:
        """The container statuses stay as last seen: the final ones are unknown."""
        if self.finished(local):
            return None
        ours = tree_of(local.status)
        phase = SUCCEEDED_PHASE if end.reason == SUCCEEDED else FAILED_PHASE
        return news(ours, ours | {"phase": phase, "message": end.message})

    def release_patch(self, job: AnyJob) -> Tree | None:
        meta = job.metadata
        if POD_FINALIZER not in meta.finalizers:
            return None
        kept = [each for each in meta.finalizers if each != POD_FINALIZER]
        return {"metadata": workloads.precisely(job)["metadata"] | {"finalizers": kept}}

    def reset_status_patch(self, job: AnyJob) -> Tree | None:
        """The status as the API server shows it of a gated Pod that never ran."""
        if self.finished(job) or not self.is_suspended(job) or is_fresh(job):
            return None
        status, fresh = tree_of(job.status), {"phase": PENDING, "conditions": [HELD]}
        said = news(status, fresh)
        return self.status_patch(job, said) if said is not None else None

    # --- start and stop ----------------------------------------------------------------------------------------------

    def start_patch(self, job: AnyJob) -> Tree | None:
        if not self.is_suspended(job):
            return None
        kept = [{"name": gate.name} for gate in pod_spec(job).scheduling_gates if gate.name not in _GATES]
        return workloads.precisely(job) | {"spec": {"schedulingGates": kept}}

    def stop_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002
        return None


PLAIN_POD = PlainPod()


def pod_set(pod: AnyJob, *, name: str = "main", count: int = 1) -> Tree:
    return {
        "name": name,
        "count": count,
        "template": {"metadata": {}, "spec": with_single_entries(tree_of(pod.spec))},
        "topologyRequest": workloads.topology_request(pod.metadata.annotations, pod_index_label=POD_INDEX_LABEL),
    }


HELD = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""The condition that the API server sets on a gated Pod."""


def is_fresh(pod: AnyJob) -> bool:
    status = pod_status(pod)
    return status.phase in ("", PENDING) and status.start_time is None and not status.has("PodScheduled")


def at_home(status: Tree) -> Tree:
    """The status for the local Pod. A PodScheduled that is not True gets the reason SchedulingGated: for Unschedulable,
    a cluster autoscaler here would add a node."""
    conditions = status.get("conditions") or []
    unscheduled = [each for each in conditions if each.get("type") == "PodScheduled" and each.get("status") != "True"]
    if not unscheduled:
        return status
    explained = [each | {"reason": HELD["reason"]} if each in unscheduled else each for each in conditions]
    return status | {"conditions": explained}


def news(ours: Tree, theirs: Tree) -> msgspec.Raw | None:
    """The status `theirs` for a Pod whose own is `ours`; None if it is not new. A Pod's QoS class never changes."""
    kept = {"qosClass": ours["qosClass"]} if "qosClass" in ours else {}
    wanted = {key: value for key, value in theirs.items() if key != "qosClass"} | kept
    return msgspec.Raw(encode(wanted)) if canonical(wanted) != canonical(ours) else None


class PodPodSetInfoWriter:
    """Pod set info of one Pod; has no state."""

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        place = next(iter(places.values()), None)
        return _placed(job, patch, place) if place is not None else patch

    def stop_patch(self, job: AnyJob, patch: Tree, workload: Workload | None) -> Tree:  # noqa: ARG002
        return patch

    def pod_set_info_of(self, job: AnyJob) -> str:  # noqa: ARG002
        return ""

    def restoration(self, job: AnyJob, workload: Workload | None) -> None:  # noqa: ARG002
        return None


class GroupPodSetInfoWriter(PodPodSetInfoWriter):
    """Pod set info of a group: each member gets that of its role; if there is only one for all, that one."""

    def start_patch(self, job: AnyJob, patch: Tree, places: Mapping[str, PodSetInfo]) -> Tree:
        members = job.members if isinstance(job, PodGroup) else ()
        only = next(iter(places.values())) if len(places) == 1 else None
        found = dict(patch.get("members", {}))
        for member in members:
            name, place = member.metadata.name, only or places.get(role_of(member))
            if name in found and place is not None:
                found[name] = _placed(member, found[name], place)
        return patch | {"members": found} if found else patch


POD_POD_SET_INFO = PodPodSetInfoWriter()
GROUP_POD_SET_INFO = GroupPodSetInfoWriter()


def _placed(pod: AnyJob, patch: Tree, place: PodSetInfo) -> Tree:
    meta = {"labels": pod.metadata.labels, "annotations": pod.metadata.annotations}
    before = {"metadata": {key: text for key, text in meta.items() if text}, "spec": tree_of(pod.spec)}
    change = merge_patch(before, placed(before, place))
    return patch | {name: part(patch, name) | part(change, name) for name in ("metadata", "spec") if name in change}
