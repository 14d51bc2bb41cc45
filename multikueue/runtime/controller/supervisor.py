"""The supervisor restarts work whenever it fails: what a failure means, and the wait that follows it."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta

import msgspec

from multikueue.errors import ConfigurationError, InvariantBroken, MultiKueueError
from multikueue.runtime.clock import Clock, SystemClock
from multikueue.telemetry import get_logger


class Backoff(msgspec.Struct, frozen=True):
    """Delays that grow by `factor` from `first` up to `cap`: 1, 2, 4, 8, 10, 10 s for 1 s and 10 s without jitter.

    `jitter` is the share of each delay that is random: 0 is none, 1 is "full jitter" (anything from nothing to the
    delay), which best spreads out what failed together. `draw` returns numbers from 0 up to 1.

    Raises ConfigurationError unless 0 < first <= cap, factor > 1 and 0 <= jitter <= 1.
    """

    first: timedelta
    cap: timedelta
    factor: float = 2
    jitter: float = 0.5
    draw: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not (timedelta() < self.first <= self.cap and self.factor > 1 and 0 <= self.jitter <= 1):
            raise ConfigurationError(f"back-off: expected 0 < first <= cap, factor > 1, 0 <= jitter <= 1, got {self}")

    def delay(self, failures: int) -> timedelta:
        """The wait after that many failures in a row; zero without a failure."""
        return self.longest(failures) * (1 - self.jitter * self.draw())

    def longest(self, failures: int) -> timedelta:
        """The delay without jitter."""
        if failures < 1:
            return timedelta()
        # Compared as logarithms: the power may overflow.
        if failures - 1 >= math.log(self.cap / self.first, self.factor):
            return self.cap
        return self.first * self.factor ** (failures - 1)


log = get_logger()

RESTARTS = Backoff(first=timedelta(seconds=1), cap=timedelta(seconds=30), jitter=1)

SETTLED = timedelta(minutes=1)
"""Work that ran for this long had recovered: its failure counts as the first."""


async def supervise(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    backoff: Backoff = RESTARTS,
    clock: Clock | None = None,
) -> None:
    """Runs `work` until it returns; whenever it raises, runs it again after a back-off, forever.

    Each failure is logged before the wait. InvariantBroken ends the supervision, and cancellation passes.

    A plain loop, not tenacity: its attempt counter cannot be reset once the work has recovered.
    """
    clock = clock or SystemClock()
    failures = 0
    while True:
        started = clock.monotonic()
        try:
            await work()
        except Exception as error:  # the boundary: a failed subtree restarts, its siblings go on
            if is_fatal(error):
                raise
            recovered = clock.monotonic() - started >= SETTLED.total_seconds()
            failures = 1 if recovered else failures + 1
            wait = backoff.delay(failures).total_seconds()
            _log(error, name=name, failures=failures, again_after=wait)
        else:
            return
        await clock.sleep(wait)


def _log(error: Exception, **facts: object) -> None:
    if is_expected(error):
        log.warning("subtree.restarting", **facts, error=describe(error))
    else:
        log.error("subtree.crashed", **facts, error=describe(error), exc_info=error)


def leaves(error: Exception) -> Iterator[Exception]:
    """The exceptions of a group, at any depth; a plain exception is its own leaf."""
    if not isinstance(error, ExceptionGroup):
        yield error
        return
    for each in error.exceptions:
        yield from leaves(each)


def is_fatal(error: Exception) -> bool:
    """Whether an invariant of ours is broken, so that going on could do harm."""
    return any(isinstance(leaf, InvariantBroken) for leaf in leaves(error))


def is_expected(error: Exception) -> bool:
    """Whether a traceback would add nothing: all leaves were raised on purpose, or are deadlines that passed."""
    return all(isinstance(leaf, (MultiKueueError, TimeoutError)) for leaf in leaves(error))


def describe(error: Exception) -> str:
    """The messages in one line."""
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves(error))
