"""Watch events of Jobs and Workloads, decoded no further than the driver looks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

__all__ = ["JobEvent", "WorkloadEvent", "completion", "job_event", "workload_event"]


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str


class Owner(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resource_version: str
    owner_references: tuple[Owner, ...] = ()


class JobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    suspend: bool = False


class JobStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    conditions: tuple[Condition, ...] = ()


class Job(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: Metadata
    spec: JobSpec
    status: JobStatus = JobStatus()


class WorkloadStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    conditions: tuple[Condition, ...] = ()
    cluster_name: str | None = None
    nominated_cluster_names: tuple[str, ...] = ()


class Workload(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    metadata: Metadata
    status: WorkloadStatus = WorkloadStatus()


EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class JobEvent(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: EventType
    object: Job

    def has(self, condition: str) -> bool:
        return _is_true(self.object.status.conditions, condition)


class WorkloadEvent(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: EventType
    object: Workload

    def has(self, condition: str) -> bool:
        return _is_true(self.object.status.conditions, condition)

    @property
    def job(self) -> str:
        """The name of the workload's job, its owner."""
        owners = self.object.metadata.owner_references
        return owners[0].name if owners else ""


job_event = msgspec.json.Decoder(JobEvent).decode
workload_event = msgspec.json.Decoder(WorkloadEvent).decode


def completion(now: datetime) -> bytes:
    """The status patch that ends a Job of one pod, in one write, without a Job controller."""
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    stamps = {"lastProbeTime": stamp, "lastTransitionTime": stamp}
    ends = [
        {"type": name, "status": "True", "reason": "CompletionsReached", "message": "", **stamps}
        for name in ("SuccessCriteriaMet", "Complete")
    ]
    pods = {"succeeded": 1, "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    status = {"startTime": stamp, "completionTime": stamp, "conditions": ends, **pods}
    return msgspec.json.encode({"status": status})


def _is_true(conditions: tuple[Condition, ...], name: str) -> bool:
    return any(condition.type == name and condition.status == "True" for condition in conditions)
