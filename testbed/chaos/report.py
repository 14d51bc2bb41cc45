"""The result of a chaotic run: a table for people and for the docs. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from testbed.chaos.judge import Judgement
from testbed.chaos.schedule import CLUSTERS, REPLICAS, Incident

__all__ = ["Report", "into_docs", "memory_of", "named", "too_large"]

MARKER, END = "<!-- chaos -->", "<!-- end -->"
MOST_MEMORY = 1.5
WARM_SECONDS = 60.0


@dataclass(slots=True)
class Report:
    """A run in figures, with what was wrong. `finished_after`: seconds from the last fault until all jobs were over."""

    seed: int
    minutes: float
    faults: Counter[str]
    submitted: int
    judgement: Judgement
    terms: int
    restarts: int
    memory: tuple[float, float]
    finished_after: float | None
    complaints: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The table, for people and for the docs."""
        over, judgement = len(self.judgement.over), self.judgement
        rest = "" if self.finished_after is None else f", the last {self.finished_after:.0f} s after the last fault"
        base, peak = self.memory
        yield f"| Seed, length | {self.seed}, {self.minutes:g} minutes |"
        yield f"| Faults | {self.faults.total()}: {_counts(self.faults)} |"
        yield f"| Times that leadership changed hands | {self.terms} |"
        yield f"| Restarts of replicas by themselves | {self.restarts} |"
        yield f"| Jobs submitted | {self.submitted} |"
        yield f"| Jobs over at home | {over}{rest} |"
        yield f"| Evictions | {judgement.evictions.total()}: {_counts(judgement.evictions) or 'none'} |"
        yield f"| Starts on workers | {judgement.starts} |"
        yield f"| Memory of a replica | {base:.0f} MiB after a minute, {peak:.0f} MiB at its peak |"
        yield f"| Complaints | {len(self.complaints)} |"


def into_docs(report: Report, page: Path) -> None:
    """Put the table between the markers of a page. Raises ValueError if it has none."""
    before, marker, rest = page.read_text().partition(MARKER)
    _, end, after = rest.partition(END)
    if not (marker and end):
        raise ValueError(f"{page} has no {MARKER} with an {END} behind it")
    table = "\n".join(["| | |", "| --- | --- |", *report.lines()])
    page.write_text(f"{before}{marker}\n\n{table}\n\n{end}{after}")


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in counts.most_common())


def named(incident: Incident) -> str:
    """The kind of a fault, for counting."""
    if ">" in incident.on:
        return "slow links" if incident.what == "slow" else "cut links"
    if incident.on in REPLICAS:
        return {"skew": "wrong clocks", "full disk": "full disks"}.get(incident.what, "of replicas")
    return "of API servers" if incident.on in CLUSTERS else "of webhooks (a worker's Kueue)"


def memory_of(samples: Sequence[Sequence[tuple[float, int, float]]]) -> tuple[float, float]:
    """The mean of the replicas a minute after the start, and the peak of all, in MiB."""
    early = [[size for at, _, size in each if at >= WARM_SECONDS][:1] or [each[-1][2]] for each in samples if each]
    peak = max((size for each in samples for _, _, size in each), default=0.0)
    return sum(each[0] for each in early) / max(1, len(early)), peak


def too_large(report: Report) -> Iterator[str]:
    base, peak = report.memory
    if peak > MOST_MEMORY * base:
        yield f"memory grew from {base:.0f} MiB after a minute to {peak:.0f} MiB"
