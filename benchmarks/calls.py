"""API calls of one program, from an audit log, per job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fakekube.front_end.audit import Event

__all__ = ["Calls", "calls_of"]


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls per job. `refused`: those of them that were answered with 400 or more; `by`: all, by verb and resource."""

    writes: float
    reads: float
    watches: float
    refused: float
    by: dict[str, float]

    @property
    def events(self) -> float:
        """The writes that only tell a user something."""
        return sum(number for name, number in self.by.items() if name in ("create events", "patch events"))


def calls_of(events: Iterable[Event], *, user: str, jobs: int) -> Calls:
    """The calls of one user, divided by the number of jobs. Watches count when they begin."""
    ours = [event for event in events if event.user == user]
    writes = sum(event.call.is_write for event in ours)
    watches = sum(event.call.is_watch for event in ours)
    by = Counter(f"{event.verb} {event.resource}{_refusal(event)}" for event in ours)
    return Calls(
        writes=writes / jobs,
        reads=(len(ours) - writes - watches) / jobs,
        watches=watches / jobs,
        refused=sum(event.code >= 400 for event in ours) / jobs,
        by={name: number / jobs for name, number in sorted(by.items(), key=lambda item: -item[1])},
    )


def _refusal(event: Event) -> str:
    return f" → {event.code}" if event.code >= 400 else ""
