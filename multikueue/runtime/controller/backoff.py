"""Exponential back-off: the wait after the n-th failure in a row."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from math import log

import msgspec

from multikueue.errors import ConfigurationError


class Backoff(msgspec.Struct, frozen=True):
    """Delays that grow by `factor` from `first` up to `cap`: 1, 2, 4, 8, 10, 10 s for 1 s and 10 s without jitter.

    `jitter` is the share of each delay that is random: 0 is none, 1 is "full jitter" (anything from nothing to the
    delay), which best spreads out what failed together. `draw` returns numbers from 0 up to 1.

    Raises ConfigurationError unless 0 < first <= cap, factor > 1 and 0 <= jitter <= 1.
    """

    first: timedelta
    cap: timedelta
    factor: float = 2
    jitter: float = 0.5
    draw: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if not (timedelta() < self.first <= self.cap and self.factor > 1 and 0 <= self.jitter <= 1):
            raise ConfigurationError(f"back-off: expected 0 < first <= cap, factor > 1, 0 <= jitter <= 1, got {self}")

    def delay(self, failures: int) -> timedelta:
        """The wait after that many failures in a row; zero without a failure."""
        return self.longest(failures) * (1 - self.jitter * self.draw())

    def longest(self, failures: int) -> timedelta:
        """The delay without jitter."""
        if failures < 1:
            return timedelta()
        if failures - 1 >= log(self.cap / self.first, self.factor):  # compared as logarithms: the power may overflow
            return self.cap
        return self.first * self.factor ** (failures - 1)
