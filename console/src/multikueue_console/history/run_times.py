"""Run times as they were seen, by queue, user and size: what a drawn run time is drawn from."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from multikueue_console.history.runs import Outcome, Run

__all__ = ["FEWEST", "DrawnTimes", "JobShape", "RunTimes", "size_class"]

FEWEST = 20
"""Run times that have to be known of a group; of fewer nothing is told."""


class JobShape(msgspec.Struct, frozen=True):
    """What run times are grouped by: the ClusterQueue, the user and the class of size."""

    cluster_queue: str
    user: str
    size: str


def size_class(cpu: float, gpu: float) -> str:
    """GPUs by powers of two, else CPUs: `gpu-8` has more than 4 and up to 8."""
    unit, amount = ("gpu", gpu) if gpu > 0 else ("cpu", cpu)
    return f"{unit}-{2 ** max(0, math.ceil(math.log2(amount)))}" if amount > 0 else "none"


class RunTimes:
    """The distribution of run times of each shape, and of what shapes have in common, by Kaplan and Meier's estimator: a run
    that goes on, or was interrupted, tells that its run time is longer. Without these the long ones would be missing, as few
    of them have ended."""

    def __init__(self, runs: Iterable[Run], now: datetime) -> None:
        seen: dict[tuple[str, ...], list[tuple[float, bool]]] = {}
        for run in runs:
            if run.started_at is None or run.started_at > now:
                continue
            shape = JobShape(run.cluster_queue, run.user, size_class(run.cpu, run.gpu))
            has_ended = run.outcome in (Outcome.SUCCEEDED, Outcome.FAILED)
            for group in _groups(shape):
                seen.setdefault(group, []).append((run.seconds(now), has_ended))
        self._seen = {group: sorted(each) for group, each in seen.items() if sum(ended for _, ended in each) >= FEWEST}

    def resampled(self, luck: random.Random) -> DrawnTimes:
        """The same with each run given another weight by luck (the Bayesian bootstrap): how little is known of a few runs shows
        in how much the draws of several differ."""
        return DrawnTimes(self._seen, luck)


class DrawnTimes:
    """Run times to draw from; see `RunTimes.resampled`."""

    def __init__(self, seen: Mapping[tuple[str, ...], Sequence[tuple[float, bool]]], luck: random.Random) -> None:
        self._seen, self._luck = seen, luck
        self._known: dict[tuple[str, ...], tuple[list[float], list[float]]] = {}

    def draw(self, shape: JobShape, *, elapsed: float = 0.0) -> float | None:
        """A run time in seconds of a job that has run for so long, from the narrowest group of which enough is known: of that
        user and size, of that size, of the queue. None if too little is known of the queue.

        Beyond all that were seen, a job runs for as long again in half of all cases (Lindy's law, which the long tails of
        published traces follow).
        """
        group = next((group for group in _groups(shape) if group in self._seen), None)
        if group is None:
            return None
        if group not in self._known:
            self._known[group] = _distribution(self._seen[group], self._luck)
        times, shares = self._known[group]
        index = bisect_right(times, elapsed)
        passed = shares[index - 1] if index else 0.0
        wanted = passed + (1.0 - passed) * self._luck.random()
        found = bisect_left(shares, wanted, lo=index)
        if found < len(times):
            return times[found]
        return max(elapsed, times[-1]) / max(1e-3, 1.0 - self._luck.random())


def _distribution(seen: Sequence[tuple[float, bool]], luck: random.Random) -> tuple[list[float], list[float]]:
    """Run times in their order, and the share of jobs that have ended by each, by weights that luck draws."""
    weights = [luck.expovariate(1.0) for _ in seen]
    going, left = 1.0, sum(weights) + luck.expovariate(1.0)  # one more, which is longer than all that were seen
    times, shares = list[float](), list[float]()
    for (seconds, has_ended), weight in zip(seen, weights, strict=True):
        if has_ended:
            going *= max(0.0, 1.0 - weight / left)
            times.append(seconds)
            shares.append(1.0 - going)
        left = max(left - weight, 1e-9)
    return times, shares


def _groups(shape: JobShape) -> tuple[tuple[str, ...], ...]:
    return (
        (shape.cluster_queue, shape.size, shape.user),
        (shape.cluster_queue, shape.size),
        (shape.cluster_queue,),
    )
