from __future__ import annotations

from datetime import timedelta

import pytest
import typer

from multikueue.cli.terminal.durations import parse_duration
from multikueue.settings import Settings
from multikueue.settings.tree import Shutdown


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", timedelta(days=30)),
        ("1h30m", timedelta(minutes=90)),
        ("600s", timedelta(seconds=600)),
        ("1.5h", timedelta(minutes=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("PT1H", timedelta(hours=1)),
        ("90", timedelta(seconds=90)),
        ("2d12h", timedelta(hours=60)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["99999999999d", f"{'9' * 400}s", f"{'9' * 5000}s"], ids=["days", "float", "digits"])
def test_a_duration_no_calendar_holds_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "soon", "-5m", "1x"])
def test_what_is_no_duration_is_wrong_usage(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="expected a duration such as"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["30d", "1h30m", "1.5h", "500ms", "PT1H", "90", "2d12h"])
def test_an_option_and_a_setting_read_the_same(text: str) -> None:
    found = Settings(shutdown=Shutdown.model_validate({"grace_period": text}))

    assert found.shutdown.grace_period == parse_duration(text)
