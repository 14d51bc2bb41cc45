"""Plain values of options are taken as they are; all else is typer's."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from multikueue.cli.terminal.plain_values import take_plainly


class Colour(StrEnum):
    RED = "red"


def doubled(text: str) -> str:
    if text == "odd":
        raise typer.BadParameter("expected an even one")
    return 2 * text


app = typer.Typer()


@app.command()
def show(
    names: list[str],
    text: str = "t",
    number: Annotated[int, typer.Option(min=1, max=7)] = 1,
    colour: Colour = Colour.RED,
    path: Path | None = None,
    some: Annotated[list[str] | None, typer.Option()] = None,
    twice: Annotated[str, typer.Option(parser=doubled)] = "",
    missing: str | None = None,
) -> None:
    print(names, text, number, colour, path, some, twice, missing)


@pytest.mark.parametrize(
    "words",
    [
        ["a", "b"],
        ["a", "--text", "x", "--number", "7", "--colour", "red", "--path", "p", "--some", "1", "--some", "2"],
        ["a", "--twice", "ab"],
        ["a", "--twice", "odd"],
        ["a", "--number", "8"],
        ["a", "--number", "x"],
        ["a", "--colour", "blue"],
        [],
    ],
    ids=" ".join,
)
def test_a_command_takes_what_typer_takes_and_complains_as_typer_does(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer import core

    monkeypatch.setattr(core._TyperParameter, "get_runtime_param", core._TyperParameter.get_runtime_param)
    take_plainly()
    ours = CliRunner().invoke(app, words)
    monkeypatch.undo()
    typers = CliRunner().invoke(app, words)

    assert (ours.exit_code, ours.output) == (typers.exit_code, typers.output)
