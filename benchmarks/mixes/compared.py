"""All contestants on the same jobs: medians over seeds with their spread, as text, as a table of a page, and as JSON lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from benchmarks.mixes.columns import TITLES, Columns, columns
from benchmarks.mixes.contestants import CONTESTANTS
from benchmarks.mixes.play import play
from benchmarks.mixes.traces import MIXES, drawn, fleet

__all__ = ["PAGE", "Scene", "as_json", "as_markdown", "as_text", "measure", "page"]

Found = Mapping[str, Sequence[Columns]]
"""By contestant: the columns of each seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What is played: a mix on a fleet under a load, for so many days."""

    mix: str = "seren"
    clusters: int = 10
    equal: bool = False
    load: float = 0.9
    days: float = 1.0

    def __str__(self) -> str:
        kind = "equal" if self.equal else "unequal"
        return f"{self.mix}, {self.clusters} {kind} clusters, load {self.load:g}, {self.days:g} days"


PAGE = (
    *(Scene(mix=name) for name in MIXES),
    Scene(clusters=3),
    Scene(clusters=40, days=0.25),
    *(Scene(load=load) for load in (0.6, 1.1)),
    Scene(equal=True),
)
"""What docs/mixes.md shows."""


def measure(scene: Scene, seeds: Sequence[int], names: Iterable[str]) -> dict[str, list[Columns]]:
    """Each contestant gets the same jobs at the same times."""
    clusters = fleet(scene.clusters, equal=scene.equal)
    found: dict[str, list[Columns]] = {name: [] for name in names}
    for seed in seeds:
        jobs = drawn(MIXES[scene.mix], clusters, days=scene.days, load=scene.load, seed=seed)
        for name, each in found.items():
            each.append(columns(play(clusters, jobs, CONTESTANTS[name].make(clusters))))
    return found


def as_text(scene: Scene, found: Found) -> str:
    """A line for each column, with the spread over the seeds behind the median."""
    lines = [str(scene), f"{'':<44}" + "".join(f"{name:>16}" for name in found)]
    lines += [f"{title:<44}" + "".join(f"{cell:>16}" for cell in cells) for title, cells in _cells(found)]
    return "\n".join(lines)


def page(seeds: Sequence[int], names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The heading and the table of each scene of the page, one after the other."""
    for scene in PAGE:
        yield str(scene), as_markdown(measure(scene, seeds, names))


def as_markdown(found: Found) -> str:
    lines = ["".join(["| |", *(f" `{name}` |" for name in found)]), f"|---|{'---:|' * len(found)}"]
    return "\n".join([*lines, *(f"| {title} | {' | '.join(cells)} |" for title, cells in _cells(found))])


def as_json(scene: Scene, seeds: Sequence[int], found: Found) -> Iterator[dict[str, Any]]:
    """One document for each contestant and seed."""
    for name, runs in found.items():
        for seed, each in zip(seeds, runs, strict=True):
            yield {**asdict(scene), "strategy": name, "seed": seed, **asdict(each)}


def _cells(found: Found) -> Iterator[tuple[str, list[str]]]:
    for each in fields(Columns):
        yield TITLES[each.name], [_cell([getattr(run, each.name) for run in runs]) for runs in found.values()]


def _cell(values: Sequence[float]) -> str:
    middle = statistics.median(values)
    spread = (max(values) - min(values)) / 2
    return f"{_short(middle)} ±{_short(spread)}" if len(values) > 1 else _short(middle)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
