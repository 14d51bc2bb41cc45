"""How long copies waited for quota on a worker, learned from those that got it and from those that did not.

A copy that is taken away while it waits, for another worker was faster, has waited for at least that long: the estimate is that
of Kaplan and Meier, so that a worker where copies hang does not look fast for the few that got quota at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from math import ceil, log2

import msgspec

from multikueue.api.meta import ObjectKey
from multikueue.strategy import Waits

__all__ = ["HALF_LIFE", "Like", "WaitTimes", "size_of"]

HALF_LIFE = timedelta(hours=6)
"""After that time a wait counts half."""

ENOUGH = 5
"""With fewer of the same queue and size, those of other sizes count too; with fewer of the queue, all on the worker."""

SHOWN_FOR = timedelta(seconds=10)
"""How long an estimate is the same. It covers hours, and a burst must not compute it again for each job."""

MOST = 600
"""Estimates kept for a worker, those asked or fed last: some 1 KiB each."""

_STEPS = 2
"""Steps for each doubling of the time."""

_LONGEST = timedelta(days=7)
_COMMON = ("cpu", "memory", "ephemeral-storage", "pods")
_MINUTE = timedelta(minutes=1)


class Like(msgspec.Struct, frozen=True):
    """What jobs have in common that wait alike: their LocalQueue and the class of their size."""

    local_queue: ObjectKey
    size: str


def size_of(requests: Mapping[str, int]) -> str:
    """The class of sizes of a workload, by its devices if it requests any, else by cores: powers of four, such as `cpu<16`.

    Amounts are those that Kueue counts: milli-units of cpu, whole units of all else.
    """
    devices = {name: amount for name, amount in requests.items() if name not in _COMMON and amount > 0}
    name = max(devices, key=lambda each: (devices[each], each), default="cpu")
    amount = devices.get(name, requests.get("cpu", 0) / 1000)
    return f"{name}<{4 ** (max(0, int(log2(amount) // 2) + 1) if amount >= 1 else 0)}"


class _Tally:
    """Waits by steps of time: how many ended with quota, how many otherwise. The old count less."""

    def __init__(self, at: datetime) -> None:
        self.at = at
        self.got: dict[int, float] = {}
        self.left: dict[int, float] = {}
        self.evicted = 0.0

    def age(self, now: datetime) -> None:
        if now - self.at < _MINUTE:  # too little to matter
            return
        factor = 0.5 ** ((now - self.at) / HALF_LIFE)
        self.at = now
        self.evicted *= factor
        for counts in (self.got, self.left):
            for step in counts:
                counts[step] *= factor


class WaitTimes:
    """One worker. A copy waits, gets quota, may be evicted, and goes; what comes twice counts once."""

    def __init__(self) -> None:
        self._tallies: OrderedDict[tuple[ObjectKey | None, str], _Tally] = OrderedDict()
        self._waiting: dict[ObjectKey, tuple[Like, datetime]] = {}
        self._has_quota: dict[ObjectKey, Like] = {}
        self._shown: dict[Like, tuple[datetime, Waits]] = {}

    # What happens there.

    def begins(self, key: ObjectKey, like: Like, now: datetime) -> None:
        """A copy waits that was not seen before. One that waits again after an eviction there is not one of those."""
        if key not in self._has_quota:
            self._waiting.setdefault(key, (like, now))

    def gets(self, key: ObjectKey, like: Like, after: timedelta, now: datetime) -> None:
        """A copy has quota, `after` it was made."""
        if key not in self._has_quota:
            self._waiting.pop(key, None)
            self._has_quota[key] = like
            for tally in self._tallies_of(like, now):
                _count(tally.got, after)

    def loses(self, key: ObjectKey, now: datetime) -> None:
        """The worker evicted it."""
        like = self._has_quota.get(key)
        for tally in self._tallies_of(like, now) if like is not None else ():
            tally.evicted += 1

    def goes(self, key: ObjectKey, now: datetime) -> None:
        """A copy is gone. If it waited, it would have waited for longer."""
        self._has_quota.pop(key, None)
        like, since = self._waiting.pop(key, (None, now))
        for tally in self._tallies_of(like, now) if like is not None else ():
            _count(tally.left, now - since)

    def _tallies_of(self, like: Like, now: datetime) -> Iterator[_Tally]:
        for place in _places(like):
            tally = self._tallies.get(place)
            if tally is None:
                tally = self._tallies[place] = _Tally(now)
                if len(self._tallies) > MOST:
                    self._tallies.popitem(last=False)
            self._tallies.move_to_end(place)
            tally.age(now)
            yield tally

    # What follows.

    def waits(self, like: Like, now: datetime) -> Waits:
        """For jobs of that kind. Equal for `SHOWN_FOR`."""
        known = self._shown.get(like)
        if known is not None and known[0] > now:
            return known[1]
        made = next(self._found(like, now), Waits())
        if len(self._shown) >= MOST:
            self._shown.clear()
        self._shown[like] = now + SHOWN_FOR, made
        return made

    def _found(self, like: Like, now: datetime) -> Iterator[Waits]:
        """From the narrowest that enough is known of to the widest that anything is known of."""
        for place, of in zip(_places(like), ("its queue and size", "its queue", "all there"), strict=True):
            tally = self._tallies.get(place) or _Tally(now)
            tally.age(now)
            left = dict(tally.left)
            for other, since in self._waiting.values():
                if place in _places(other):
                    _count(left, now - since)
            seen = sum(tally.got.values()) + sum(left.values())
            if seen >= (ENOUGH if place[0] is not None else 0.01):
                started = sum(tally.got.values())
                evicted = min(1.0, tally.evicted / started) if started else 0.0
                longest = _upper(max((*tally.got, *left), default=0))
                yield Waits(of=of, seen=seen, steps=_steps(tally.got, left), longest=longest, evicted=evicted)


def _places(like: Like) -> tuple[tuple[ObjectKey | None, str], ...]:
    return (like.local_queue, like.size), (like.local_queue, ""), (None, "")


def _count(counts: dict[int, float], wait: timedelta) -> None:
    seconds = min(max(wait, timedelta()), _LONGEST).total_seconds()
    step = ceil(_STEPS * log2(seconds)) if seconds > 1 else 0
    counts[step] = counts.get(step, 0.0) + 1


def _upper(step: int) -> timedelta:
    return timedelta(seconds=round(2 ** (step / _STEPS)))


def _steps(got: Mapping[int, float], left: Mapping[int, float]) -> tuple[tuple[float, timedelta], ...]:
    """The share of jobs that have quota within each time, rising."""
    at_risk, waiting, steps = sum(got.values()) + sum(left.values()), 1.0, []
    for step in sorted({*got, *left}):
        ended = got.get(step, 0.0)
        if ended:
            waiting *= 1 - min(1.0, ended / at_risk)
            steps.append((1 - waiting, _upper(step)))
        at_risk -= ended + left.get(step, 0.0)
    return tuple(steps)
