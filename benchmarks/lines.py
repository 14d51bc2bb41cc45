"""Lines of results: one for each figure, with its goal and what became of it; as JSON, a line each.

Ratios decide, to the script that decides nothing or to the peer, both of the same run: machines differ, and from day to day
so does one machine. A figure without another side is judged itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from benchmarks.figures import Target, at_most

__all__ = [
    "RESULTS",
    "Line",
    "Point",
    "as_lines",
    "beside",
    "grown",
    "itself",
    "keep",
    "longest_turn",
    "read_lines",
    "read_points",
]

RESULTS = Path(__file__).parent / "results"
"""Where results are kept; git ignores it."""

DIGITS = 4
LONGEST_TURN = at_most(100)


class Line(msgspec.Struct, frozen=True):
    """`ok` is None where something that it takes to judge was not measured, or without a goal."""

    figure: str
    goal: str
    ours: float | None
    peer: float | None = None
    script: float | None = None
    ratio: float | None = None
    ok: bool | None = None


class Point(msgspec.Struct, frozen=True):
    """One point of a plot: what one side did at `x`."""

    plot: str
    side: str
    x: float
    y: float


def itself(figure: str, ours: float | None, goal: Target | None = None) -> Line:
    """A figure that is judged without another side."""
    met = goal.met(ours, None) if goal is not None and ours is not None else None
    return Line(figure, goal.says if goal else "", _short(ours), ok=met)


def beside(
    figure: str,
    other: str,
    goal: Target | None,
    *,
    ours: float | None,
    peer: float | None = None,
    script: float | None = None,
) -> Line:
    """A figure whose ratio to another side, `peer` or `script`, is told, and judged if there is a goal."""
    unit = {"peer": peer, "script": script}[other]
    ratio = ours / unit if ours is not None and unit else None
    met = goal.met(ratio, None) if goal is not None and ratio is not None else None
    says = f"{goal.says} x {other}" if goal is not None else ""
    return Line(figure, says, _short(ours), _short(peer), _short(script), ratio=_short(ratio), ok=met)


def grown(
    figure: str, first: str, goal: Target | None, *, unit: float, ours: float | None, **others: float | None
) -> Line:
    """A figure of a row, whose ratio to the `first` of the row (`unit`) is judged."""
    ratio = ours / unit if ours is not None and unit else None
    return Line(
        figure,
        f"{goal.says} x {first}" if goal else "",
        _short(ours),
        **{side: _short(value) for side, value in others.items()},
        ratio=_short(ratio),
        ok=goal.met(ratio, None) if goal and ratio is not None else None,
    )


def longest_turn(what: str, ours: float | None) -> Line:
    """Of the event loop, in milliseconds: nothing else is done meanwhile."""
    return itself(f"{what}: longest turn of the event loop, ms", ours, LONGEST_TURN)


def keep(work: str, lines: Iterable[Line], points: Iterable[Point] = (), folder: Path = RESULTS) -> None:
    """The results of one kind of work, in place of earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{work}.jsonl").write_text(as_lines(lines))
    (folder / f"{work}.points.jsonl").write_text(as_lines(points))


def as_lines(items: Iterable[Line | Point]) -> str:
    return "".join(f"{msgspec.json.encode(each).decode()}\n" for each in items)


def read_lines(folder: Path = RESULTS) -> dict[str, Sequence[Line]]:
    """What was kept, by work."""
    files = (file for file in sorted(folder.glob("*.jsonl")) if not file.name.endswith(".points.jsonl"))
    return {file.stem: [msgspec.json.decode(line, type=Line) for line in _lines(file)] for file in files}


def read_points(folder: Path = RESULTS) -> list[Point]:
    found = sorted(folder.glob("*.points.jsonl"))
    return [msgspec.json.decode(line, type=Point) for file in found for line in _lines(file)]


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines()


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{DIGITS}g}")
