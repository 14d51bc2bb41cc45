"""Each `multikueue ...` that a document or a script shows is a command with those options; the page of commands has each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from benchmarks.__main__ import app as benchmarks
from multikueue.cli import app
from multikueue.cli.tree import ALIASES
from tests.project.files import DOCS, KIND_CONFIGS, code, read, rows, section

CALL = re.compile(
    r"""(?:^|(?<=[\s;&|("]))(?:(?!clusterrole/)\S*/)?multikueue"? ((?:[a-z][\w-]* ?)+)([^;&|#\n]*)""", re.MULTILINE
)


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Words to options, for everything that does something. A command is click's, which typer may bring itself: Any."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(words), {option for parameter in command.params for option in parameter.opts}
        return
    for name, each in below.items():
        yield from commands(each, (*words, name))


HELP = {"-h", "--help", "--version"}
COMMANDS = dict(commands(typer.main.get_command(app)))
BENCHMARKS = dict(commands(typer.main.get_command(benchmarks)))


def calls(text: str) -> Iterator[tuple[str, str, set[str]]]:
    """What is called, the name of the command in it (empty if there is none), and the options given."""
    for called, rest in CALL.findall(text):
        first, _, more = called.partition(" ")
        words = f"{ALIASES.get(first, first)} {more}"
        name = next((name for name in COMMANDS if f"{words} ".startswith(f"{name} ")), "")
        yield (
            words.strip(),
            name,
            {option.partition("=")[0] for option in rest.split() if re.match(r"--?[a-z]", option)},
        )


def shown() -> Iterator[tuple[str, str]]:
    for path in DOCS:
        yield path.name, "\n".join(code(path.read_text()))
    yield "up.sh", read(KIND_CONFIGS / "up.sh")


@pytest.mark.parametrize(("place", "text"), [*shown()], ids=[place for place, _ in shown()])
def test_each_command_that_is_shown_exists_with_its_options(place: str, text: str) -> None:
    for words, name, given in calls(text):
        assert name, f"{place}: there is no command `multikueue {words}`"
        assert given <= COMMANDS[name], f"{place}: multikueue {name}"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_each_option_that_is_named_alone_exists(path: Path) -> None:
    named = {text for text in code(path.read_text()) if re.fullmatch(r"--?[a-z][\w-]*", text)}

    assert named <= set().union(HELP, *COMMANDS.values(), *BENCHMARKS.values())


def test_the_table_of_commands_has_each_command_and_no_other() -> None:
    table = rows(section(read("docs/commands.md"), "Commands"))

    named = {name.removeprefix("multikueue ") for name, _ in table if name.startswith("multikueue ")}
    assert named == set(COMMANDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("multikueue run --context manager", ("run", "run", {"--context"})),
        (
            "  multikueue clusters register w --server=https://x -o json",
            ("clusters register w", "clusters register", {"--server", "-o"}),
        ),
        ("multikueue strategise", ("strategise", "", set())),
        ('"$multikueue" clusters check', ("clusters check", "clusters check", set())),
    ],
    ids=["a command", "a command of a noun", "no command", "a variable in a script"],
)
def test_calls_are_found(text: str, expected: tuple[str, str, set[str]]) -> None:
    assert list(calls(text.replace("$multikueue", "./multikueue"))) == [expected]
