"""The conditions that a manager still lacks until it is ready, and whether dispatch goes on after that."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

__all__ = ["STANDSTILL", "DispatchProgress", "Readiness"]

STANDSTILL = timedelta(minutes=1)
"""How long workloads may wait for a controller that takes none of them before that is a problem. The deadline of a call is
10 s by default, and a controller works at many keys at a time."""


class Readiness:
    """The conditions of readiness, in the order of the start. `details` maps each name to its problem, or to ""."""

    def __init__(self, *, caches: Iterable[str], has_webhook: bool) -> None:
        self.details = {f"cache-{plural}": "not listed yet" for plural in caches}
        self.details["workers"] = "no first contact yet"
        if has_webhook:
            self.details["webhook"] = "not in place yet"

    def reached(self, name: str) -> None:
        self.details[name] = ""

    @property
    def problem(self) -> str | None:
        """The first problem; None if the manager is ready."""
        return next((f"{name}: {wrong}" for name, wrong in self.details.items() if wrong), None)


class DispatchProgress:
    """Whether a controller takes the keys that wait for it."""

    def __init__(self) -> None:
        self._taken = -1
        self._since: datetime | None = None

    def problem(self, *, waiting: int, taken: int, now: datetime) -> str:
        """What is wrong at this moment, empty if nothing is. `waiting` keys could be taken, `taken` is how many were since the
        start. Call it now and then: nothing is known of the time in between."""
        if not waiting:
            self._since = None
            return ""
        if taken != self._taken or self._since is None or now < self._since:
            self._taken, self._since = taken, now
        if now - self._since < STANDSTILL:
            return ""
        return f"{waiting} workloads wait, and none has been looked at for {(now - self._since).total_seconds():.0f} s"
