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
