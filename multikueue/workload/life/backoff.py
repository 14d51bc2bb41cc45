"""The wait of an evicted workload before its next attempt (quota-engine 5.2)."""

from __future__ import annotations

from datetime import timedelta
from zlib import crc32

JITTER = 0.0001
"""The largest addition to a wait, as a part of it. Workloads that were evicted together should not return in the same
instant; each addition follows from UID and attempt, so it is the same in every process."""

_LONGEST = 62
"""Doublings; more would only make a larger number above any cap."""


def backoff(first: timedelta, cap: timedelta, *, tried: int, uid: str) -> timedelta:
    """The wait after `tried` attempts: `first`, doubled with each, at most `cap`, plus the jitter."""
    seconds = min(first.total_seconds() * 2.0 ** min(tried, _LONGEST), cap.total_seconds())
    return timedelta(seconds=seconds * (1 + JITTER * crc32(f"{uid}/{tried}".encode()) / 2**32))
