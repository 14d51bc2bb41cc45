"""The present trouble of a worker, and what follows: its state, and whether its outbox makes calls.

The state is connected → suspect → isolated, and back at once. The circuit breaker opens after a call without an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

import anyio
import anyio.abc

from multikueue.api.meta import ObjectKey
from multikueue.runtime import WorkQueue
from multikueue.settings import Timings
from multikueue.store.workers.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["HEARTBEAT", "SILENCE", "Breaker", "Health"]

log = get_logger()


def _ignore() -> None:
    """No listener."""


HEARTBEAT = "heartbeat"
"""The name of the heartbeat among the parts; all other parts are watches."""


@dataclass(slots=True)
class Health:
    """Owner: the worker's connection. Each of its parts reports its own trouble. `failed` is called for each report of
    trouble, `settled` for each that leaves none; `contact` is set once there is none at all."""

    worker: WorkerView
    timings: Timings
    now: Callable[[], datetime]
    failed: Callable[[], None]
    contact: anyio.Event
    settled: Callable[[], None] = _ignore
    _trouble: dict[str, str] = field(default_factory=dict)
    _decline: anyio.CancelScope | None = None
    _tasks: anyio.abc.TaskGroup | None = None

    def begin(self, tasks: anyio.abc.TaskGroup, trouble: dict[str, str]) -> None:
        """Begins with a new connection. `trouble` has, by part, what must pass first. The decline is one of `tasks`."""
        self._tasks, self._trouble, self._decline = tasks, trouble, None
        self._judge()

    def end(self, why: str) -> None:
        """The worker has no connection now, if only for a moment."""
        if self.worker.link.is_connected:
            self._tell(self.worker.suspected(self.now(), why))

    def report(self, part: str, why: str) -> None:
        """Takes the report of one part: the reason of its trouble, empty if it has none."""
        if why:
            self._trouble[part] = why
            self.failed()
        else:
            self._trouble.pop(part, None)
        self._judge()

    @property
    def is_silent(self) -> bool:
        """Whether the last heartbeat failed."""
        return HEARTBEAT in self._trouble

    @property
    def is_whole(self) -> bool:
        return not self._trouble

    def _judge(self) -> None:
        if self._trouble:
            self.worker.troubled(next(iter(self._trouble.values())))
            if self._decline is None and self._tasks is not None:
                self._decline = anyio.CancelScope()
                self._tasks.start_soon(self._degrade, self._decline)
            return
        self.settled()
        if self._decline is not None:
            self._decline.cancel()
            self._decline = None
        if not self.worker.link.is_connected:
            self._tell(self.worker.connected())
            self.contact.set()

    async def _degrade(self, scope: anyio.CancelScope) -> None:
        with scope:
            suspect, isolate = self.timings.suspect_after, self.timings.isolate_after
            steps = (suspect, partial(self.worker.suspected, self.now())), (isolate - suspect, self.worker.isolated)
            for wait, step in steps:
                await anyio.sleep(wait.total_seconds())
                if scope.cancel_called:  # while this task was due already: a sleep that is over is not interrupted
                    return
                self._tell(step())

    def _tell(self, is_news: bool) -> None:
        if is_news:
            why = {"why": self.worker.why} if self.worker.why else {}
            log.info(f"cluster.{self.worker.link.reach.value}", cluster=self.worker.name, **why)


SILENCE = timedelta(seconds=1)
"""How long calls may be in flight, none of them answered, before the worker is silent. Most take milliseconds."""


def _nobody() -> None:
    """No alarm."""


@dataclass(slots=True)
class Breaker:
    """Opens after a call without an answer in time, and closes with the next heartbeat that is answered.

    One failed call is enough to learn that a worker is gone: `alarm` is called once, to request that heartbeat. Meanwhile
    the worker wins nothing, so a job that it was not asked for yet need not wait for it. `queue` is the outbox's.
    """

    worker: WorkerView
    queue: WorkQueue[ObjectKey]
    alarm: Callable[[], None] = _nobody
    _held: set[ObjectKey] = field(default_factory=set)
    _under_way: int = 0
    _heard_at: float = 0.0
    """When a call was answered, or the first of those in flight was made."""

    _silence_timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Whether no call is made."""
        return self.worker.link.is_silent

    def hold(self) -> None:
        """Lets no call through until `trust`."""
        self.worker.fell_silent()

    def hold_back(self, key: ObjectKey) -> None:
        """Has `trust` requeue the key, whatever its back-off."""
        self._held.add(key)

    def trust(self) -> None:
        """The worker answers: requeues the keys that were held back."""
        self.worker.answered()
        for key in self._held:
            self.queue.add(key)
        self._held.clear()

    def doubt(self) -> None:
        """A call had no answer in time."""
        if not self.is_open:
            self.hold()
            self.alarm()

    def __enter__(self) -> None:
        """Counts one more call in flight. If the worker is silent, other keys need not wait until the call times out."""
        if not self._under_way:
            self._heard_at = asyncio.get_running_loop().time()
        self._under_way += 1
        if self._silence_timer is None:
            self._look_after(SILENCE.total_seconds())

    def __exit__(self, *_error: object) -> None:
        self._under_way -= 1
        self._heard_at = asyncio.get_running_loop().time()
        if self._under_way and self._silence_timer is None:  # it has rung, and others still wait
            self._look_after(SILENCE.total_seconds())

    def _look_after(self, seconds: float) -> None:
        self._silence_timer = asyncio.get_running_loop().call_later(seconds, self._look)

    def _look(self) -> None:
        """One timer serves all calls: it goes on for the rest, if one was answered meanwhile."""
        self._silence_timer = None
        left = self._heard_at + SILENCE.total_seconds() - asyncio.get_running_loop().time()
        if self._under_way and left > 0:
            self._look_after(left)
        elif self._under_way:
            self.doubt()
