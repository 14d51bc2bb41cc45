"""A strategy as a user's own is: of another distribution, known by an entry point only (docs/strategies.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from zlib import crc32

from multikueue.strategy import Fleet, Nomination, Workload

__all__ = ["NAME", "OneEach", "installed"]

NAME = "one-each"


@dataclass(frozen=True, slots=True)
class OneEach:
    """A worker for each workload, by its name, and another one whenever `patience` is over."""

    patience: timedelta = timedelta(minutes=5)

    def nominate(self, workload: Workload, fleet: Fleet) -> Nomination:
        tried = tuple(name for name in workload.nominated_clusters if name in fleet.names)
        begin = crc32(workload.name.encode()) % max(1, len(fleet.names))
        fresh = [name for name in (*fleet.names[begin:], *fleet.names[:begin]) if name not in tried]
        if not workload.waited_less_than(self.patience, fleet.now):
            tried += tuple(fresh[:1])
        return Nomination(tried, revisit_after=self.patience if fresh else None)


def installed(folder: Path) -> Mapping[str, str]:
    """The environment of processes to which a distribution in this folder brings the strategy."""
    info = folder / "one_each-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: one-each\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[multikueue.strategies]\n{NAME} = {__name__}:{OneEach.__name__}\n")
    return {"PYTHONPATH": str(folder)}
