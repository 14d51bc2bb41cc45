"""The fence of the leader: until when this process may act.

The lease says which process acts. A mandate is the holder's own part of it: permission to write until an instant of its
own clock, which comes before any other process may take the lease. So the check before a write needs no call, and no
task that runs in time: a process that was frozen for an hour finds its mandate over at the first check.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from multikueue.runtime.clock import boot_time


class Mandate:
    """Permission to act until an instant of `clock`, in seconds; none at first. Only its owner extends and ends it."""

    __slots__ = ("_clock", "_until")

    def __init__(self, *, until: float = -inf, clock: Callable[[], float] = boot_time) -> None:
        self._until, self._clock = until, clock

    @classmethod
    def standing(cls) -> Mandate:
        """A mandate that never ends: no other process might act."""
        return cls(until=inf)

    def is_valid(self) -> bool:
        """Whether this process may act now. Call it directly before each effect, with no wait in between."""
        return self._clock() < self._until

    def has_lapsed(self) -> bool:
        """Whether a mandate expired and `end` was not called since."""
        return -inf < self._until <= self._clock()

    def left(self) -> float:
        """Seconds until the mandate expires, 0 if it has."""
        return max(0.0, self._until - self._clock())

    def extend(self, until: float) -> None:
        """Permission until then; never shortens the mandate."""
        self._until = max(self._until, until)

    def end(self) -> None:
        """End the permission now."""
        self._until = -inf
