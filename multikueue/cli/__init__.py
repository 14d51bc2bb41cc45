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

import typer

from multikueue.cli.terminal.exit import EPILOG, reported
from multikueue.cli.tree import Root

__all__ = ["app", "main"]

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


@app.callback()
def _root() -> None:
    """Makes it a group, whose commands are those of `tree`."""


def main(words: Sequence[str] | None = None) -> None:
    """The console script; `words` are the arguments, those of the process by default. Ends by SystemExit."""
    sys.exit(reported(lambda: app(None if words is None else list(words), prog_name="multikueue")))
