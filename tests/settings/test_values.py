"""Kinds of values: how durations are written."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.errors import ConfigurationError
from multikueue.settings import duration, load


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


@pytest.mark.parametrize("given", ["PT15M", "15m", "900", 900, "00:15:00"])
def test_a_setting_takes_durations_in_every_usual_way(given: object) -> None:
    assert load(dispatch__worker_lost_timeout=given).dispatch.worker_lost_timeout == timedelta(minutes=15)


@given(st.integers(0, 10**4), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999))
def test_every_duration_that_go_writes_is_read(hours: int, minutes: int, seconds: int, millis: int) -> None:
    expected = timedelta(hours=hours, minutes=minutes, seconds=seconds, milliseconds=millis)
    assert duration(f"{hours}h{minutes}m{seconds}.{millis:03}s") == expected


@pytest.mark.parametrize(
    "text", ["", "10", "cpu", "-1%", "101%", "1.5%", "=1", "cpu=", "cpu=x", "cpu=-1", "1%,2%", "a=1,a=2"]
)
def test_a_reserve_that_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"capacity_follow\.reserve: expected a percentage, resources with"):
        load(capacity_follow__reserve=text)


@pytest.mark.parametrize("text", ["", "a b", "/team", "example.com/", "Example.com/team", "a/b/c", "-team", "x" * 64])
def test_what_can_be_no_key_of_a_label_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"integrations\.label_keys_to_copy\[0\]: expected the key of a label"):
        load(integrations__label_keys_to_copy=[text])


def test_keys_of_labels_are_read_as_a_list_or_in_one_line() -> None:
    given = ["team", "example.com/Cost_center"], "team, example.com/Cost_center"
    found = [load(integrations__label_keys_to_copy=each).integrations.label_keys_to_copy for each in given]
    assert found == [("team", "example.com/Cost_center")] * 2
