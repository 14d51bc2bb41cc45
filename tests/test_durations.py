"""How durations are written in settings, options and annotations."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.durations import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15m", 900),
        ("1h2m3.5s", 3723.5),
        ("500ms", 0.5),
        (".5s", 0.5),
        ("0", 0),
        ("1.5", 1.5),
        ("-3s", -3),
        ("2us", 2e-6),
    ],
)
def test_durations_are_read_as_kubernetes_writes_them(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("value", ["soon", "", "1m30", "s", "1 m", 7, None, "PT15M"])
def test_what_is_no_such_duration_is_left_to_others(value: object) -> None:
    assert duration(value) is value


@given(st.integers(0, 10**4), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_every_duration_that_go_writes_is_read(hours: int, minutes: int, seconds: int, millis: int) -> None:
    expected = timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=millis)
    assert duration(f"{hours}h{minutes}m{seconds}.{millis:03}s") == expected
