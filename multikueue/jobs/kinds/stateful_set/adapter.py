"""StatefulSets: one Workload for all their Pods, and a copy on a worker, whose Kueue gates and releases its Pods.

Only the gate of each Pod holds a StatefulSet, and local Pods stay gated while it is dispatched. So nothing is started
or stopped here, and the local StatefulSet controller, which sees those Pods, would undo any status copied back. Where
it is not dispatched, its Pods are released as a group that has this Workload (`pods.group`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.jobs.pod import PARENT_ANNOTATION
from multikueue.api.jobs.pod import STATEFUL_SET as FRAMEWORK
from multikueue.api.jobs.stateful_set import stateful_set_spec, stateful_set_status
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
from multikueue.jobs.framework.webhook import Patch
from multikueue.jobs.kinds.deployment import SubmittedDeployment
from multikueue.jobs.kinds.stateful_set import webhook
from multikueue.jobs.trees.templates import tree_of, with_single_entries

__all__ = ["STATEFUL_SET", "StatefulSets"]

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
        return webhook.read(raw)

    def refusal(self, job: SubmittedDeployment, old: SubmittedDeployment | None = None) -> str | None:
        return webhook.refusal(job, old)

    def defaults(self, job: SubmittedDeployment, *, is_multikueue_queue: bool) -> list[Patch]:  # noqa: ARG002
        return webhook.default_stateful_set(job)

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
