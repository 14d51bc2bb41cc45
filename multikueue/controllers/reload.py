"""Reloads the settings from their sources when the file changes, and on SIGHUP.

Settings that may change in a running process apply at once; the others are logged, and wait for a restart. An unusable
file changes nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import dataclass, field

import anyio

from multikueue.controllers.reconcile.strategies import verify
from multikueue.errors import ConfigurationError
from multikueue.runtime import watch_files
from multikueue.settings import Ignored, InForce, Leaf, Loaded, SettingsChange
from multikueue.settings.describe import written
from multikueue.telemetry import get_logger, logs

__all__ = ["Reload", "log_ignored"]

log = get_logger()


@dataclass(slots=True)
class Reload:
    """Keeps `in_force` in step with the sources of `loaded`."""

    loaded: Loaded
    in_force: InForce
    _waiting: tuple[Leaf, ...] = field(default=(), init=False)

    async def run(self) -> None:
        """Watches the file and the signal until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._on_signal)
            if self.loaded.config is not None:
                path = str(self.loaded.config)
                await watch_files(lambda: (path,), lambda _: self.again())

    async def _on_signal(self) -> None:
        with anyio.open_signal_receiver(signal.SIGHUP) as signals:
            async for _ in signals:
                log.info("settings.reading", why="SIGHUP")
                self.again()

    def again(self) -> None:
        """Reads the sources and applies the changes. If the sources are wrong, logs why and changes nothing."""
        try:
            loaded = self.loaded.again()
            verify(loaded)
        except ConfigurationError as error:
            log.error("settings.refused", why=str(error), effect="the settings stay as they are")
            return
        log_ignored(loaded.ignored, told=self.loaded.ignored)
        self.loaded = loaded
        self._take(self.in_force.take(loaded.settings))

    def _take(self, change: SettingsChange) -> None:
        if change.applied:
            logs.set_level(self.in_force.settings.log.level)
            settings = self.in_force.settings
            log.info("settings.changed", **{leaf.name: written(leaf.of(settings)) for leaf in change.applied})
        if change.waiting and change.waiting != self._waiting:
            log.warning("settings.need_restart", settings=[leaf.name for leaf in change.waiting])
        self._waiting = change.waiting


def log_ignored(ignored: Iterable[Ignored], *, told: Iterable[Ignored] = ()) -> None:
    """Logs one warning for each field that has no effect, except for those in `told`."""
    known = set(told)
    for each in ignored:
        if each not in known:
            log.warning("settings.ignored", field=each.field, value=each.value, why=each.why)
