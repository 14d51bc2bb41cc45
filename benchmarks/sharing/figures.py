"""The results of a run: waits, utilisation of the GPUs, and inequality of the users' waits."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Figures", "Record", "figures"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The times of one job in seconds; `started` is its last start, `runs` the number of its starts."""

    user: str
    gpus: int
    submitted: float
    started: float
    ended: float
    runs: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """`wait` is the mean time in queue in minutes, `late` that of the unluckiest twentieth of the jobs at least; `busy`
    the share of all GPUs that did useful work, and `rate` the jobs finished per hour, both until the last job
    was submitted; `worst` the mean wait of the user who waited most, `small` that of jobs with one or two GPUs;
    `restarts` the number of restarts; `makespan` the hours until all had finished."""

    wait: float
    late: float
    small: float
    worst: float
    busy: float
    rate: float
    restarts: float
    makespan: float


def figures(records: Sequence[Record], *, gpus: int, seconds: float) -> Figures:
    """The figures of all finished jobs; `seconds` is the time in which jobs were submitted."""
    waits = [_wait(each) for each in records]
    by_user: defaultdict[str, list[float]] = defaultdict(list)
    for each in records:
        by_user[each.user].append(_wait(each))
    used = sum(each.gpus * _within(each, seconds) for each in records)
    return Figures(
        wait=statistics.fmean(waits),
        late=statistics.quantiles(waits, n=20)[-1],
        small=statistics.fmean([_wait(each) for each in records if each.gpus <= 2]),
        worst=max(map(statistics.fmean, by_user.values())),
        busy=used / (gpus * seconds),
        rate=sum(each.ended <= seconds for each in records) / (seconds / 3600),
        restarts=sum(each.runs - 1 for each in records),
        makespan=max(each.ended for each in records) / 3600,
    )


def _wait(record: Record) -> float:
    """Minutes in queue. Kubernetes truncates times to whole seconds, so a start may seem to precede the submission."""
    return max(0.0, record.started - record.submitted) / 60


def _within(record: Record, seconds: float) -> float:
    """Run time of the job within the first `seconds`."""
    return max(0.0, min(record.ended, seconds) - min(record.started, seconds))
