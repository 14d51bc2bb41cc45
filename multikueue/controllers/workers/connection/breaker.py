"""The circuit breaker of one worker: what decides that its outbox makes no calls for now, and when it makes them again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from multikueue.api.meta import ObjectKey
from multikueue.runtime import WorkQueue
from multikueue.store.workers.worker import WorkerView

__all__ = ["SILENCE", "Breaker"]

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

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Counts one more call in flight. If the worker is silent, other keys need not wait until the call times out."""
        self._under_way += 1
        if self._silence_timer is None:
            self._restart_silence_timer()
        try:
            yield
        finally:
            self._under_way -= 1
            self._restart_silence_timer()

    def _restart_silence_timer(self) -> None:
        if self._silence_timer is not None:
            self._silence_timer.cancel()
        loop = asyncio.get_running_loop()
        self._silence_timer = loop.call_later(SILENCE.total_seconds(), self._on_silence) if self._under_way else None

    def _on_silence(self) -> None:
        self._silence_timer = None
        self.doubt()
