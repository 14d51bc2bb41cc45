"""Deployments: the admission webhook's part only. Their Pods are jobs, one by one (contract 5.4).

The rules for pod templates apply to StatefulSets too.
"""

from __future__ import annotations

from typing import Any

import msgspec

from multikueue.api.jobs.pod import MANAGED_LABEL, PARENT_ANNOTATION
from multikueue.api.kind import Kind
from multikueue.api.kinds import DEPLOYMENTS
from multikueue.api.kueue.workload import PRIORITY_CLASS_LABEL, QUEUE_LABEL
from multikueue.api.meta import Object
from multikueue.jobs.framework.webhook import Patch, refusal_of_any
from multikueue.jobs.kinds.pods.webhook import OwnedMetadata, SubmittedOwned

__all__ = ["DEPLOYMENT", "Deployment", "SubmittedDeployment", "marked", "refusal_of_template"]

FRAMEWORK = "deployment"


class _Template(msgspec.Struct, frozen=True):
    metadata: OwnedMetadata | None = None
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None
    template: _Template | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    replicas: int | None = None
    ready_replicas: int | None = None


class SubmittedDeployment(SubmittedOwned, frozen=True):
    """A Deployment, or a StatefulSet, as an admission request shows it."""

    spec: _Spec | None = None
    status: _Status | None = None

    @property
    def is_suspended(self) -> bool:
        """Whether none of its Pods is ready: until then its queue may change."""
        return not (self.status and self.status.ready_replicas)

    @property
    def replicas(self) -> int:
        replicas = self.spec.replicas if self.spec else None
        return 1 if replicas is None else replicas

    @property
    def template(self) -> OwnedMetadata:
        template = self.spec.template if self.spec else None
        return (template.metadata if template else None) or OwnedMetadata()


_read = msgspec.json.Decoder(SubmittedDeployment).decode


class Deployment(msgspec.Struct, frozen=True):
    """The webhook's part of apps/v1 Deployment; has no state."""

    @property
    def kind(self) -> Kind[Object]:
        return DEPLOYMENTS

    def submitted(self, raw: msgspec.Raw) -> SubmittedDeployment:
        return _read(raw)

    def refusal(self, job: SubmittedDeployment, old: SubmittedDeployment | None = None) -> str | None:
        return refusal_of_template(job, old)

    def defaults(self, job: SubmittedDeployment, *, is_multikueue_queue: bool) -> list[Patch]:  # noqa: ARG002
        """The JSON patch that puts its Pods into the queue, by the labels by which the webhook gates them."""
        wanted = {MANAGED_LABEL: "true", QUEUE_LABEL: job.queue}
        if job.labels.get(PRIORITY_CLASS_LABEL):
            wanted[PRIORITY_CLASS_LABEL] = job.labels[PRIORITY_CLASS_LABEL]
        return marked(job, wanted, parent=FRAMEWORK)


DEPLOYMENT = Deployment()


def refusal_of_template(job: SubmittedDeployment, old: SubmittedDeployment | None) -> str | None:
    """Why the object, new or changed, is refused by the rules about queue labels; None if it is allowed."""
    if old is None:
        return refusal_of_any(job)
    if old.queue and not job.queue:
        return f"metadata.labels[{QUEUE_LABEL}]: can be changed but not removed"
    ready = msgspec.structs.replace(job, status=old.status)
    return refusal_of_any(ready, old)


def marked(job: SubmittedDeployment, wanted: dict[str, str], *, parent: str) -> list[Patch]:
    """The JSON patch that sets these labels and the parent's annotation in the pod template; empty without a queue."""
    if not job.queue or job.spec is None:
        return []
    labels, annotations = job.template.labels or {}, job.template.annotations or {}
    patches = []
    if labels | wanted != labels:
        patches.append(_added("labels", labels | wanted))
    if annotations.get(PARENT_ANNOTATION) != parent:
        patches.append(_added("annotations", annotations | {PARENT_ANNOTATION: parent}))
    return patches


def _added(field: str, value: dict[str, Any]) -> Patch:
    # "add" also replaces an existing value.
    return {"op": "add", "path": f"/spec/template/metadata/{field}", "value": value}
