"""The times that nobody sets."""

from __future__ import annotations

import pytest

from multikueue.settings import Settings, Timings
from multikueue.settings.tree import GONE


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [("suspect_after", "isolate_after"), ("retry_first", "retry_cap"), ("reconnect_first", "reconnect_cap")],
)
def test_they_are_in_order(shorter: str, longer: str) -> None:
    assert getattr(Timings(), shorter) < getattr(Timings(), longer)


def test_a_worker_is_isolated_before_it_is_lost() -> None:
    assert Timings().isolate_after < Settings().dispatch.worker_lost_timeout


@pytest.mark.parametrize("name", Timings.__struct_fields__)
def test_each_was_a_setting_once_and_the_error_says_so(name: str) -> None:
    assert f"dispatch.{name}" in GONE
