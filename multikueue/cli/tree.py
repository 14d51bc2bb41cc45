"""The commands by their names, each loaded when it is asked for: a start loads the one that runs, and help all of them.

Other distributions bring commands by an entry point of the group `multikueue.commands`, a function or a typer app as ours
are. The entry points are read only for a name that is none of ours, and for help.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from multikueue.cli.terminal.exit import ExitCode
from multikueue.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "Root"]

GROUP = "multikueue.commands"

PLACES: Mapping[str, str] = {
    "run": "run:run",
    "why": "why:why",
    "submit": "submit:submit",
    "logs": "workloads.logs:logs",
    "pods": "workloads.pods:pods",
    "events": "workloads.events:events",
    "get": "get:app",
    "workloads": "workloads.group:app",
    "queues": "queues.group:app",
    "clusters": "clusters.group:app",
    "strategies": "strategies:app",
    "settings": "settings:app",
    "objects": "objects:app",
    "webhook": "webhook:app",
    "completion": "completion:completion",
    "version": "version:version",
    "help": "help:help_",
}
"""Below `commands`, in the order of the help: a function is a command, an app a group of them."""

ALIASES: Mapping[str, str] = {
    "jobs": "workloads",
    "job": "workloads",
    "wl": "workloads",
    "cluster": "clusters",
    "queue": "queues",
}
"""What people also type; the help has each command once."""

ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "demo": ("multikueue-simulator", "Show the main job on simulated clusters, with nothing but Python."),
    "simulate-faults": ("multikueue-simulator", "Look for faults of the manager on simulated clusters."),
}
"""Commands of ours that another distribution brings: its name, and what the command does, for where it is not installed."""


class _Commands(Mapping[str, Any]):
    """click's commands, made from ours and from those of other distributions at the first look."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        name = ALIASES.get(name, name)
        if name not in self._made:
            self._made[name] = _command(name)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        yield from PLACES
        yield from sorted({*ELSEWHERE, *_installed()} - {*PLACES})

    def __len__(self) -> int:
        return sum(1 for _ in self)


@cache
def _installed() -> Mapping[str, EntryPoint]:
    """The commands that other distributions bring, none of them loaded."""
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _command(name: str) -> Any:
    """Raises KeyError if there is no such command."""
    if name in PLACES:
        module, _, attribute = PLACES[name].partition(":")
        return _made(name, getattr(import_module(f"multikueue.cli.commands.{module}"), attribute))
    if name not in _installed():
        return _missing(name, *ELSEWHERE[name])
    try:
        return _made(name, _installed()[name].load())
    except Exception as error:  # noqa: BLE001  # of others: the help and all other commands must go on
        return _broken(name, error)


def _made(name: str, found: Any) -> Any:
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(found)
    return typer.main.get_command(alone)


def _missing(name: str, distribution: str, description: str) -> Any:
    problem = f"`multikueue {name}` comes with another package: pip install {distribution}"
    return _failing(name, f"{description} Needs {distribution}.", problem)


def _broken(name: str, error: Exception) -> Any:
    problem = f"`multikueue {name}` cannot be loaded: {type(error).__name__}: {error}"
    return _failing(name, "It cannot be loaded.", problem)


def _failing(name: str, description: str, problem: str) -> Any:
    """A command that takes all options, and says why it does nothing."""

    def fail() -> None:
        raise ConfigurationError(problem)

    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    anything = {"allow_extra_args": True, "ignore_unknown_options": True}
    alone.command(name, help=description, context_settings=anything)(fail)
    return typer.main.get_command(alone)


class Root(TyperGroup):
    """The group of all commands."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = _Commands()  # type: ignore[assignment]  # never written to: each has its place

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.replace("Value error, ", "")  # pydantic's, which is not the user's business
            raise
        except BrokenPipeError:  # typer would end by 1, without a word
            raise SystemExit(ExitCode.READER_GONE) from None
