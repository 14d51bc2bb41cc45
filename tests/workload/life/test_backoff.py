"""How long an evicted workload waits (quota-engine 5.2, QE-333)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.workload.life.backoff import JITTER, backoff

WAITS = {
    "first": (10, 7200, 0, 10),
    "QE-333 doubled with each": (10, 7200, 3, 80),
    "QE-333 at most the cap": (10, 7200, 10, 7200),
    "so often that numbers would burst": (10, 7200, 2**31 - 1, 7200),
    "none": (0, 7200, 5, 0),
}


@pytest.mark.parametrize(("first", "cap", "tried", "expected"), WAITS.values(), ids=WAITS)
def test_the_wait(first: int, cap: int, tried: int, expected: int) -> None:
    found = backoff(timedelta(seconds=first), timedelta(seconds=cap), tried=tried, uid="u").total_seconds()
    assert expected <= found <= expected * (1 + JITTER)


@given(uid=st.uuids().map(str), tried=st.integers(0, 9))
def test_the_jitter_is_the_same_in_every_process_and_never_more_than_its_share(uid: str, tried: int) -> None:
    hour = timedelta(hours=1)
    assert hour <= backoff(hour, hour, tried=tried, uid=uid) <= hour * (1 + JITTER)
    assert backoff(hour, hour, tried=tried, uid=uid) == backoff(hour, hour, tried=tried, uid=uid)


def test_those_evicted_together_do_not_come_back_together() -> None:
    hour = timedelta(hours=1)
    assert len({backoff(hour, hour, tried=3, uid=f"u{number}") for number in range(20)}) == 20
