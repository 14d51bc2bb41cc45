"""The supervisor: restarts work whenever it fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from multikueue.runtime.clock import Clock, SystemClock
from multikueue.runtime.controller.backoff import Backoff
from multikueue.runtime.controller.failures import describe, is_expected, is_fatal
from multikueue.telemetry import get_logger

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
    """Runs `work` until it returns; whenever it raises, runs it again after a back-off, for ever.

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
