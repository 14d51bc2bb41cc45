"""What queues spend: the price of the quota that jobs have on workers, by the time they have it. Old money counts less.

An amount decays by the factor e in each `window`, so a queue that spends at a steady rate has the figure that it spends in one
`window`. Between two changes of the rate it follows from the last one, so nothing is sampled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from math import exp, log

import msgspec

from multikueue.api.kueue.queues import MAX_SPEND_ANNOTATION, ClusterQueue, LocalQueue
from multikueue.api.meta import Condition, ObjectKey, find_condition, render_time, with_condition
from multikueue.api.values.foreign import moment
from multikueue.durations import parse_duration
from multikueue.strategy import Spend

__all__ = [
    "SAMPLED",
    "SPEND_LIMIT_REACHED",
    "Account",
    "Ledger",
    "SpendLimit",
    "limit_of",
    "limit_problem",
    "told_account",
]

SPEND_LIMIT_REACHED = "multikueue.dev/SpendLimitReached"
"""The condition of a queue that keeps what it spent: a process that starts goes on from there."""

SAMPLED = timedelta(minutes=5)
"""How often the condition of a queue that spends is written again."""

HOUR = timedelta(hours=1)
WEEK = timedelta(days=7)
_LONGEST = timedelta(days=3650)
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_TOLD = re.compile(r"(\d{1,40}(?:\.\d{1,6})?) spent by (\S{1,40}), ")


class SpendLimit(msgspec.Struct, frozen=True):
    """No more begins in a queue that has spent `most` within `window`; None: it may spend anything."""

    most: float | None = None
    window: timedelta = WEEK


def limit_of(queue: ClusterQueue | LocalQueue) -> SpendLimit:
    """The limit in the annotation of a queue; none if it is absent or invalid."""
    most, _, window = queue.metadata.annotations.get(MAX_SPEND_ANNOTATION, "").partition("/")
    span = parse_duration(window)
    return SpendLimit(float(most), min(span, _LONGEST)) if span and _NUMBER.fullmatch(most) else SpendLimit()


def limit_problem(queue: ClusterQueue | LocalQueue) -> str:
    """The error in the annotation, which then counts as absent; empty if there is none."""
    text = queue.metadata.annotations.get(MAX_SPEND_ANNOTATION)
    if text is None or limit_of(queue).most is not None:
        return ""
    return (
        f"{type(queue).__name__} {queue.key}: annotation {MAX_SPEND_ANNOTATION}: "
        f'expected an amount of money and a duration such as "100/7d", got "{text[:100]}"'
    )


class Account(msgspec.Struct):
    """One queue: it had spent `spent` at the time `at`, and has spent `rate` an hour since then. What came before `begun` is in
    `spent`, or not known."""

    at: datetime
    begun: datetime
    limit: SpendLimit = SpendLimit()
    spent: float = 0.0
    rate: float = 0.0

    def spent_by(self, now: datetime) -> float:
        kept = self._kept(now)
        return self.spent * kept + self.rate * (self.limit.window / HOUR) * (1 - kept)

    def is_over(self, now: datetime) -> bool:
        return self.limit.most is not None and self.spent_by(now) >= self.limit.most

    def until(self, now: datetime) -> datetime | None:
        """When the queue will be within its limit if nothing else begins; None if it is by now, or never will be."""
        if self.limit.most is None or not self.is_over(now):
            return None
        steady, spent = self.rate * (self.limit.window / HOUR), self.spent_by(now)
        if steady >= self.limit.most or not self.limit.most:
            return None
        return now + self.limit.window * log((spent - steady) / (self.limit.most - steady))

    def change(self, rate: float, now: datetime) -> None:
        """The queue spends so much more an hour from now on, or less."""
        self.spent, self.at = self.spent_by(now), max(self.at, now)
        self.rate = max(0.0, self.rate + rate)

    def add(self, rate: float, since: datetime, until: datetime, now: datetime) -> None:
        """It did spend so much an hour for a time, of which nothing was known."""
        first = max(since, self.begun)
        if first < until:
            self.change(0.0, now)
            steady = rate * (self.limit.window / HOUR)
            self.spent += steady * (
                exp((until - self.at) / self.limit.window) - exp((first - self.at) / self.limit.window)
            )

    def _kept(self, now: datetime) -> float:
        return exp(min(0.0, (self.at - now) / self.limit.window))

    def told(self, conditions: tuple[Condition, ...], *, generation: int, now: datetime) -> tuple[Condition, ...]:
        """The conditions of the queue with this account in them. They stay the same while it spends nothing, for then what they
        say holds, and until `SAMPLED` has passed."""
        is_over, known = self.is_over(now), told_account(conditions, self.limit, now)
        condition = find_condition(conditions, SPEND_LIMIT_REACHED)
        if condition is None and not self.rate and not self.spent:
            return conditions
        if condition is not None and known is not None and condition.message.endswith(self._words):
            is_fresh = now - known.at < SAMPLED if self.rate else abs(known.spent_by(now) - self.spent_by(now)) < 0.001
            if is_fresh and (condition.status == "True") is is_over:
                return conditions
        spent, second = self.spent_by(now), now.replace(microsecond=0)  # a time in an object has no fraction
        if not self.rate:
            spent *= exp(min(1.0, (now - second) / self.limit.window))
        made = Condition(
            type=SPEND_LIMIT_REACHED,
            status="True" if is_over else "False",
            reason="OverLimit" if is_over else "WithinLimit",
            message=f"{spent:.4f} spent by {render_time(second)}, {self._words}",
            observed_generation=generation,
        )
        return with_condition(conditions, made, now)

    @property
    def _words(self) -> str:
        most, window = self.limit.most, self.limit.window / HOUR
        return f"of {most:g} within {window:g}h" if most is not None else f"within {window:g}h"


def told_account(conditions: Iterable[Condition], limit: SpendLimit, now: datetime) -> Account | None:
    """What the condition of a queue says of it; None if it says nothing."""
    condition = find_condition(conditions, SPEND_LIMIT_REACHED)
    found, at = _TOLD.match(condition.message) if condition is not None else None, None
    with suppress(ValueError):
        at = moment(datetime.fromisoformat(found[2])) if found is not None else None
    if found is None or at is None:
        return None
    return Account(at=min(at, now), begun=min(at, now), limit=limit, spent=float(found[1]))


class _Charge(msgspec.Struct, frozen=True):
    rate: float
    queues: tuple[ObjectKey, ...]


class Ledger:
    """The accounts of all queues; a ClusterQueue is one without a namespace. What a workload spends, its queues spend."""

    def __init__(self) -> None:
        self.accounts: dict[ObjectKey, Account] = {}
        self._charges: dict[ObjectKey, _Charge] = {}

    def set_queue(self, queue: ClusterQueue | LocalQueue, now: datetime) -> None:
        """Its limit, and what its condition says, where nothing else is known of it."""
        known, limit = self.accounts.get(queue.key), limit_of(queue)
        if known is None:
            told = told_account(queue.status.conditions, limit, now)
            self.accounts[queue.key] = told or Account(at=now, begun=now, limit=limit)
        elif known.limit != limit:
            known.change(0.0, now)
            known.limit = limit

    def remove_queue(self, queue: ObjectKey) -> None:
        self.accounts.pop(queue, None)

    def charge(
        self, workload: ObjectKey, rate: float, queues: tuple[ObjectKey, ...], *, since: datetime, now: datetime
    ) -> None:
        """A workload costs so much an hour, from `since` on if it is new."""
        charge, known = _Charge(rate, queues), self._charges.get(workload)
        if charge == known:
            return
        self.end(workload, now)
        self._charges[workload] = charge
        for account in self._of(queues, now):
            if known is None:
                account.add(rate, since, now, now)
            account.change(rate, now)

    def add(
        self, rate: float, queues: tuple[ObjectKey, ...], *, since: datetime, until: datetime, now: datetime
    ) -> None:
        """A workload has ended that was not charged for: it ran unseen."""
        for account in self._of(queues, now):
            account.add(rate, since, until, now)

    def end(self, workload: ObjectKey, now: datetime) -> bool:
        """A workload costs nothing any more. Returns whether it did."""
        known = self._charges.pop(workload, None)
        for account in self._of(known.queues, now) if known is not None else ():
            account.change(-known.rate if known is not None else 0.0, now)
        return known is not None

    def _of(self, queues: tuple[ObjectKey, ...], now: datetime) -> list[Account]:
        return [self.accounts.setdefault(queue, Account(at=now, begun=now)) for queue in queues]

    def spends(self, queues: Iterable[ObjectKey], now: datetime) -> tuple[Spend, ...]:
        """What strategies see of these queues: of those with a limit."""
        known = ((queue, account) for queue in queues if (account := self.accounts.get(queue)) is not None)
        return tuple(
            Spend(
                queue=f"{'LocalQueue' if queue.namespace else 'ClusterQueue'} {queue}",
                spent=account.spent_by(now),
                most=account.limit.most,
                window=account.limit.window,
                until=account.until(now),
            )
            for queue, account in known
            if account.limit.most is not None
        )
