"""The history of one job and the state of one worker, as a viewer counts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

__all__ = ["Course", "Moment", "Stage", "Stand", "percentile"]

Stage = Literal["waiting", "racing", "running", "finished"]


@dataclass(frozen=True, slots=True)
class Moment:
    """An event for the viewer; `at` is in seconds since the start."""

    at: float
    text: str
    style: str = ""


@dataclass(slots=True)
class Course:
    """The history of one job. Times are in seconds since the start, None before the event; `starts` counts its
    starts."""

    queue: str
    submitted: float
    holding: set[str] = field(default_factory=set)
    """Its workloads with quota: an elastic job has several."""
    places: dict[str, str] = field(default_factory=dict)
    """The winner by workload."""
    copies: set[str] = field(default_factory=set)
    raced: set[str] = field(default_factory=set)
    """The workers that had a copy since the last reservation."""
    winner: str = ""
    last: str = ""
    """The last winner, also after it was lost."""
    retry: str = ""
    """Why the manager's check wants it back in its queue."""
    won: float | None = None
    left: float | None = None
    """When it last went back to its queue."""
    started: float | None = None
    finished: float | None = None
    failed: bool = False
    starts: int = 0
    evictions: int = 0

    @property
    def stage(self) -> Stage:
        if self.finished is not None:
            return "finished"
        if self.winner:
            return "running"
        return "racing" if self.copies else "waiting"

    @property
    def is_repeated(self) -> bool:
        """Whether it ran once more than it had to."""
        return self.starts > 1 + self.evictions


@dataclass(slots=True)
class Stand:
    """The state of a worker: CPUs of admitted workloads, of the demo and of others, and races won and lost."""

    cpu: int
    reachable: bool = True
    used: dict[str, float] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    won: int = 0
    lost: int = 0

    @property
    def busy(self) -> float:
        return sum(self.used.values()) + sum(self.others.values())


def percentile(values: list[float], share: float) -> float | None:
    """The value below which a share (0 to 1) of the sorted values lies; None without values."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else None
