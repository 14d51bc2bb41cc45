"""The grade of a flavor for a request: whether it fits, by itself or by preemption."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from multikueue.quota.cache.tree import FlavorResource


class Mode(IntEnum):
    """How a flavor could serve a request, from worst to best."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class Grade(NamedTuple):
    """A mode, and how high up the cohort tree the quota comes from; 0: without borrowing."""

    mode: Mode
    borrowing: int = 0


Oracle = Callable[[FlavorResource, int], Grade]
"""The grade that preemption gives an amount of one (flavor, resource): no candidates, preempt or reclaim."""
