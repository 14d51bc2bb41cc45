"""`multikueue completion`: the script that makes a shell complete commands, options and names."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["completion"]


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
