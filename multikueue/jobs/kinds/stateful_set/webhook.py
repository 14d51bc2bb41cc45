"""The admission webhook for StatefulSets: refusals, and the marks by which their Pods are gated (quota-engine 6.1)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from multikueue.api.jobs.pod import PARENT_ANNOTATION
from multikueue.api.jobs.pod import STATEFUL_SET as FRAMEWORK
from multikueue.api.kueue.workload import QUEUE_LABEL
from multikueue.jobs.framework import workloads
from multikueue.jobs.framework.webhook import Patch, prebuilt_marks
from multikueue.jobs.kinds.deployment import SubmittedDeployment, marked, refusal_of_template
from multikueue.jobs.kinds.pods.roles import role_hash
from multikueue.jobs.trees.templates import tree_of

__all__ = ["default_stateful_set", "read", "refusal"]

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
