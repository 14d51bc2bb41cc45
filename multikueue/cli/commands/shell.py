"""The command line itself: its `help`, `version` and `completion`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from multikueue.cli.terminal.formats import Format, Output, is_document
from multikueue.cli.terminal.output import print_document

__all__ = ["completion", "help_", "version"]


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def completion(
    ctx: typer.Context, shell: Annotated[Shell, typer.Argument(help="Your shell.", show_default=False)]
) -> None:
    """Print the script that completes commands and names.

    Names of jobs, clusters and queues come from the manager cluster, those of contexts from the kubeconfig.

    \b
    Examples:
      source <(multikueue completion bash)
      multikueue completion fish > ~/.config/fish/completions/multikueue.fish
    """
    from typer.completion import shell_complete

    name = ctx.find_root().info_name or "multikueue"
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    shell_complete(ctx.find_root().command, {}, name, variable, f"source_{shell.value}")


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


def version(output: Output = Format.TABLE) -> None:
    """Show the version."""
    from platform import python_version

    from multikueue import __version__

    if is_document(output):
        print_document({"version": __version__, "python": python_version()}, output)
    else:
        print(f"multikueue {__version__}")
