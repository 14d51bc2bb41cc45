"""A kind of jobs that a CustomResourceDefinition brings, as simple as can be: a batch Job by another name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from multikueue.api.jobs.job import AnyJob, job_type
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectMeta
from multikueue.jobs.integrations.frameworks import Adapters
from multikueue.jobs.kinds.batch_job.adapter import BATCH_JOB, BatchJob

GADGETS: Kind[Any] = Kind("example.com", "v1", "gadgets", "Gadget", True, job_type("Gadget"))


@dataclass(frozen=True, slots=True)
class GadgetJob(BatchJob):
    """Its adapter."""

    kind: ClassVar[Kind[Any]] = GADGETS


WITH_GADGETS = Adapters((BATCH_JOB, GadgetJob()))


def gadget(name: str, *, version: int = 1, labels: dict[str, str] | None = None) -> AnyJob:
    meta = ObjectMeta(
        name=name, namespace="default", uid=f"gadget-{name}", resource_version=str(version), labels=labels or {}
    )
    return GADGETS.type(metadata=meta)  # type: ignore[no-any-return]
