"""Commands that other distributions bring by entry point: there, not installed, and broken."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from multikueue.cli import tree
from tests.cli.conftest import Run

Installed = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    """Only these commands are brought: name to `module:attribute`."""

    def bring(**places: str) -> None:
        points = {name: EntryPoint(name, place, tree.GROUP) for name, place in places.items()}
        monkeypatch.setattr(tree, "_installed", lambda: points)

    return bring


def hello(name: str) -> None:
    """Greet somebody."""
    print(f"hello {name}")


@pytest.mark.parametrize(
    "words", [("demo",), ("demo", "--jobs", "6"), ("simulate-faults", "--seeds", "1")], ids=" ".join
)
def test_without_the_simulator_its_commands_say_in_one_line_what_to_install(
    words: tuple[str, ...], cli: Run, installed: Installed
) -> None:
    installed()

    ended = cli(*words)

    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"error: `multikueue {words[0]}` comes with another package: pip install multikueue-simulator\n"


def test_without_the_simulator_the_help_lists_its_commands_all_the_same(cli: Run, installed: Installed) -> None:
    installed()

    listed = cli("--help").out

    assert "demo " in listed
    assert "simulate-faults " in listed


def test_a_command_of_another_distribution_is_one_of_ours(cli: Run, installed: Installed) -> None:
    installed(hello=f"{__name__}:hello")

    assert "Greet somebody." in cli("--help").out
    assert cli("hello", "you").out == "hello you\n"


def test_no_other_distribution_takes_the_name_of_a_command_of_ours(cli: Run, installed: Installed) -> None:
    installed(version=f"{__name__}:hello")

    assert cli("version").out.startswith("multikueue ")


def test_one_that_cannot_be_loaded_hurts_nobody_else(cli: Run, installed: Installed) -> None:
    installed(hello="no.such.module:hello")

    assert cli("--help").code == 0
    ended = cli("hello")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error: `multikueue hello` cannot be loaded: ModuleNotFoundError: ")


def gone() -> None:
    """Write to a pipe that nobody reads."""
    raise BrokenPipeError


def test_a_command_whose_reader_is_gone_ends_as_a_shell_says_it(cli: Run, installed: Installed) -> None:
    installed(gone=f"{__name__}:gone")

    ended = cli("gone")

    assert (ended.code, ended.out, ended.err) == (141, "", "")


@pytest.mark.parametrize(("alias", "name"), [("jobs", "workloads"), ("queue", "queues")])
def test_another_word_is_no_command_of_its_own(cli: Run, alias: str, name: str) -> None:
    assert cli(alias, "list", "--help").code == 0
    assert f"\n  {alias} " not in cli("--help").out


def test_a_name_that_nobody_brings_is_wrong_usage(cli: Run, installed: Installed) -> None:
    installed()

    ended = cli("no-such")

    assert ended.code == 2
    assert "No such command" in ended.err
