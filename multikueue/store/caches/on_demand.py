"""What the connections of workers do for strategies, and only from the moment on when the first strategy wants it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["OnDemand"]


class OnDemand:
    """One such thing. It stays wanted: strategies come and go with annotations."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._waiters: dict[str, Callable[[], None]] = {}

    def want(self) -> bool:
        """From now on it is wanted. Returns whether that is new."""
        if self.is_wanted:
            return False
        self.is_wanted = True
        for begin in tuple(self._waiters.values()):
            begin()
        return True

    def when_wanted(self, worker: str, begin: Callable[[], None]) -> None:
        """Calls `begin` once it is wanted: at once if it is. The last one of a worker counts."""
        self._waiters[worker] = begin
        if self.is_wanted:
            begin()

    def forget_worker(self, name: str) -> None:
        self._waiters.pop(name, None)
