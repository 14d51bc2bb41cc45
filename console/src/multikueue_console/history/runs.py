"""A run is one attempt of a workload, from its reservation of quota to its end."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

__all__ = ["Gap", "Outcome", "Run", "RunEnd", "RunNews"]


class Outcome(StrEnum):
    """How a run ended. `UNKNOWN`: it was gone when the console looked again."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    REPLACED = "replaced"
    DELETED = "deleted"
    UNKNOWN = "unknown"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run. Its key is the UID of the workload and the mark of the attempt.

    `cpu` is in cores, `gpu` in devices. `queued_at` is None where the workload waited before (the store knows when its last
    run ended), and `reserved_at` where only the end was seen. `started_at` is the time of admission: a worker was chosen.
    """

    workload: str
    attempt: str
    namespace: str
    name: str
    queue: str = ""
    cluster_queue: str = ""
    user: str = ""
    cluster: str = ""
    cpu: float = 0.0
    gpu: float = 0.0
    queued_at: datetime | None = None
    reserved_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    outcome: str = ""
    reason: str = ""

    def seconds(self, now: datetime) -> float:
        """How long it ran, until `now` if it runs. Zero before its start, and where clocks put the end before the start."""
        if self.started_at is None:
            return 0.0
        return max(0.0, ((self.ended_at or now) - self.started_at).total_seconds())

    @property
    def waited(self) -> float | None:
        """Seconds in the queue before the start; None while it waits, or where the beginning was not seen."""
        if self.queued_at is None or self.started_at is None:
            return None
        return max(0.0, (self.started_at - self.queued_at).total_seconds())


class RunEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a workload's present run. `run` is what is known of the run by the end alone."""

    run: Run
    at: datetime
    outcome: Outcome
    reason: str = ""


class RunNews(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload tells: its present run, and the end of that one or of the run before. `workload` is its UID. `wait`: what
    is known of it while it is not admitted (`queued_at`: since when it waits); None for one that is held, or was admitted."""

    workload: str
    run: Run | None = None
    end: RunEnd | None = None
    wait: Run | None = None


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which nobody recorded, and what follows from that."""

    since: datetime
    until: datetime
    reason: str
