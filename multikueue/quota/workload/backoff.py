"""How long an evicted workload waits before its next attempt (quota-engine 5.2)."""

from __future__ import annotations

from datetime import timedelta
from zlib import crc32

JITTER = 0.0001
"""By how much at most a wait is longer than doubling makes it. Workloads that were evicted together shall not come back
in the same instant; what each adds follows from its name and its attempt, so it is the same in every process."""

_LONGEST = 62
"""Doublings; more would only be a larger number above any cap."""


def backoff(first: timedelta, cap: timedelta, *, tried: int, uid: str) -> timedelta:
    """The wait after so many attempts that ended with one: doubled with each, at most `cap`, and the jitter."""
    seconds = min(first.total_seconds() * 2.0 ** min(tried, _LONGEST), cap.total_seconds())
    return timedelta(seconds=seconds * (1 + JITTER * crc32(f"{uid}/{tried}".encode()) / 2**32))
