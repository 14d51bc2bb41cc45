"""A report as rows: sums of use in the units that people ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from multikueue_console.history.use import Use

__all__ = ["MEASURES", "ReportRow", "rows_of"]

MEASURES = ("ended", "failed", "evicted", "preempted", "wait_mean", "wait_max", "cpu_hours", "gpu_hours")


class ReportRow(msgspec.Struct, frozen=True, kw_only=True):
    """The use of one group. Waits are in seconds, None if no run with a known wait started; hours are of one CPU or GPU."""

    group: tuple[str, ...]
    ended: int
    failed: int
    evicted: int
    preempted: int
    wait_mean: float | None
    wait_max: float | None
    cpu_hours: float
    gpu_hours: float

    def fields(self, by: Sequence[str]) -> dict[str, str | float | None]:
        """One value for each dimension and each measure, by name."""
        return {**dict(zip(by, self.group, strict=True)), **{name: getattr(self, name) for name in MEASURES}}


def rows_of(sums: Mapping[tuple[str, ...], Use]) -> list[ReportRow]:
    """The sums as rows, in their order."""
    return [
        ReportRow(
            group=group,
            ended=use.ended,
            failed=use.failed,
            evicted=use.evicted,
            preempted=use.preempted,
            wait_mean=use.wait_seconds / use.waits if use.waits else None,
            wait_max=use.longest_wait if use.waits else None,
            cpu_hours=round(use.cpu_seconds / 3600, 3),
            gpu_hours=round(use.gpu_seconds / 3600, 3),
        )
        for group, use in sums.items()
    ]
