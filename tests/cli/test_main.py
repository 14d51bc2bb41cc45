from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from multikueue import __version__
from multikueue.cli import app
from tests.cli.conftest import Run
from tests.project.files import pyproject


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "multikueue", "version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"multikueue {__version__}\n"


def test_the_version_for_programs(cli: Run) -> None:
    assert json.loads(cli("version", "-o", "json").out)["version"] == __version__


@pytest.mark.parametrize(
    "words",
    [["nonsense"], ["version", "-o", "xml"], ["clusters", "show"], ["clusters", "register", "w1"]],
    ids=["no such command", "no such format", "a name is missing", "which cluster is missing"],
)
def test_wrong_words_end_with_2_and_a_hint(cli: Run, words: list[str]) -> None:
    result = cli(*words)

    assert result.code == 2
    assert "Usage:" in result.err


def test_help_names_the_exit_codes(cli: Run) -> None:
    assert "3\n  a cluster cannot be reached" in cli("--help").out


def commands(command: Any, words: str = "multikueue") -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    for name, each in below.items():
        yield from commands(each, f"{words} {name}")
    if not below:
        yield words, command


ALL = list(commands(typer.main.get_command(app)))


@pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])
def test_each_command_explains_itself_and_its_options(words: str, command: Any) -> None:
    assert command.help
    for parameter in command.params:
        assert parameter.help, f"{words}: {parameter.name}"
    if words.split()[1] in ("clusters", "workloads"):
        assert words in command.help.partition("Examples:")[2]
        options = {option for parameter in command.params for option in parameter.opts}
        all_contexts = {"--context"} if words.endswith(" discover") else set()
        assert {"--manager-kubeconfig", "--manager-context", "--kubeconfig", "--context"} - all_contexts <= options


@pytest.mark.parametrize(("words", "command"), ALL, ids=[words for words, _ in ALL])
def test_the_line_in_the_list_of_commands_is_whole(words: str, command: Any) -> None:
    assert len(command.help.partition("\n")[0]) <= 60
    assert not command.get_short_help_str(60).endswith("...")


@pytest.mark.parametrize("words", [("--version",), ("version",)], ids=" ".join)
def test_the_version(cli: Run, words: tuple[str, ...]) -> None:
    assert cli(*words).out == f"multikueue {__version__}\n"


def test_as_a_plugin_of_kubectl_it_has_that_name(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/kubectl-multikueue"])

    assert "Usage: kubectl multikueue clusters" in cli("clusters", "--help").out
    assert pyproject("multikueue")["project"]["scripts"]["kubectl-multikueue"] == "multikueue.cli:main"


def test_completion_can_be_installed(cli: Run) -> None:
    assert "--install-completion" in cli("--help").out
