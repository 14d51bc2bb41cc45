"""Until when this process may act.

The lease says who acts. A mandate is what the holder of the lease makes of it: leave to write until an instant of its own
clock, which comes before any other process may take the lease. So the question whether a write may go out needs no call
and no task that runs in time: a process that was frozen for an hour finds its mandate over at the first look.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from multikueue.runtime.clock import boot_time


class Mandate:
    """Leave to act until an instant of `clock`, in seconds; none to begin with. Only its owner extends and ends it."""

    __slots__ = ("_clock", "_until")

    def __init__(self, *, until: float = -inf, clock: Callable[[], float] = boot_time) -> None:
        self._until, self._clock = until, clock

    @classmethod
    def standing(cls) -> Mandate:
        """One that never ends: there is nobody else who might act."""
        return cls(until=inf)

    def valid(self) -> bool:
        """Whether we may act now. To be asked directly before each effect, with no wait in between."""
        return self._clock() < self._until

    def lapsed(self) -> bool:
        """Whether there was one that came to its end, and nobody has taken note of that yet."""
        return -inf < self._until <= self._clock()

    def left(self) -> float:
        """Seconds until it is over, 0 if it is."""
        return max(0.0, self._until - self._clock())

    def extend(self, until: float) -> None:
        """Leave to act until then; never takes away any."""
        self._until = max(self._until, until)

    def end(self) -> None:
        """No leave any more, as of now."""
        self._until = -inf
