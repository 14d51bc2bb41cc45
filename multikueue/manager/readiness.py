"""The conditions that a manager still lacks until it is ready."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Readiness"]


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
