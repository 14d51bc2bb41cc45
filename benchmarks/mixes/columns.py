"""What is told of a run: waits, what copies cost others, load, money, bytes, and fairness."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat

from benchmarks.mixes.play import Record, Result
from benchmarks.mixes.traces import PARTS

__all__ = ["TITLES", "Columns", "columns"]

COUNTED = (0.1, 0.9)
"""Of the time in which jobs come: those before and after find a fleet that fills or empties."""

SHORT = 10.0
"""Seconds: no job counts as shorter where its slowdown is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Waits in seconds. `slowdown` is that of jobs that a strategy placed, `local` that of jobs submitted to a worker directly,
    both in the mean and bounded. `worst` is the most that a cluster was asked for, by what it has. `held` are GPU-seconds
    that losers held; `writes`, `copies`, `preempted` and `by_losers` are by job too. `money` is by GPU-hour of what jobs
    asked for, `moved` GB by job with data. `unfair` is the mean slowdown of the user at the ninth decile by that of the
    median user."""

    mean: float
    p50: float
    p95: float
    p99: float
    slowdown: float
    local: float
    worst: float
    busy: float
    held: float
    preempted: float
    by_losers: float
    writes: float
    copies: float
    money: float
    moved: float
    unfair: float


TITLES = {
    "mean": "mean wait, s",
    "p50": "median wait, s",
    "p95": "wait of the last 5 %, s",
    "p99": "wait of the last 1 %, s",
    "slowdown": "slowdown",
    "local": "slowdown of jobs local to a worker",
    "worst": "most asked of a cluster, by what it has",
    "busy": "GPUs busy with what was not lost",
    "held": "GPU-seconds held by losers, by job",
    "preempted": "preemptions by job",
    "by_losers": "of these by losers",
    "writes": "API writes by job",
    "copies": "copies by job",
    "money": "money by GPU-hour",
    "moved": "GB moved by job with data",
    "unfair": "slowdown of users, ninth decile by median",
}


def columns(result: Result) -> Columns:
    """Of the jobs that came in the middle of the run."""
    first, last = (share * result.span for share in COUNTED)
    ours = [each for each in result.records if not each.job.local]
    counted = [each for each in ours if first <= each.job.at <= last]
    waits = sorted(_wait(each) for each in counted)
    capacity = {each.name: each.parts for each in result.clusters}
    prices = {each.name: each.price for each in result.clusters}
    work = sum(each.job.work for each in ours)
    with_data = [each for each in ours if each.job.data is not None]
    return Columns(
        mean=statistics.fmean(waits),
        p50=_quantile(waits, 0.5),
        p95=_quantile(waits, 0.95),
        p99=_quantile(waits, 0.99),
        slowdown=_slowdown(counted),
        local=_slowdown([each for each in result.records if each.job.local and first <= each.job.at <= last]),
        worst=max(result.demand.get(name, 0.0) / (parts * result.span) for name, parts in capacity.items()),
        busy=sum(map(_within, result.records, repeat(result.span))) / (sum(capacity.values()) * result.span),
        held=result.held_by_losers / PARTS / len(ours),
        preempted=result.preempted / len(ours),
        by_losers=result.preempted_by_losers / len(ours),
        writes=result.writes / len(ours),
        copies=sum(each.copies for each in ours) / len(ours),
        money=sum((each.job.work + each.lost) * prices[each.cluster] for each in ours) / work,
        moved=sum(each.job.data[1] for each in with_data if each.job.data and each.job.data[0] != each.cluster)
        / max(1, len(with_data)),
        unfair=_unfair(counted),
    )


def _moved(record: Record) -> float:
    lies, size = record.job.data or (record.cluster, 0.0)
    return size if lies != record.cluster else 0.0


def _within(record: Record, span: float) -> float:
    """What it ran towards its end while jobs still came; of one that was preempted, as if it had run at the end."""
    began = record.ended - record.job.seconds
    return record.job.parts * (min(record.ended, span) - min(began, span))


def _wait(record: Record) -> float:
    """All the time in which it did not run towards its end."""
    return max(0.0, record.ended - record.job.at - record.job.seconds)


def _slowdown(records: Iterable[Record]) -> float:
    found = [max(1.0, (each.ended - each.job.at) / max(each.job.seconds, SHORT)) for each in records]
    return statistics.fmean(found) if found else 1.0


def _unfair(records: Iterable[Record]) -> float:
    by_user: defaultdict[str, list[Record]] = defaultdict(list)
    for each in records:
        by_user[each.job.user].append(each)
    users = sorted(_slowdown(each) for each in by_user.values())
    return _quantile(users, 0.9) / _quantile(users, 0.5)


def _quantile(found: Sequence[float], share: float) -> float:
    return found[min(len(found) - 1, int(share * len(found)))]
