"""The command line: words to settings, errors to exit codes, answers to tables.

Each command has a file or a folder in `commands`. `tree` has them by name, those of other distributions too, and loads the
one that is asked for. Below are the rooms that commands share: `workload` (one workload, wherever it is), `access` (the way
to the manager cluster and to a worker) and `terminal` (what is printed, durations, exit codes).

Joining a worker is `registration`; nothing is decided here. A command imports what it needs when it runs:
`--help` and `version` load no client and no settings.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated

import typer

from multikueue.cli.access.groups import ConfigBefore, ContextBefore, KubeconfigBefore, NamespaceBefore
from multikueue.cli.terminal.exit import EPILOG, reported
from multikueue.cli.tree import Root

__all__ = ["app", "main"]

PLUGIN = "kubectl-multikueue"
"""Under this name kubectl finds us, for `kubectl multikueue`."""

app = typer.Typer(
    name="multikueue",
    cls=Root,
    help="Submit ordinary Kubernetes jobs to one cluster, run them on many.",
    epilog=EPILOG,
    no_args_is_help=True,
    # Plain help, as of kubectl: boxes cut option names off, and loading rich takes longer than all the rest.
    rich_markup_mode=None,
    # A traceback with local variables would print tokens.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from multikueue import __version__

        print(f"multikueue {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    kubeconfig: KubeconfigBefore = None,
    context: ContextBefore = None,
    namespace: NamespaceBefore = None,
    config: ConfigBefore = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Makes it a group, whose commands are those of `tree`; they look these options up (terminal.inherited)."""
    del kubeconfig, context, namespace, config, version


def main(words: Sequence[str] | None = None) -> None:
    """The console script; `words` are the arguments, those of the process by default. Ends by SystemExit."""
    name = "kubectl multikueue" if PurePath(sys.argv[0]).stem == PLUGIN else "multikueue"
    sys.exit(reported(lambda: app(None if words is None else list(words), prog_name=name)))
