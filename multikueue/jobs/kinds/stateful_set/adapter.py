"""StatefulSets: one Workload for all their Pods, and a copy on a worker, whose Kueue gates and releases its Pods.

Only the gate of each Pod holds a StatefulSet, and local Pods stay gated while it is dispatched. So nothing is started
or stopped here, and the local StatefulSet controller, which sees those Pods, would undo any status copied back. Where
it is not dispatched, its Pods are released as a group that has this Workload (`pods.group`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from multikueue.api.jobs.job import AnyJob, stateful_set_spec, stateful_set_status
from multikueue.api.jobs.pod import PARENT_ANNOTATION
from multikueue.api.jobs.pod import STATEFUL_SET as FRAMEWORK
from multikueue.api.kind import Kind
from multikueue.api.kinds import STATEFUL_SETS
from multikueue.api.kueue.workload import (
    JOB_OWNER_GVK_ANNOTATION,
    JOB_OWNER_NAME_ANNOTATION,
    ORIGIN_UID_ANNOTATION,
    QUEUE_LABEL,
    Finish,
)
from multikueue.api.meta import Condition
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.default_adapter import DefaultAdapter
from multikueue.jobs.framework.priority import Priority
from multikueue.jobs.framework.webhook import Patch, prebuilt_marks
from multikueue.jobs.kinds.deployment import SubmittedDeployment, marked, refusal_of_template
from multikueue.jobs.kinds.pods.members import role_hash
from multikueue.jobs.trees.templates import tree_of, with_single_entries

__all__ = ["STATEFUL_SET", "StatefulSets", "default_stateful_set", "read", "refusal"]

Tree = dict[str, Any]

POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_GVK = f"{STATEFUL_SETS.api_version}, Kind={STATEFUL_SETS.kind}"


@dataclass(frozen=True, slots=True)
class StatefulSets(DefaultAdapter):
    """The adapter of apps/v1 StatefulSet; has no state."""

    selector: ClassVar[str] = QUEUE_LABEL
    is_mirrored: ClassVar[bool] = False

    @property
    def kind(self) -> Kind[Any]:
        return STATEFUL_SETS

    def submitted(self, raw: msgspec.Raw) -> SubmittedDeployment:
        return read(raw)

    def refusal(self, job: SubmittedDeployment, old: SubmittedDeployment | None = None) -> str | None:
        return refusal(job, old)

    def defaults(self, job: SubmittedDeployment, *, is_multikueue_queue: bool) -> list[Patch]:  # noqa: ARG002
        return default_stateful_set(job)

    def queue_name(self, job: AnyJob) -> str:
        """Empty also if the webhook has not marked the pod template: nothing would gate the Pods."""
        annotations = stateful_set_spec(job).template.metadata.annotations
        return job.metadata.labels.get(QUEUE_LABEL, "") if annotations.get(PARENT_ANNOTATION) == FRAMEWORK else ""

    # --- the Workload ------------------------------------------------------------------------------------------------

    def workload_name(self, job: AnyJob) -> str:
        return workloads.stateful_set_workload_name(job.metadata.name)

    def waits_for(self, job: AnyJob) -> str | None:
        return "" if stateful_set_spec(job).replicas else None

    def workload_body(self, job: AnyJob, *, priority: Priority) -> Tree:
        body = workloads.group_workload_body(
            job,
            name=self.workload_name(job),
            owners=[workloads.member_reference(STATEFUL_SETS, job.metadata)],
            pod_sets=self.pod_sets(job),
            priority=priority,
        )
        body["metadata"]["annotations"] |= {
            JOB_OWNER_GVK_ANNOTATION: _GVK,
            JOB_OWNER_NAME_ANNOTATION: job.metadata.name,
        }
        return body

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> Tree:
        """With the UID of the local one: from it a worker's Kueue (0.17) makes the name of the Workload of its Pods, as
        the Kueue of the manager cluster did. It tries the name that we make next."""
        copy = DefaultAdapter.remote_body(
            self, job, workload_name=workload_name, origin=origin, attempt=attempt, queue=queue
        )
        copy["metadata"]["annotations"] |= {ORIGIN_UID_ANNOTATION: job.metadata.uid}
        return copy

    def pod_sets(self, job: AnyJob) -> list[Tree]:
        own = stateful_set_spec(job)
        annotations = own.template.metadata.annotations
        template = {"metadata": {}, "spec": with_single_entries(tree_of(own.template.spec))}
        topology = workloads.topology_request(annotations, pod_index_label=POD_INDEX_LABEL)
        return [{"name": "main", "count": own.replicas, "template": template, "topologyRequest": topology}]

    # --- the status: it never finishes, and is not copied -------------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:  # noqa: ARG002
        return None

    def is_suspended(self, job: AnyJob) -> bool:  # noqa: ARG002  # its Pods may be gated at any time
        return True

    def may_be_copied(self, job: AnyJob) -> bool:  # noqa: ARG002  # no controller writes pod set info into it
        return True

    def is_active(self, job: AnyJob) -> bool:
        """Whether it has ready Pods: the others may be gated."""
        return stateful_set_status(job).ready_replicas > 0

    def ready_pods(self, job: AnyJob) -> int:
        ready = stateful_set_status(job).ready_replicas
        return ready if ready >= stateful_set_spec(job).replicas else 0

    def status_to_copy(self, local: AnyJob, remote: AnyJob) -> msgspec.Raw | None:  # noqa: ARG002
        return None

    def status_of_end(self, local: AnyJob, end: Condition) -> msgspec.Raw | None:  # noqa: ARG002
        return None

    def status_patch(self, local: AnyJob, status: msgspec.Raw) -> Tree:
        return workloads.precisely(local) | {"status": status}

    def start_patch(self, job: AnyJob) -> Tree | None:  # noqa: ARG002
        return None

    stop_patch = release_patch = reset_status_patch = start_patch


STATEFUL_SET = StatefulSets()


_LONGEST_NAME = workloads.LONGEST_NAME - len("statefulset--12345")
"""Kueue derives the Workload's name from the StatefulSet's, and a label of the Pods holds it."""

read = msgspec.json.Decoder(SubmittedDeployment).decode


def refusal(job: SubmittedDeployment, old: SubmittedDeployment | None = None) -> str | None:
    """Why the StatefulSet, new or changed from `old`, is refused; None if it is allowed."""
    if _is_anothers(job):
        return None
    own = _problems(job) if old is None else _change_problems(job, old)
    return "; ".join(filter(None, (refusal_of_template(job, old), *own))) or None


def default_stateful_set(job: SubmittedDeployment) -> list[Patch]:
    """The JSON patch that puts its Pods into the queue, and names it as their parent."""
    return [] if _is_anothers(job) else marked(job, {QUEUE_LABEL: job.queue}, parent=FRAMEWORK)


def _is_anothers(job: SubmittedDeployment) -> bool:
    """Whether another object in a queue, such as a LeaderWorkerSet, created it."""
    return (job.template.annotations or {}).get(PARENT_ANNOTATION, FRAMEWORK) != FRAMEWORK


def _problems(job: SubmittedDeployment) -> Iterator[str]:
    if len(job.metadata.name or "") > _LONGEST_NAME:
        yield f"metadata.name: expected at most {_LONGEST_NAME} characters, for the name of its Workload is made of it"
    for where, name in prebuilt_marks(job):
        if name:
            yield f"metadata.{where}: a StatefulSet has the Workload that is made for it"


def _shape(job: SubmittedDeployment) -> str:
    template = job.spec.template if job.spec else None
    return role_hash(tree_of(template.spec)) if template else ""


def _change_problems(job: SubmittedDeployment, old: SubmittedDeployment) -> Iterator[str]:
    """The fields its Workload was made from are immutable; it can be scaled to zero, and up again from there."""
    if _shape(job) != _shape(old):
        yield "spec.template.spec: what decides about its admission, such as requests, can't change in a queue"
    if job.replicas and old.replicas and job.replicas != old.replicas:
        yield "spec.replicas: can change only to and from 0 in a queue"
    if job.replicas and not old.replicas and job.status and job.status.replicas:
        yield "spec.replicas: scaling down is still in progress"
