"""Sums over runs: how many ended and how, how long they waited, and what they used, by hour and whatever else is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from multikueue_console.history.runs import Outcome, Run

__all__ = ["DIMENSIONS", "HOUR", "HourKey", "Share", "Use", "hour_of", "shares_of", "sums"]

HOUR = timedelta(hours=1)

LONGEST = timedelta(days=3660)
"""What counts of a run at most: a wrong clock costs a sum, not minutes of counting."""

DIMENSIONS = ("user", "namespace", "queue", "cluster", "hour", "day")
"""What a report may be grouped by."""


class HourKey(NamedTuple):
    """Whose use it is, where, and in which hour; `hour` is its beginning in UTC."""

    hour: datetime
    namespace: str
    queue: str
    user: str
    cluster: str


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """A sum. Runs count in the hour of their end, waits in the hour of the start, seconds where they passed.

    `wait_seconds` is the sum of the waits of the `waits` runs whose wait is known; `longest_wait` is in seconds too.
    """

    ended: int = 0
    failed: int = 0
    evicted: int = 0
    preempted: int = 0
    waits: int = 0
    wait_seconds: float = 0.0
    longest_wait: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0

    def __add__(self, other: Use) -> Use:
        return Use(
            ended=self.ended + other.ended,
            failed=self.failed + other.failed,
            evicted=self.evicted + other.evicted,
            preempted=self.preempted + other.preempted,
            waits=self.waits + other.waits,
            wait_seconds=self.wait_seconds + other.wait_seconds,
            longest_wait=max(self.longest_wait, other.longest_wait),
            cpu_seconds=self.cpu_seconds + other.cpu_seconds,
            gpu_seconds=self.gpu_seconds + other.gpu_seconds,
        )


Share = tuple[HourKey, Use]


def hour_of(moment: datetime) -> datetime:
    """The beginning of its hour in UTC."""
    return moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def shares_of(run: Run, now: datetime) -> Iterator[Share]:
    """What a run adds to each hour that it touches, until `now` if it runs."""

    def key(hour: datetime) -> HourKey:
        return HourKey(hour, run.namespace, run.queue, run.user, run.cluster)

    if run.started_at is not None:
        if (waited := run.waited) is not None:
            yield key(hour_of(run.started_at)), Use(waits=1, wait_seconds=waited, longest_wait=waited)
        end = run.ended_at or now
        moment = max(run.started_at, end - LONGEST)
        while moment < end:
            until = min(end, hour_of(moment) + HOUR)
            seconds = (until - moment).total_seconds()
            yield key(hour_of(moment)), Use(cpu_seconds=run.cpu * seconds, gpu_seconds=run.gpu * seconds)
            moment = until
    if run.ended_at is not None:
        yield (
            key(hour_of(run.ended_at)),
            Use(
                ended=1,
                failed=run.outcome == Outcome.FAILED,
                evicted=run.outcome in (Outcome.EVICTED, Outcome.PREEMPTED),
                preempted=run.outcome == Outcome.PREEMPTED,
            ),
        )


def sums(shares: Iterable[Share], by: Sequence[str], *, since: datetime, until: datetime) -> dict[tuple[str, ...], Use]:
    """The sums of the hours from that of `since` until `until`, by the values of the dimensions, in their order."""
    found: dict[tuple[str, ...], Use] = {}
    first = hour_of(since)
    for key, use in shares:
        if first <= key.hour < until:
            where = tuple(_value(key, dimension) for dimension in by)
            found[where] = found.get(where, Use()) + use
    return dict(sorted(found.items()))


def _value(key: HourKey, dimension: str) -> str:
    if dimension == "hour":
        return f"{key.hour:%Y-%m-%dT%H:00Z}"
    if dimension == "day":
        return f"{key.hour:%Y-%m-%d}"
    return str(getattr(key, dimension))
