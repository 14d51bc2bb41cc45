"""The command line: words to settings, errors to exit codes, answers to tables.

Each command has a file or a folder in `commands`. `tree` lists them by name, with those of other distributions, and loads
the requested one. Commands share these rooms: `workload` (one workload, on whichever cluster), `access` (the way to the
manager cluster and to a worker) and `terminal` (output, durations, exit codes).

`registration` joins workers; no decision is made here. A command imports what it needs when it runs:
`--help` and `version` load no client and no settings.
"""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated

import typer

from multikueue.cli.access.groups import ConfigBefore, ContextBefore, KubeconfigBefore, NamespaceBefore
from multikueue.cli.terminal.exit import EPILOG, open_streams, reported
from multikueue.cli.terminal.plain_values import take_plainly
from multikueue.cli.tree import Root

__all__ = ["app", "main"]

PLUGIN = "kubectl-multikueue"
"""The name by which kubectl finds the plugin, for `kubectl multikueue`."""

COLLECT_AFTER = 50_000
"""New objects before Python looks for garbage: more than a short command makes. The manager sets its own."""

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


def _version(is_wanted: bool) -> None:
    if is_wanted:
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
    """Turns the app into a group. Its commands come from `tree` and look these options up (terminal.inherited)."""
    del kubeconfig, context, namespace, config, version


def main(words: Sequence[str] | None = None) -> None:
    """The console script; `words` are the arguments, those of the process by default. Ends by SystemExit."""
    open_streams()
    take_plainly()
    if words is None:
        _collect_rarely()
    name = "kubectl multikueue" if PurePath(sys.argv[0]).stem == PLUGIN else "multikueue"
    sys.exit(reported(lambda: app(None if words is None else list(words), prog_name=name)))


def _collect_rarely() -> None:
    """Searching what was just loaded for garbage, also when the interpreter ends, costs a short command a fifth of its CPU."""
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    atexit.register(gc.freeze)
