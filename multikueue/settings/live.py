"""The settings in force while the manager runs, what becomes of a changed file, and the times that are no settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio
import msgspec
from pydantic import BaseModel

from multikueue.settings.tree import CapacityFollow, Dispatch, Integrations, Leaf, Quota, Retention, Settings, leaves

__all__ = ["InForce", "SettingsChange", "Timings"]


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """The times of one process. What a user may have a reason to change is a setting instead."""

    call_timeout: timedelta = timedelta(seconds=10)
    """How long one API call may take: as long as an API server waits for a webhook by default."""

    heartbeat_timeout: timedelta = timedelta(seconds=2)
    """How long a worker may take to answer a heartbeat, on a new connection too."""

    suspect_after: timedelta = timedelta(seconds=2)
    """How long a worker fails until it is suspect: it gets no new copies, those it has stay. A moment
    of trouble, such as a watch that is opened again, is over by then and not shown."""

    isolate_after: timedelta = timedelta(seconds=5)
    """How long a worker fails until it is isolated: calls to it fail at once until it answers a heartbeat. Each call
    before that may take `call_timeout`, and holds one of the calls that may be under way."""

    retry_first: timedelta = timedelta(milliseconds=200)
    """The wait after the first failure of a key; doubles with each further one."""

    retry_cap: timedelta = timedelta(minutes=5)
    """The longest wait after a failure of a key, so also the longest it lags when a cause goes away unseen."""

    reconnect_first: timedelta = timedelta(seconds=1)
    """The longest wait before the first new attempt to connect to a worker; doubles with each further one."""

    reconnect_cap: timedelta = timedelta(seconds=30)
    """The longest wait between two attempts to connect, so also the longest a worker that is back goes unnoticed."""

    strategy_timeout: timedelta = timedelta(seconds=1)
    """How long a strategy that is not ours may think about one workload, and the wait after its first failure. It
    decides over values in memory; one that asks another program belongs beside the manager, as a dispatcher."""


class SettingsChange(msgspec.Struct, frozen=True):
    """The effect of a new tree: settings that were put into force, and settings that wait for a restart."""

    applied: tuple[Leaf, ...]
    waiting: tuple[Leaf, ...]


@dataclass(slots=True)
class InForce:
    """The one cell with the settings in force, and with the times of this process, which do not change. Code that must follow
    changes reads through it at each use."""

    settings: Settings
    timings: Timings = Timings()  # noqa: RUF009  # frozen
    _changed: anyio.Event = field(default_factory=anyio.Event, init=False)

    @property
    def dispatch(self) -> Dispatch:
        return self.settings.dispatch

    @property
    def quota(self) -> Quota:
        return self.settings.quota

    @property
    def capacity_follow(self) -> CapacityFollow:
        return self.settings.capacity_follow

    @property
    def integrations(self) -> Integrations:
        return self.settings.integrations

    @property
    def retention(self) -> Retention:
        return self.settings.retention

    def take(self, new: Settings) -> SettingsChange:
        """Puts into force what may change in a running process; the rest stays as it is."""
        changed = [leaf for leaf in leaves() if leaf.of(new) != leaf.of(self.settings)]
        applied = tuple(leaf for leaf in changed if leaf.is_live)
        if applied:
            self.settings = _with(self.settings, {leaf.path: leaf.of(new) for leaf in applied})
            self._changed.set()
            self._changed = anyio.Event()
        return SettingsChange(applied, tuple(leaf for leaf in changed if not leaf.is_live))

    async def changed(self) -> None:
        """Waits for the next change."""
        await self._changed.wait()


def _with(settings: Settings, values: Mapping[tuple[str, ...], Any]) -> Settings:
    for path, value in values.items():
        settings = _replaced(settings, path, value)
    return settings


def _replaced(group: Any, path: tuple[str, ...], value: Any) -> Any:
    """The group with one value replaced. Unchecked: the value comes from a tree that was checked."""
    assert isinstance(group, BaseModel)
    name, *rest = path
    inner = _replaced(getattr(group, name), tuple(rest), value) if rest else value
    return group.model_copy(update={name: inner})
