"""Groups of commands, each with the options that every command about the manager cluster has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multikueue.cli.access.contexts import contexts
from multikueue.cli.terminal.exit import EPILOG

__all__ = ["ConfigBefore", "ContextBefore", "KubeconfigBefore", "NamespaceBefore", "group"]

_PANEL = "Global options, also after the command"

# Without their variables: the commands read these, after their own files with settings.
KubeconfigBefore = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        "--manager-kubeconfig",
        help="Kubeconfig of the manager cluster.",
        show_default=False,
        rich_help_panel=_PANEL,
        exists=True,
        dir_okay=False,
    ),
]
ContextBefore = Annotated[
    str | None,
    typer.Option(
        "--context",
        "--manager-context",
        help="Context of the manager cluster.",
        show_default=False,
        rich_help_panel=_PANEL,
        autocompletion=contexts,
    ),
]
NamespaceBefore = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace of jobs and queues.", show_default=False, rich_help_panel=_PANEL),
]
ConfigBefore = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="The manager's file with settings.",
        show_default=False,
        rich_help_panel=_PANEL,
        exists=True,
        dir_okay=False,
    ),
]


def group(name: str, help_: str) -> typer.Typer:
    """A noun, whose commands are verbs."""
    made = typer.Typer(name=name, help=help_, epilog=EPILOG, no_args_is_help=True, rich_markup_mode=None)
    made.callback()(_options)
    return made


def _options(
    kubeconfig: KubeconfigBefore = None,
    context: ContextBefore = None,
    namespace: NamespaceBefore = None,
    config: ConfigBefore = None,
) -> None:
    # Commands look them up (terminal.inherited).
    del kubeconfig, context, namespace, config
