"""The filter `versions`: which releases of Kueue workers may run, for all jobs and for some kinds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from multikueue.strategy import Fleet, Worker, Workload

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Versions:
    """Refuses workers by the release of their Kueue.

    `least`: the oldest one that is used, such as `0.18`; `kinds`: the oldest one by kind of job, `{JobSet: "0.19"}`. `exclude`:
    those that are not used, one by one or from one to another; without it, those whose conversion webhook keeps the API server
    there from filling its watch caches. A worker whose release is not known as exactly as it takes is not refused. One that
    lacks the kind of a job altogether is used by no strategy, and needs no filter.
    """

    reads: ClassVar[tuple[str, ...]] = ("kueue",)
    least: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ("0.20.0-0.20.5",)

    def __post_init__(self) -> None:
        ends = (end for each in self.exclude for end in each.split("-"))
        for text in (*filter(None, (self.least, *self.kinds.values())), *ends):
            if not _release(text):
                raise ValueError(f"expected a release of Kueue such as 0.19 or 0.19.2, got {text[:60]!r}")

    def refuses(self, workload: Workload, worker: Worker, fleet: Fleet) -> str:
        found = _release(worker.kueue)
        if not found:  # not known, or `0.19+`, which may be any newer one
            return ""
        for least, what in ((self.least, ""), (self.kinds.get(workload.kind, ""), f" for kind {workload.kind[:60]}")):
            if least and _is_older(found, _release(least)):
                return f"Kueue {worker.kueue} is older than {least}{what}"
        return f"Kueue {worker.kueue} is excluded" if any(_is_within(found, each) for each in self.exclude) else ""


def _release(text: str) -> Release:
    """The numbers of a release; none if it is no release."""
    parts = text.strip().split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() and len(part) < 10 for part in parts) else ()


def _is_older(found: Release, least: Release) -> bool:
    """As far as both are known: 0.18 is not older than 0.18.2."""
    known = min(len(found), len(least))
    return found[:known] < least[:known]


def _is_within(found: Release, span: str) -> bool:
    """Whether it is the release, or between two. One of which only the minor is known is in none but whole minors."""
    first, _, last = span.partition("-")
    begin, end = _release(first), _release(last or first)
    if len(found) < max(len(begin), len(end)):
        return False
    return begin <= found[: len(begin)] and found[: len(end)] <= end
