"""Deployments: only what the admission webhook does. Their Pods, one by one, are the jobs (contract 5.4).

What it does to pod templates is the same for StatefulSets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from multikueue.api.kinds import DEPLOYMENTS, Kind
from multikueue.api.meta import Object
from multikueue.api.pod import MANAGED_LABEL, PARENT_ANNOTATION
from multikueue.api.workload import PRIORITY_CLASS_LABEL, QUEUE_LABEL
from multikueue.jobs.framework.webhook import Patch, refusal_of_any
from multikueue.jobs.pods.webhook import OwnedMetadata, SubmittedOwned

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
    def suspended(self) -> bool:
        """As long as none of its Pods is ready, its queue may change."""
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


@dataclass(frozen=True, slots=True)
class Deployment:
    """What the webhook does to apps/v1 Deployment; has no state."""

    @property
    def kind(self) -> Kind[Object]:
        return DEPLOYMENTS

    def submitted(self, raw: msgspec.Raw) -> SubmittedDeployment:
        return _read(raw)

    def refusal(self, job: SubmittedDeployment, old: SubmittedDeployment | None = None) -> str | None:
        return refusal_of_template(job, old)

    def defaults(self, job: SubmittedDeployment, *, queue_uses_multikueue: bool) -> list[Patch]:  # noqa: ARG002
        """The JSON patch by which its Pods come into the queue: the marks that they are held by."""
        wanted = {MANAGED_LABEL: "true", QUEUE_LABEL: job.queue}
        if job.labels.get(PRIORITY_CLASS_LABEL):
            wanted[PRIORITY_CLASS_LABEL] = job.labels[PRIORITY_CLASS_LABEL]
        return marked(job, wanted, parent=FRAMEWORK)


DEPLOYMENT = Deployment()


def refusal_of_template(job: SubmittedDeployment, old: SubmittedDeployment | None) -> str | None:
    """Why it must not be, new or changed, as far as its queue and the like are concerned."""
    if old is None:
        return refusal_of_any(job)
    if old.queue and not job.queue:
        return f"metadata.labels[{QUEUE_LABEL}]: can be changed but not removed"
    ready = msgspec.structs.replace(job, status=old.status)
    return refusal_of_any(ready, old)


def marked(job: SubmittedDeployment, wanted: dict[str, str], *, parent: str) -> list[Patch]:
    """The JSON patch that gives its pod template these labels, and says whose the Pods are; empty without a queue."""
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
    # "add" also replaces what is there.
    return {"op": "add", "path": f"/spec/template/metadata/{field}", "value": value}
