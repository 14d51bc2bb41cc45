"""The supervisor: starts a piece of work again whenever it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from multikueue.runtime.backoff import Backoff
from multikueue.runtime.clock import Clock, SystemClock
from multikueue.runtime.failures import describe, is_expected, is_fatal

log = structlog.get_logger()

RESTARTS = Backoff(first=timedelta(seconds=1), cap=timedelta(seconds=30), jitter=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Supervised work ended with `error`, for the `failures`-th time in a row, and starts again after `again_after`."""

    name: str
    error: Exception
    failures: int
    again_after: timedelta


def _ignore(_failure: Failure) -> None:
    pass


async def supervise(
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    backoff: Backoff = RESTARTS,
    settled_after: timedelta = timedelta(minutes=1),
    clock: Clock | None = None,
    on_failure: Callable[[Failure], None] = _ignore,
) -> None:
    """Runs `work` until it returns; whenever it raises, runs it again after a back-off, for ever.

    Work that lived for `settled_after` had recovered: its failure counts as the first. `on_failure` hears of every
    failure before the wait; what it raises ends the supervision. So does InvariantBroken. Cancellation passes.

    A plain loop, not tenacity: its attempt counter cannot start anew when the work had recovered.
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
            recovered = clock.monotonic() - started >= settled_after.total_seconds()
            failures = 1 if recovered else failures + 1
            failure = Failure(name=name, error=error, failures=failures, again_after=backoff.delay(failures))
        else:
            return
        on_failure(failure)
        _log(failure)
        await clock.sleep(failure.again_after.total_seconds())


def _log(failure: Failure) -> None:
    facts = {"name": failure.name, "failures": failure.failures, "again_after": failure.again_after.total_seconds()}
    if is_expected(failure.error):
        log.warning("subtree.restarting", **facts, error=describe(failure.error))
    else:
        log.error("subtree.crashed", **facts, error=describe(failure.error), exc_info=failure.error)
