"""apps/v1 StatefulSet: the parts of spec and status that we read."""

from __future__ import annotations

import msgspec

from multikueue.api.jobs.job import AnyJob
from multikueue.api.meta import Int64, ObjectMeta, Value, decoder


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
