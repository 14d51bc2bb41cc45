"""The commands by name, loaded on demand: a start loads the command that runs, help loads all.

Other distributions add commands by entry points of the group `multikueue.commands`, each a function or a typer app like
ours. Entry points are read only for a name that is not ours, and for help.
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
    "run": "process.run:run",
    "why": "why:why",
    "submit": "submit:submit",
    "convert": "convert:convert",
    "logs": "workloads.logs:logs",
    "pods": "workloads.pods:pods",
    "events": "workloads.events:events",
    "get": "get:app",
    "workloads": "workloads.group:app",
    "queues": "queues.group:app",
    "clusters": "clusters.group:app",
    "doctor": "clusters.doctor:doctor",
    "strategies": "process.strategies:app",
    "settings": "process.settings:app",
    "objects": "objects:app",
    "webhook": "process.webhook:app",
    "completion": "shell:completion",
    "version": "shell:version",
    "help": "shell:help_",
}
"""Modules below `commands`, in the order of the help. A function is a command, an app a group."""

ALIASES: Mapping[str, str] = {
    "jobs": "workloads",
    "job": "workloads",
    "wl": "workloads",
    "cluster": "clusters",
    "queue": "queues",
}
"""Aliases, which the help leaves out."""

ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "console": ("multikueue-console", "See queues, workloads and clusters in the browser."),
    "demo": ("multikueue-simulator", "Show the main job on simulated clusters, with nothing but Python."),
    "record": ("multikueue-console", "Record what becomes of workloads, until it is stopped."),
    "report": ("multikueue-console", "Show who used and waited how much."),
    "simulate-faults": ("multikueue-simulator", "Look for faults of the manager on simulated clusters."),
    "top": ("multikueue-console", "See queues, workloads and clusters in the terminal."),
}
"""Our commands in another distribution: its name and the command's help, for installations without it."""


class _Commands(Mapping[str, Any]):
    """click's mapping of commands, ours and those of other distributions, each made at its first lookup."""

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
    """The command of that name. Raises KeyError without one."""
    if name in PLACES:
        return _ours(name)
    if name not in _installed():
        return _missing(name, *ELSEWHERE[name])
    try:
        return _made(name, _installed()[name].load())
    except Exception as error:  # noqa: BLE001  # of others: the help and all other commands must go on
        return _broken(name, error)


@cache
def _ours(name: str) -> Any:
    """Made once for a process that runs several commands: typer evaluates the annotations of each option."""
    module, _, attribute = PLACES[name].partition(":")
    return _made(name, getattr(import_module(f"multikueue.cli.commands.{module}"), attribute))


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
    """A command that takes all options and fails with `problem`."""

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
            error.message = error.message.replace("Value error, ", "")  # pydantic's prefix, which tells a user nothing
            raise
        except BrokenPipeError:  # typer would exit with 1, without a message
            raise SystemExit(ExitCode.READER_GONE) from None
