"""StatefulSets: one Workload for all their Pods, and a copy on a worker, whose Pods the Kueue there holds and lets go.

Nothing holds a StatefulSet but the gate of each of its Pods, which stay at home for as long as it is dispatched. So there is
nothing to start or stop here, and the controller at home, which sees those Pods, would undo any status brought back. Where it
is not dispatched, its Pods are let go as a group that has this Workload (`pod_group`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from multikueue.api.job import AnyJob
from multikueue.api.kinds import STATEFUL_SETS, Kind
from multikueue.api.meta import Condition, encode
from multikueue.api.pod import PARENT_ANNOTATION
from multikueue.api.pod import STATEFUL_SET as FRAMEWORK
from multikueue.api.stateful_set import stateful_set_spec, stateful_set_status
from multikueue.api.workload import (
    JOB_OWNER_GVK_ANNOTATION,
    JOB_OWNER_NAME_ANNOTATION,
    PREBUILT_LABEL,
    QUEUE_LABEL,
    Finish,
    ReclaimablePod,
    Workload,
    workload_spec,
)
from multikueue.jobs import workloads
from multikueue.jobs.defaulting import Patch
from multikueue.jobs.deployment import SubmittedDeployment, marked, refusal_of_template
from multikueue.jobs.pod_roles import role_hash
from multikueue.jobs.priority import Priority
from multikueue.jobs.templates import is_same_template, tree_of, with_single_variables

__all__ = ["STATEFUL_SET", "StatefulSets"]

Tree = dict[str, Any]

POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_LONGEST_NAME = workloads.LONGEST_NAME - len("statefulset--12345")
"""Kueue finds the Workload by the name it makes of this one, and that is a label of the Pods."""

_GVK = f"{STATEFUL_SETS.api_version}, Kind={STATEFUL_SETS.kind}"


@dataclass(frozen=True, slots=True)
class StatefulSets:
    """The adapter of apps/v1 StatefulSet; has no state."""

    selector: ClassVar[str] = QUEUE_LABEL
    external: ClassVar[bool] = False
    resumes: ClassVar[bool] = True
    mirrors: ClassVar[bool] = False

    @property
    def kind(self) -> Kind[Any]:
        return STATEFUL_SETS

    @property
    def runtimes(self) -> None:
        return None

    @property
    def placing(self) -> None:
        return None

    # --- the webhook -------------------------------------------------------------------------------------------------

    def submitted(self, raw: msgspec.Raw) -> SubmittedDeployment:
        return _read(raw)

    def refusal(self, job: SubmittedDeployment, old: SubmittedDeployment | None = None) -> str | None:
        if _is_anothers(job):
            return None
        own = _problems(job) if old is None else _change_problems(job, old)
        return "; ".join(filter(None, (refusal_of_template(job, old), *own))) or None

    def defaults(self, job: SubmittedDeployment, *, queue_uses_multikueue: bool) -> list[Patch]:  # noqa: ARG002
        """The JSON patch by which each of its Pods comes to the webhook, and is known there as its own."""
        return [] if _is_anothers(job) else marked(job, {QUEUE_LABEL: job.queue}, parent=FRAMEWORK)

    # --- whose it is -------------------------------------------------------------------------------------------------

    def queue_name(self, job: AnyJob) -> str:
        """Empty also where the webhook has not marked its Pods: nothing would hold them."""
        annotations = stateful_set_spec(job).template.metadata.annotations
        return job.metadata.labels.get(QUEUE_LABEL, "") if annotations.get(PARENT_ANNOTATION) == FRAMEWORK else ""

    def managed_by(self, job: AnyJob) -> str | None:  # noqa: ARG002
        return None

    def unmanaged_reason(self, job: AnyJob) -> str | None:  # noqa: ARG002
        return None

    def pod_priority_class(self, job: AnyJob) -> str:
        return str(tree_of(stateful_set_spec(job).template.spec).get("priorityClassName") or "")

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
            pod_sets=[_pod_set(job)],
            priority=priority,
        )
        body["metadata"]["annotations"] |= {
            JOB_OWNER_GVK_ANNOTATION: _GVK,
            JOB_OWNER_NAME_ANNOTATION: job.metadata.name,
        }
        return body

    def matches(self, job: AnyJob, workload: Workload) -> bool:
        spec, own = workload_spec(workload), stateful_set_spec(job)
        if not workloads.may_be_of(workload, spec, job) or [each.count for each in spec.pod_sets] != [own.replicas]:
            return False
        ours, theirs = encode({"spec": own.template.spec}), bytes(spec.pod_sets[0].template)
        return is_same_template(ours, theirs, workload.has("Admitted"))

    # --- the copy on a worker ----------------------------------------------------------------------------------------

    def remote_body(
        self, job: AnyJob, *, workload_name: str, origin: str, attempt: str, queue: str | None = None
    ) -> Tree:
        return {
            "apiVersion": STATEFUL_SETS.api_version,
            "kind": STATEFUL_SETS.kind,
            "metadata": workloads.remote_metadata(
                job, workload_name=workload_name, origin=origin, attempt=attempt, queue=queue
            ),
            "spec": job.spec,
        }

    # --- the status, which is never over, and stays where it is ------------------------------------------------------

    def finished(self, job: AnyJob) -> Finish | None:  # noqa: ARG002
        return None

    def is_suspended(self, job: AnyJob) -> bool:  # noqa: ARG002  # its Pods may be held at any time
        return True

    def may_be_copied(self, job: AnyJob) -> bool:  # noqa: ARG002  # nobody writes into it
        return True

    def is_active(self, job: AnyJob) -> bool:
        """By those that are ready: the others may be held."""
        return stateful_set_status(job).ready_replicas > 0

    def ready_pods(self, job: AnyJob) -> int:
        ready = stateful_set_status(job).ready_replicas
        return ready if ready >= stateful_set_spec(job).replicas else 0

    def reclaimable(self, job: AnyJob) -> tuple[ReclaimablePod, ...]:  # noqa: ARG002
        return ()

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

_read = msgspec.json.Decoder(SubmittedDeployment).decode


def _pod_set(job: AnyJob) -> Tree:
    own = stateful_set_spec(job)
    annotations = own.template.metadata.annotations
    return {
        "name": "main",
        "count": own.replicas,
        "template": {"metadata": {}, "spec": with_single_variables(tree_of(own.template.spec))},
        "topologyRequest": workloads.topology_request(annotations, pod_index_label=POD_INDEX_LABEL),
    }


def _is_anothers(job: SubmittedDeployment) -> bool:
    """Whether something else that is in a queue, such as a LeaderWorkerSet, has made it."""
    return (job.template.annotations or {}).get(PARENT_ANNOTATION, FRAMEWORK) != FRAMEWORK


def _problems(job: SubmittedDeployment) -> Iterator[str]:
    if len(job.metadata.name or "") > _LONGEST_NAME:
        yield f"metadata.name: expected at most {_LONGEST_NAME} characters, for the name of its Workload is made of it"
    if job.labels.get(PREBUILT_LABEL):
        yield f"metadata.labels[{PREBUILT_LABEL}]: a StatefulSet has the Workload that is made for it"


def _shape(job: SubmittedDeployment) -> str:
    template = job.spec.template if job.spec else None
    return role_hash(tree_of(template.spec)) if template else ""


def _change_problems(job: SubmittedDeployment, old: SubmittedDeployment) -> Iterator[str]:
    """What its Workload was made from stays; it can be scaled down to zero, and up again from there."""
    if _shape(job) != _shape(old):
        yield "spec.template.spec: what decides about its admission, such as requests, can't change in a queue"
    if job.replicas and old.replicas and job.replicas != old.replicas:
        yield "spec.replicas: can change only to and from 0 in a queue"
    if job.replicas and not old.replicas and job.status and job.status.replicas:
        yield "spec.replicas: scaling down is still in progress"
