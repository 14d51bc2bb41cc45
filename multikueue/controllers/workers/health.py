"""What trouble a worker has now, and what that makes of it: connected → suspect → isolated, and back at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import anyio
import anyio.abc

from multikueue.settings import Dispatch
from multikueue.store.worker import WorkerView
from multikueue.telemetry import get_logger

__all__ = ["HEARTBEAT", "Health"]

log = get_logger()

HEARTBEAT = "heartbeat"
"""The part that signs of life are; the others are watches."""


@dataclass(slots=True)
class Health:
    """Owner: the worker's connection, whose parts report their trouble, each for itself. `failed` is told of each report of
    trouble; `contact` is set once there is none at all."""

    worker: WorkerView
    settings: Dispatch
    now: Callable[[], datetime]
    failed: Callable[[], None]
    contact: anyio.Event
    _trouble: dict[str, str] = field(default_factory=dict)
    _decline: anyio.CancelScope | None = None
    _tasks: anyio.abc.TaskGroup | None = None

    def begin(self, tasks: anyio.abc.TaskGroup, trouble: dict[str, str]) -> None:
        """Of a connection that has just begun: what is to be seen first, part by part. The decline is one of its tasks."""
        self._tasks, self._trouble, self._decline = tasks, trouble, None
        self._judge()

    def end(self, why: str) -> None:
        """Nobody speaks with the worker now, be it for a moment."""
        if self.worker.link.is_connected:
            self._tell(self.worker.suspected(self.now(), why))

    def report(self, part: str, why: str) -> None:
        """A part has trouble; empty: it has none."""
        if why:
            self._trouble[part] = why
            self.failed()
        else:
            self._trouble.pop(part, None)
        self._judge()

    @property
    def is_silent(self) -> bool:
        """Whether it gave no sign of life the last time."""
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
        if self._decline is not None:
            self._decline.cancel()
            self._decline = None
        if not self.worker.link.is_connected:
            self._tell(self.worker.connected())
            self.contact.set()

    async def _degrade(self, scope: anyio.CancelScope) -> None:
        with scope:
            began = self.now()
            await anyio.sleep(self.settings.suspect_after.total_seconds())
            self._tell(self.worker.suspected(began))
            await anyio.sleep((self.settings.isolate_after - self.settings.suspect_after).total_seconds())
            self._tell(self.worker.isolated())

    def _tell(self, is_news: bool) -> None:
        if is_news:
            log.info(f"cluster.{self.worker.link.reach.value}", cluster=self.worker.name, why=self.worker.why)
