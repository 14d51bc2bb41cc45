"""Which reasons a workload without quota, or without admission, is given (KEP 10852)."""

from __future__ import annotations

import msgspec

from multikueue.api.kueue.unadmitted import PENDING


class Reasons(msgspec.Struct, frozen=True, kw_only=True):
    """The reasons of QuotaReserved=False and Admitted=False.

    With `is_granular` the former say why, and the latter is told of each workload of which the former is. With
    `is_explicit` as well, both are told before a cycle has looked at the workload, which costs it a write.
    """

    is_granular: bool = False
    is_explicit: bool = False

    def of(self, reason: str, *, before: str = PENDING) -> str:
        """That granular reason, or what is said in its place where reasons are as they were `before`."""
        return reason if self.is_granular else before


AS_BEFORE = Reasons()
