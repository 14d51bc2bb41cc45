"""Jobs of any kind, batch/v1 Job and apps/v1 StatefulSet. Spec and status stay raw, since they are copied whole.

`job_spec` and `job_status` decode those of a batch Job; for most other kinds the adapter does.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple, cast

import msgspec

from multikueue.api.meta import Decoded, Int64, Object, ObjectKey, ObjectMeta, Time, Value, decoder


class JobKey(NamedTuple):
    """One job among the jobs of all kinds; `kind` is the name of its kind (`Kind.name`)."""

    kind: str
    namespace: str
    name: str

    @property
    def object(self) -> ObjectKey:
        return tuple.__new__(ObjectKey, self[1:])  # as `Object.key`

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class AnyJob(Object):
    """The common part of jobs. Each kind has a type of its own, by which its adapter is found."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class CustomJob(AnyJob):
    """A job of a kind that a CustomResourceDefinition defines.

    `others` are all further top-level fields, as one object: copies have them too. `runtime` is the spec of the object
    that describes its pods, where the kind leaves that to another object; null until that was looked up. Neither is a
    field of the job itself: no server sends one of such a name.
    """

    others: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="*others")
    runtime: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="*runtime")


class JobSpec(Value):
    parallelism: Int64 = 1
    completions: Int64 | None = None
    completion_mode: str | None = None
    suspend: bool = False
    managed_by: str | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class JobCondition(Value):
    """batch/v1 omits empty fields, unlike metav1.Condition, and no API server checks its `status`."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""


class UncountedPods(Value):
    """UIDs of pods that have ended and are not in the counts yet."""

    succeeded: tuple[str, ...] = ()


class JobStatus(Value):
    conditions: tuple[JobCondition, ...] = ()
    start_time: Time | None = None
    completion_time: Time | None = None
    active: Int64 = 0
    ready: Int64 = 0
    terminating: Int64 = 0
    succeeded: Int64 = 0
    failed: Int64 = 0
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods = UncountedPods()


def job_type(kind: str) -> type[CustomJob]:
    """A new type for the jobs of that kind."""
    made = msgspec.defstruct(
        kind, [], bases=(CustomJob,), frozen=True, gc=False, omit_defaults=True, rename="camel", kw_only=True
    )
    return cast("type[CustomJob]", made)


class Job(AnyJob):
    """batch/v1 Job."""


_SPECS: Decoded[AnyJob, JobSpec] = Decoded(JobSpec, attrgetter("spec"), most=1024, most_bytes=2**19)
_STATUSES: Decoded[AnyJob, JobStatus] = Decoded(JobStatus, attrgetter("status"), most=1024, most_bytes=2**19)

job_spec = _SPECS.of
job_status = _STATUSES.of
"""The typed views of the raw spec and status, decoded once while they are in use."""


class StatefulSet(AnyJob):
    """apps/v1 StatefulSet."""


class PodTemplate(Value):
    metadata: ObjectMeta = ObjectMeta()
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class StatefulSetSpec(Value):
    replicas: Int64 = 1
    template: PodTemplate = PodTemplate()


class StatefulSetStatus(Value):
    ready_replicas: Int64 = 0


def stateful_set_spec(job: AnyJob) -> StatefulSetSpec:
    return decoder(StatefulSetSpec)(job.spec)


def stateful_set_status(job: AnyJob) -> StatefulSetStatus:
    return decoder(StatefulSetStatus)(job.status)
