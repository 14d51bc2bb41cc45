"""The command line: words to settings, errors to exit codes, answers to tables; one file per noun.

`run` starts the manager; `clusters` registers, shows, checks and removes workers, as `fleet` reads and `inspection` checks
them; `workloads` tells what became of them, in the words of `story`; `why` says what one waits for. `pods`, `logs` and
`events` go to where a workload is: `naming` finds out which is meant, `scene` stays with it, `reach` knows the way to a
worker, `kin` what belongs to it there, `sight` what is to be seen. `objects` shows what cannot be read.
`tree` has the commands by name, those of other distributions too, and loads the one that is asked for, `connection` knows
the options that choose a cluster, `durations` how one types a duration, `output` how things are printed, `exit` how a
command ends. Joining a worker is `registration`; nothing is decided here. A command imports what it needs when it runs:
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
