"""Options that may stand anywhere: with the command, or before it, with its group or with the program.

The value nearest to the command counts, before environment and settings wherever it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

__all__ = ["before", "inherited"]


def inherited(name: str) -> Callable[..., Any]:
    """The callback of an option of a command that groups have under this name."""

    def callback(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        source = ctx.get_parameter_source(param.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        return value if given else before(ctx, name, value)

    return callback


def before(ctx: typer.Context, name: str, otherwise: Any = None) -> Any:
    """The value of this option before the command."""
    parent = ctx.parent
    while parent is not None:
        if (value := parent.params.get(name)) is not None:
            return value
        parent = parent.parent
    return otherwise
