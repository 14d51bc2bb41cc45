"""`multikueue help`: the text of `--help`, with `help` typed first."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["help_"]


def help_(
    ctx: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="A command.", show_default=False)
    ] = None,
) -> None:
    """Show the help of a command.

    \b
    Examples:
      multikueue help
      multikueue help clusters register
    """
    root = ctx.find_root()
    root.command.main([*(words or ()), "--help"], prog_name=root.info_name)
