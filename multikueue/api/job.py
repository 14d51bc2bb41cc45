"""batch/v1 Job. Spec and status stay raw (they are copied whole); `job_spec` and `job_status` look inside."""

from __future__ import annotations

from datetime import datetime

import msgspec

from multikueue.api.meta import ConditionStatus, Object, Value, decoder


class JobSpec(Value):
    parallelism: int = 1
    completions: int | None = None
    suspend: bool = False
    managed_by: str | None = None
    template: msgspec.Raw = msgspec.Raw(b"{}")


class JobCondition(Value):
    """batch/v1 leaves out what is empty, unlike metav1.Condition."""

    type: str = ""
    status: ConditionStatus = "Unknown"
    reason: str = ""
    message: str = ""


class UncountedPods(Value):
    """Pods that ended and are not in the counts yet, by UID."""

    succeeded: tuple[str, ...] = ()


class JobStatus(Value):
    conditions: tuple[JobCondition, ...] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    uncounted_terminated_pods: UncountedPods = UncountedPods()


class Job(Object):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


def job_spec(job: Job) -> JobSpec:
    return decoder(JobSpec)(job.spec)


def job_status(job: Job) -> JobStatus:
    return decoder(JobStatus)(job.status)
