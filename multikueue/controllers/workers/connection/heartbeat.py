"""The heartbeat of a worker: what shows that it is up, asked forever, and what each answer means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import anyio

from multikueue.controllers.reconcile.context import ReconcileContext
from multikueue.controllers.workers.connection.health import HEARTBEAT, Breaker, Health
from multikueue.controllers.workers.connection.watches import Watches
from multikueue.controllers.workers.connection.worker_credentials import CONNECTION_FAILED, reason_of
from multikueue.errors import MultiKueueError, Unauthorized
from multikueue.kube.client import Client
from multikueue.settings import Dispatch
from multikueue.store.workers.worker import WorkerView

__all__ = ["Heartbeat"]

RECHECK = timedelta(milliseconds=500)
"""The interval of a connected worker that did not answer the last request; also the wait before a second one in a row
that a failed request asks for."""

TIME_TO_STAND = timedelta(seconds=10)
"""How long watches may take to be in sync after their cluster answers: a list, and the check of a quiet watch."""

MARGIN = timedelta(milliseconds=10)
"""Extra wait, because sleeps use another clock than the one for the time."""

SIGNS_PER_SECOND = 16
"""Heartbeats of all workers together: with more than that of them in a `heartbeat_interval`, each is asked as rarely as
it takes. Of a thousand each is asked once a minute; a connection that breaks, or a call without an answer, has its worker
asked at once."""

Identify = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Heartbeat:
    """Owner: the worker's connection. `reason` is the condition's reason for the present trouble; `refused` is called when
    the worker refuses the credentials."""

    context: ReconcileContext
    settings: Dispatch
    worker: WorkerView
    health: Health
    watches: Watches
    refused: Callable[[], None]
    reason: str = CONNECTION_FAILED
    _alarm: anyio.Event = field(default_factory=anyio.Event)
    _was_alarmed: bool = False

    async def run(self, client: Client, breaker: Breaker, identify: Identify) -> None:
        """Sends heartbeats, with our credentials, forever. The first answer after trouble hurries the watches.

        That answer is no proof that the worker is still away, though its watches are not in sync yet. A later answer
        is, for the time up to the answer before it, if the watches could have been in sync by then. So each answer has
        the watches try again. `identify` raises an error where the worker is not the one it should be.
        """
        self._alarm = anyio.Event()
        back = answered = self.context.now()
        while True:
            asked = self.context.now()
            try:
                await client.probe(self.context.settings.timings.heartbeat_timeout.total_seconds())
                await identify()
            except MultiKueueError as error:
                breaker.hold()
                self._report_failure(error)
                if isinstance(error, Unauthorized):
                    self.refused()
                # A stopped process reads no answer: not more than the time that an answer may take counts.
                self.failed(min(self.context.now(), asked + self.context.settings.timings.heartbeat_timeout))
                self.health.report(HEARTBEAT, str(error))
            else:
                breaker.trust()
                self._report_failure(None)
                if self.health.is_silent:
                    back = asked
                    self.watches.hurry()
                elif not self.health.is_whole:
                    if (proven := min(answered, asked - TIME_TO_STAND)) > back:
                        self.failed(proven)
                    self.watches.retry()
                answered = asked
                self.health.report(HEARTBEAT, "")
            await self._rest()

    def alarm(self) -> None:
        """Sends the next heartbeat at once."""
        self._alarm.set()

    def failed(self, until: datetime) -> None:
        """Probes have failed until then."""
        self.worker.probe_failed(until, self.context.now(), self.context.lost_after)

    def _report_failure(self, error: MultiKueueError | None) -> None:
        reason = reason_of(error)
        if reason != self.reason:
            self.reason = reason
            self.context.queues.clusters.add(self.worker.name)

    async def _rest(self) -> None:
        """Waits until the next heartbeat.

        It comes sooner while the worker may have been away for a moment only, and, without an answer, at the end of the
        lost timeout: a worker is lost once a heartbeat failed after that.
        """
        with anyio.move_on_after(self._interval().total_seconds()):
            await self._alarm.wait()
        if self._alarm.is_set() and self._was_alarmed:  # it answers heartbeats and nothing else: no faster than that
            await anyio.sleep(RECHECK.total_seconds())
        self._was_alarmed = self._alarm.is_set()
        self._alarm = anyio.Event()

    def _interval(self) -> timedelta:
        together = timedelta(seconds=len(self.context.store.workers) / SIGNS_PER_SECOND)
        interval, worker, now = max(self.settings.heartbeat_interval, together), self.worker, self.context.now()
        if worker.link.is_connected:
            return min(interval, RECHECK) if worker.link.is_silent else interval
        lost_at = worker.link.lost_at(self.context.lost_after)
        if self.health.is_silent and lost_at is not None and not worker.is_lost(now, self.context.lost_after):
            return min(interval, max(lost_at - now, timedelta(0)) + MARGIN)
        return interval
