"""`multikueue settings`: a template, validation of a file, and the JSON Schema for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multikueue.cli.access.groups import group
from multikueue.cli.terminal.formats import Format
from multikueue.cli.terminal.output import note, print_document

__all__ = ["app"]

app = group("settings", "Write and check files with settings.")


@app.command("init")
def init() -> None:
    """Print a file with every setting, meaning and default.

    \b
    Examples:
      multikueue settings init > multikueue.yaml
    """
    from multikueue.settings.describe import template

    print(template())


@app.command("validate")
def validate(
    file: Annotated[
        Path,
        typer.Argument(
            help="A file of ours, or Kueue's own Configuration.", show_default=False, exists=True, dir_okay=False
        ),
    ],
) -> None:
    """Check a file with settings. Needs no cluster.

    Variables of the environment count too, as they do for `run`. Ends with 2 if the manager would not start with it.

    \b
    Examples:
      multikueue settings validate multikueue.yaml
    """
    from multikueue import settings
    from multikueue.controllers.reconcile.strategies import verify

    loaded = settings.read(file)
    verify(loaded)
    for each in loaded.ignored:
        note(f"warning: {each.place}: {each}")
    print(f"{file}: ok")


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings, for editors.

    \b
    Examples:
      multikueue settings schema > multikueue.schema.json
    """
    from multikueue.settings import describe as schemas

    print_document(schemas.schema(), Format.JSON)
