"""The settings in force while the manager runs, and what becomes of a changed file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
from pydantic import BaseModel

from multikueue.settings.timings import Timings
from multikueue.settings.tree import CapacityFollow, Dispatch, Integrations, Leaf, Quota, Retention, Settings, leaves

__all__ = ["InForce", "SettingsChange"]


class SettingsChange(msgspec.Struct, frozen=True):
    """The effect of a new tree: settings that were put into force, and settings that wait for a restart."""

    applied: tuple[Leaf, ...]
    waiting: tuple[Leaf, ...]


@dataclass(slots=True)
class InForce:
    """The one cell with the settings in force, and with the times of this process, which do not change. Whoever must follow
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
