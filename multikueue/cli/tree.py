"""The commands by their names, each loaded when it is asked for: a start loads the one that runs, and help all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

__all__ = ["Root"]

PLACES: Mapping[str, str] = {
    "run": "run:run",
    "demo": "demo:demo",
    "simulate-faults": "simulate:simulate_faults",
    "why": "why:why",
    "version": "version:version",
    "clusters": "clusters:app",
    "workloads": "workloads:app",
    "strategies": "strategies:app",
    "objects": "objects:app",
}
"""In the order of the help: a function is a command, an app a group of them."""


class _Commands(Mapping[str, Any]):
    """click's commands, made from ours at the first look."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _made(name, PLACES[name])
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(PLACES)

    def __len__(self) -> int:
        return len(PLACES)


def _made(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"multikueue.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return typer.main.get_command(alone)


class Root(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]  # never written to: all are in PLACES
