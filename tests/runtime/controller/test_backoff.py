"""Delays grow to a cap, with as much chance in them as asked for."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.errors import ConfigurationError
from multikueue.runtime import Backoff

SECOND = timedelta(seconds=1)


def test_delays_double_up_to_the_cap() -> None:
    backoff = Backoff(first=5 * SECOND, cap=320 * SECOND, jitter=0)
    assert [backoff.delay(n) / SECOND for n in range(9)] == [0, 5, 10, 20, 40, 80, 160, 320, 320]


def test_another_factor_grows_faster() -> None:
    backoff = Backoff(first=SECOND, cap=100 * SECOND, factor=10, jitter=0)
    assert [backoff.delay(n) / SECOND for n in (1, 2, 3, 4)] == [1, 10, 100, 100]


def test_a_million_failures_wait_for_the_cap() -> None:
    assert Backoff(first=SECOND, cap=60 * SECOND, jitter=0).delay(10**6) == 60 * SECOND


@pytest.mark.parametrize(
    ("jitter", "draw", "seconds"),
    [
        pytest.param(0.5, 0.0, 8, id="half jitter takes nothing off at best"),
        pytest.param(0.5, 1.0, 4, id="half jitter takes half off at worst"),
        pytest.param(1, 0.75, 2, id="full jitter may take off nearly all"),
    ],
)
def test_jitter_takes_a_share_off(jitter: float, draw: float, seconds: float) -> None:
    backoff = Backoff(first=SECOND, cap=60 * SECOND, jitter=jitter, draw=lambda: draw)
    assert backoff.delay(4) == seconds * SECOND


@given(failures=st.integers(1, 10**9), jitter=st.floats(0, 1))
def test_a_delay_is_never_negative_nor_over_the_cap(failures: int, jitter: float) -> None:
    assert timedelta() <= Backoff(first=SECOND, cap=30 * SECOND, jitter=jitter).delay(failures) <= 30 * SECOND


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda: Backoff(first=timedelta(), cap=SECOND), id="no first delay"),
        pytest.param(lambda: Backoff(first=2 * SECOND, cap=SECOND), id="a cap below the first delay"),
        pytest.param(lambda: Backoff(first=SECOND, cap=SECOND, factor=1), id="no growth"),
        pytest.param(lambda: Backoff(first=SECOND, cap=SECOND, jitter=1.5), id="more chance than delay"),
    ],
)
def test_a_backoff_that_cannot_work_is_refused(build: object) -> None:
    assert callable(build)
    with pytest.raises(ConfigurationError, match="back-off: expected 0 < first <= cap"):
        build()
