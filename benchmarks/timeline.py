"""The times at which each job reached each stage, and figures from them. Seconds of a monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import ceil

__all__ = ["Distribution", "Stage", "Timelines", "percentile"]


class Stage(StrEnum):
    """The stages of a job, in the usual order."""

    SUBMITTED = "submitted"
    QUEUED = "workload created"
    NOMINATED = "workers nominated"
    COPIED = "first copy created"
    COPIED_ALL = "last copy created"
    ADMITTED = "first copy admitted"
    CREATED = "remote job created"
    STARTED = "remote job started"
    WON = "check ready"
    RELEASED = "local job released"
    ENDED = "remote job complete"
    COMPLETE = "local job complete"
    FINISHED = "local workload finished"
    REMOVED = "remote job removed"


@dataclass(frozen=True, slots=True)
class Distribution:
    """Median, 95th percentile (nearest rank, so always a measured value) and the number of values."""

    p50: float
    p95: float
    number: int

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution | None:
        """The distribution of the values; None without a value."""
        ordered = sorted(values)
        if not ordered:
            return None
        return cls(_nearest_rank(ordered, 0.5), _nearest_rank(ordered, 0.95), len(ordered))


def percentile(values: Iterable[float], share: float) -> float | None:
    """A value that at least that share of all are not above (nearest rank); None without a value."""
    ordered = sorted(values)
    return _nearest_rank(ordered, share) if ordered else None


def _nearest_rank(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


@dataclass(slots=True)
class Timelines:
    """Times by stage and job. The first time counts: watches repeat themselves."""

    noted: dict[Stage, dict[str, float]] = field(default_factory=lambda: {stage: {} for stage in Stage})

    def note(self, stage: Stage, job: str, at: float) -> bool:
        """Note the first time of a job at a stage; whether it was the first."""
        times = self.noted[stage]
        if job in times:
            return False
        times[job] = at
        return True

    def note_last(self, stage: Stage, job: str, at: float) -> None:
        """Note a time in place of an earlier one, for a stage that the last of several events completes."""
        self.noted[stage][job] = at

    def count(self, stage: Stage) -> int:
        return len(self.noted[stage])

    def stage_of(self, job: str) -> Stage:
        """The last stage, in the usual order, that the job reached."""
        return [stage for stage, times in self.noted.items() if job in times][-1]

    def began(self) -> float:
        return min(self.noted[Stage.SUBMITTED].values())

    def rate(self, *stages: Stage) -> float:
        """Jobs per second that reached all these stages, from the first submission until the last of them did."""
        done = set.intersection(*(set(self.noted[stage]) for stage in stages))
        if not done:
            return 0.0
        ended = max(self.noted[stage][job] for stage in stages for job in done)
        return len(done) / (ended - self.began())

    def seconds(self, start: Stage, end: Stage) -> list[float]:
        """Seconds from one stage to another of each job that reached both, in the order in which they came to the first."""
        starts, ends = self.noted[start], self.noted[end]
        return [ends[job] - began for job, began in starts.items() if job in ends]

    def between(self, start: Stage, end: Stage) -> Distribution | None:
        """The distribution of the seconds from one stage to another."""
        return Distribution.of(self.seconds(start, end))

    def steps(self) -> dict[str, Distribution]:
        """Seconds from submission to each stage that was reached."""
        found = {stage: self.between(Stage.SUBMITTED, stage) for stage in Stage if stage is not Stage.SUBMITTED}
        return {stage.value: distribution for stage, distribution in found.items() if distribution is not None}
