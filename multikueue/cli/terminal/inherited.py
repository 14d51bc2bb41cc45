"""Options that may stand after the command, after its group or after the program.

The value nearest to the command counts. In each place it goes before environment and settings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

__all__ = ["before", "inherited"]


def inherited(name: str) -> Callable[..., Any]:
    """The callback of a command's option that its groups also have, under this name."""

    def callback(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        source = ctx.get_parameter_source(param.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        return value if given else before(ctx, name, value)

    return callback


def before(ctx: typer.Context, name: str, otherwise: Any = None) -> Any:
    """The option's value from before the command, the nearest first."""
    parent = ctx.parent
    while parent is not None:
        if (value := parent.params.get(name)) is not None:
            return value
        parent = parent.parent
    return otherwise
