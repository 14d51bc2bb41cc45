from __future__ import annotations

from datetime import timedelta

import pytest
import typer

from multikueue.cli.terminal.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [("30d", timedelta(days=30)), ("1h30m", timedelta(minutes=90)), ("600s", timedelta(seconds=600))],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["99999999999d", f"{'9' * 400}s", f"{'9' * 5000}s"], ids=["days", "float", "digits"])
def test_a_duration_no_calendar_holds_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is too long"):
        parse_duration(text)
