"""Bundles of options, as typer and a command see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from multikueue.cli.terminal.bundles import bundled


@dataclass(frozen=True)
class Size:
    """Two options."""

    width: int = 1
    height: Annotated[int, typer.Option("--height", "-y", help="How high.")] = 2


app = typer.Typer(add_completion=False)


@app.command()
@bundled
def draw(name: str, *, size: Size, dry: bool = False) -> None:
    print(name, size, dry)


def test_the_options_of_a_bundle_are_options_of_the_command_in_its_place() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    assert 0 < shown.index("--width") < shown.index("--height") < shown.index("--dry")


def test_a_command_gets_its_bundle_as_a_value() -> None:
    done = CliRunner().invoke(app, ["box", "-y", "5", "--dry"])
    assert done.output == "box Size(width=1, height=5) True\n"
