from __future__ import annotations

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_that_asks_us(cli: Run, shell: str) -> None:
    ended = cli("completion", shell)

    assert ended.code == 0
    assert "_MULTIKUEUE_COMPLETE" in ended.out


def test_another_shell_is_wrong_usage_in_plain_words(cli: Run) -> None:
    ended = cli("completion", "csh")

    assert ended.code == 2
    assert "'csh' is not one of 'bash', 'zsh', 'fish', 'powershell'" in ended.err
    assert "Value error" not in ended.err


@pytest.mark.parametrize("words", [(), ("clusters",), ("clusters", "register"), ("version",)], ids=" ".join)
def test_help_in_front_says_what_the_option_says(cli: Run, words: tuple[str, ...]) -> None:
    assert cli("help", *words).out == cli(*words, "--help").out


def test_help_of_nothing_is_wrong_usage_with_the_nearest(cli: Run) -> None:
    ended = cli("help", "wrkloads")

    assert ended.code == 2
    assert "Did you mean 'workloads'?" in ended.err
