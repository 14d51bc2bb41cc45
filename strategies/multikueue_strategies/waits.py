"""The scorers that read how long jobs waited on workers, and what became of them: `wait` and `steady`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from multikueue.strategy import Fleet, Score, Waits, Worker, Workload
from multikueue_strategies.once import Once

_FEW = 3
_GRACE = timedelta(seconds=30)
"""Added to each wait, so that one second is not ten times as good as ten."""


@dataclass(frozen=True, slots=True)
class ShortWait:
    """Prefers workers where jobs like it got quota soon recently. The shortest wait has 1, one of double that time 0.5.

    What counts is the time within which half of the jobs of its queue and size had quota; where fewer ever had, the longest
    time that one has waited.
    """

    reads: ClassVar[tuple[str, ...]] = ("waits",)

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        own = _expected(worker.waits)
        if own is None:
            return Score(None, "few jobs like it seen")
        return Score(min(1.0, (_shortest(fleet) + _GRACE) / (own + _GRACE)), f"half wait {_told(own)}")


@dataclass(frozen=True, slots=True)
class Steady:
    """Prefers workers that evicted few of the jobs that had quota there. The score is the share that was not evicted."""

    reads: ClassVar[tuple[str, ...]] = ("waits",)

    def score(self, workload: Workload, worker: Worker, fleet: Fleet) -> Score:
        waits = worker.waits
        if waits is None or waits.seen < _FEW or not waits.steps:
            return Score(None, "few jobs like it seen")
        return Score(1 - waits.evicted, f"{waits.evicted:.0%} evicted")


def _expected(waits: Waits | None) -> timedelta | None:
    """How long half of them wait, or at least that long; None if too few were seen."""
    if waits is None or waits.seen < _FEW:
        return None
    half = waits.within(0.5)
    return waits.longest if half is None else half


@Once
def _shortest(fleet: Fleet) -> timedelta:
    """Of the workers of which enough were seen."""
    return min((own for each in fleet.workers if (own := _expected(each.waits)) is not None), default=timedelta())


def _told(wait: timedelta) -> str:
    seconds = round(wait.total_seconds())
    if seconds < 120:
        return f"{seconds}s"
    return f"{seconds // 60}m" if seconds < 7200 else f"{seconds // 3600}h"
