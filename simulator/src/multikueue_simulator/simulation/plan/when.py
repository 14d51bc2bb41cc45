"""When an event of a plan happens, as every draw has it."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

__all__ = ["When"]


@dataclass(frozen=True, slots=True)
class When:
    """The common fields of an event."""

    at: float
    write: int
    before: bool

    def __call__(self, lasts: float = 0.0) -> dict[str, Any]:
        return {"at": self.at, "write": self.write, "before": self.before, "lasts": lasts}

    @classmethod
    def drawn(cls, luck: random.Random, at: float) -> When:
        """At that time, or just before or after one of the writes that follow it."""
        if luck.random() < 0.4:
            return cls(at, min(30, 1 + int(luck.expovariate(1 / 6.0))), luck.random() < 0.5)
        return cls(at, 0, before=False)
