"""How much may be under way to one server at a time, learned from its answers."""

from __future__ import annotations

__all__ = ["START", "AdaptiveLimit"]

START = 12
LEAST = 2

SLOW = 2.0
"""An answer is late beyond so many times the shortest of late,"""

SLACK = 0.1
"""and so many seconds more: on a short way, what varies is our own loop's doing."""

AGING = 1.01
"""Each answer lets the shortest time grow by this: after some hundred answers a way that has become longer is the normal
one."""


class AdaptiveLimit:
    """A limit that grows while answers come in time, and shrinks when they come late (AIMD, as TCP's window).

    - It grows by one with each answer until it shrinks for the first time, then by one with as many answers as it lets be
      under way; in both cases only while it is used up.
    - Late answers are the work of a queue in front of the server, so it shrinks by a tenth; a server that says that it has
      too many requests has it halved.
    - What was sent before it shrank does not shrink it again.

    It stays between `LEAST` and `most`. Owned by one event loop; times are seconds of one clock.
    """

    def __init__(self, most: int) -> None:
        self._most, self._least = most, min(LEAST, most)
        self._value = float(min(START, most))
        self._shortest = float("inf")
        self._shrank_at: float | None = None

    def __call__(self) -> int:
        return int(self._value)

    def answered(self, *, at: float, seconds: float, was_used_up: bool) -> None:
        """An answer came at that time. `was_used_up`: as much was under way as may be."""
        is_late = seconds > SLOW * self._shortest + SLACK
        self._shortest = min(seconds, self._shortest * AGING)
        if is_late:
            self._shrink(0.9, at, seconds)
        elif was_used_up:
            self._value = min(self._most, self._value + (1 if self._shrank_at is None else 1 / self._value))

    def refused(self, *, at: float, seconds: float) -> None:
        """The server has too many requests."""
        self._shrink(0.5, at, seconds)

    def _shrink(self, by: float, at: float, seconds: float) -> None:
        if self._shrank_at is None or at - seconds >= self._shrank_at:
            self._value, self._shrank_at = max(self._least, self._value * by), at
