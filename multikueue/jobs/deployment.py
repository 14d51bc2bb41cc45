"""Deployments: only what the admission webhook does. Their Pods, one by one, are the jobs (contract 5.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from multikueue.api.kinds import DEPLOYMENTS, Kind
from multikueue.api.meta import Object
from multikueue.api.pod import MANAGED_LABEL, PARENT_ANNOTATION
from multikueue.api.workload import PRIORITY_CLASS_LABEL, QUEUE_LABEL
from multikueue.jobs.defaulting import Patch, refusal_of_any
from multikueue.jobs.pod_defaulting import OwnedMetadata, SubmittedOwned

__all__ = ["DEPLOYMENT", "Deployment", "SubmittedDeployment"]

FRAMEWORK = "deployment"


class _Template(msgspec.Struct, frozen=True):
    metadata: OwnedMetadata | None = None


class _Spec(msgspec.Struct, frozen=True):
    template: _Template | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    ready_replicas: int | None = None


class SubmittedDeployment(SubmittedOwned, frozen=True):
    """A Deployment as an admission request shows it."""

    spec: _Spec | None = None
    status: _Status | None = None

    @property
    def suspended(self) -> bool:
        """As long as none of its Pods is ready, its queue may change."""
        return not (self.status and self.status.ready_replicas)

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
        if old is None:
            return refusal_of_any(job)
        if old.queue and not job.queue:
            return f"metadata.labels[{QUEUE_LABEL}]: can be changed but not removed"
        ready = msgspec.structs.replace(job, status=old.status)
        return refusal_of_any(ready, old)

    def defaults(self, job: SubmittedDeployment, *, queue_uses_multikueue: bool) -> list[Patch]:  # noqa: ARG002
        """The JSON patch by which its Pods come into the queue: the marks that they are held by."""
        if not job.queue or job.spec is None:
            return []
        labels, annotations = job.template.labels or {}, job.template.annotations or {}
        wanted = {MANAGED_LABEL: "true", QUEUE_LABEL: job.queue}
        if job.labels.get(PRIORITY_CLASS_LABEL):
            wanted[PRIORITY_CLASS_LABEL] = job.labels[PRIORITY_CLASS_LABEL]
        patches = []
        if labels | wanted != labels:
            patches.append(_added("labels", labels | wanted))
        if annotations.get(PARENT_ANNOTATION) != FRAMEWORK:
            patches.append(_added("annotations", annotations | {PARENT_ANNOTATION: FRAMEWORK}))
        return patches


DEPLOYMENT = Deployment()


def _added(field: str, value: dict[str, Any]) -> Patch:
    # "add" also replaces what is there.
    return {"op": "add", "path": f"/spec/template/metadata/{field}", "value": value}
