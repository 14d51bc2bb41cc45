from __future__ import annotations

import pytest

from tests.cli.conftest import Run


@pytest.mark.parametrize("words", [(), ("clusters",), ("clusters", "register"), ("version",)], ids=" ".join)
def test_help_in_front_says_what_the_option_says(cli: Run, words: tuple[str, ...]) -> None:
    assert cli("help", *words).out == cli(*words, "--help").out


def test_help_of_nothing_is_wrong_usage_with_the_nearest(cli: Run) -> None:
    ended = cli("help", "wrkloads")

    assert ended.code == 2
    assert "Did you mean 'workloads'?" in ended.err
