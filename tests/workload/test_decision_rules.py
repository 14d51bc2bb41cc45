"""How long an evicted workload waits (quota-engine 5.2, QE-333)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multikueue.workload.decision_rules import JITTER, RequeueBackoff

HOUR = timedelta(hours=1)
HOURLY = RequeueBackoff(first=HOUR, cap=HOUR)

WAITS = {
    "first": (10, 7200, 0, 10),
    "QE-333 doubled with each": (10, 7200, 3, 80),
    "QE-333 at most the cap": (10, 7200, 10, 7200),
    "so often that numbers would burst": (10, 7200, 2**31 - 1, 7200),
    "none": (0, 7200, 5, 0),
}


@pytest.mark.parametrize(("first", "cap", "tried", "expected"), WAITS.values(), ids=WAITS)
def test_the_wait(first: int, cap: int, tried: int, expected: int) -> None:
    found = RequeueBackoff(first=timedelta(seconds=first), cap=timedelta(seconds=cap)).after(tried, "u").total_seconds()
    assert expected <= found <= expected * (1 + JITTER)


@given(uid=st.uuids().map(str), tried=st.integers(0, 9))
def test_the_jitter_is_the_same_in_every_process_and_never_more_than_its_share(uid: str, tried: int) -> None:
    assert HOUR <= HOURLY.after(tried, uid) <= HOUR * (1 + JITTER)
    assert HOURLY.after(tried, uid) == HOURLY.after(tried, uid)


def test_those_evicted_together_do_not_come_back_together() -> None:
    assert len({HOURLY.after(3, f"u{number}") for number in range(20)}) == 20
