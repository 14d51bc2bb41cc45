"""What the figures of a start are of; the figures themselves are of one machine in one hour."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from benchmarks.start import COMMANDS, UNREACHABLE, Cost, as_text, compiled
from multikueue.cli import app


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[str]:
    below = getattr(command, "commands", {})
    for name, each in below.items():
        yield from commands(each, (*words, name))
    if not below:
        yield " ".join(words)


@pytest.mark.parametrize("command", sorted(commands(typer.main.get_command(app))))
def test_each_command_that_asks_a_cluster_is_measured(command: str) -> None:
    if command in ("convert", "run", "demo", "simulate-faults", "strategies check"):
        pytest.skip("asks no cluster, or does not end at the first one")
    assert any(words.startswith(command) for words in COMMANDS)


@pytest.mark.parametrize(("name", "options"), COMMANDS.items(), ids=COMMANDS)
def test_none_of_them_reaches_anybody(name: str, options: tuple[str, ...]) -> None:
    asks = name.split()[0] in ("workloads", "why", "objects") or name.startswith("clusters ")
    assert (UNREACHABLE in options) or not asks or "--help" in name


def test_a_figure_is_told_beside_an_interpreter_and_a_loop() -> None:
    text = as_text([Cost("nothing", 10), Cost("loop", 40), Cost("version", 100)])

    assert text.splitlines()[-1].split() == ["version", "100", "10.0", "2.50"]


def test_bytecode_is_kept_for_the_rounds_and_goes_away() -> None:
    with compiled() as env:
        folder = env["PYTHONPYCACHEPREFIX"]
        assert os.path.isdir(folder)
        assert env["PYTHONDONTWRITEBYTECODE"] == ""
    assert not os.path.exists(folder)
