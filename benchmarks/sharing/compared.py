"""A hundred GPUs and fifty users: the results of each way of sharing, on virtual time."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import fields

import structlog

from benchmarks.sharing.crowd import Crowd, drawn
from benchmarks.sharing.figures import Figures, figures
from benchmarks.sharing.play import POLICIES, play

__all__ = ["COLUMNS", "as_markdown", "as_text", "measure"]

COLUMNS = {
    "wait": "mean wait, min",
    "late": "wait of the last 5 %, min",
    "small": "mean wait of jobs with 1 or 2 GPUs, min",
    "worst": "mean wait of the user who waits most, min",
    "busy": "GPUs busy, %",
    "rate": "jobs finished per hour",
    "restarts": "jobs started over",
    "makespan": "hours until all finished",
}


def measure(crowd: Crowd, seeds: Sequence[int], policies: Sequence[str]) -> dict[str, Figures]:
    """The mean of each figure over the seeds, by policy. Each policy gets the same jobs at the same times."""
    runs: dict[str, list[Figures]] = {name: [] for name in policies}
    with structlog.testing.capture_logs():
        for seed in seeds:
            submissions = drawn(crowd, seed)
            for name in policies:
                records = play(submissions, POLICIES[name], crowd=crowd, seed=seed)
                runs[name].append(figures(records, gpus=crowd.gpus, seconds=crowd.hours * 3600))
    return {name: _mean(each) for name, each in runs.items()}


def _mean(runs: Sequence[Figures]) -> Figures:
    return Figures(**{each.name: statistics.fmean(getattr(run, each.name) for run in runs) for each in fields(Figures)})


def as_text(results: dict[str, Figures]) -> str:
    """A line per figure, a column per policy, and what the policies are."""
    return "\n".join(
        [
            _line("", results),
            *(_line(title, [_cell(name, each) for each in results.values()]) for name, title in COLUMNS.items()),
            "",
            *(f"{name}: {POLICIES[name].title}" for name in results),
        ]
    )


def as_markdown(results: dict[str, Figures]) -> str:
    lines = ["".join(["| |", *(f" `{name}` |" for name in results)]), f"|---|{'---:|' * len(results)}"]
    for name, title in COLUMNS.items():
        lines.append(f"| {title} | {' | '.join(_cell(name, each) for each in results.values())} |")
    return "\n".join(lines)


def _line(title: str, cells: Iterable[str]) -> str:
    return f"{title:<42}" + "".join(f"{cell:>13}" for cell in cells)


def _cell(name: str, figures: Figures) -> str:
    value: float = getattr(figures, name)
    return f"{100 * value if name == 'busy' else value:.1f}"
