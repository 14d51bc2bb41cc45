"""docs/performance.md: its plots and its table, from the results that are kept. The text around them is written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.lines import Line, Point
from benchmarks.plot import DARK, LIGHT, PLOTS, Plot, svg

__all__ = ["as_table", "into_docs"]

PAGE, FOLDER = "performance.md", "plots"
TABLE, DRAWN = "<!-- lines -->", "<!-- plots -->"
END = "<!-- end -->"
VERDICTS = {True: "reached", False: "MISSED", None: ""}


def into_docs(lines: Mapping[str, Sequence[Line]], points: Sequence[Point], docs: Path) -> None:
    """Put table and plots between their markers. Raises ValueError if the page has none."""
    shown = [plot for plot in PLOTS if any(each.plot == plot.name for each in points)]
    (docs / FOLDER).mkdir(exist_ok=True)
    for plot in shown:
        for theme in (LIGHT, DARK):
            (docs / FOLDER / f"{plot.name}-{theme.name}.svg").write_text(svg(plot, points, theme))
    page = docs / PAGE
    text = _between(page.read_text(), TABLE, as_table(each for work in lines.values() for each in work))
    page.write_text(_between(text, DRAWN, "\n\n".join(map(_picture, shown))))


def as_table(lines: Iterable[Line]) -> str:
    rows = ["| figure | goal | ours | peer | script | ratio | |", "| --- | --- | --: | --: | --: | --: | --- |"]
    for each in lines:
        numbers = (_number(value) for value in (each.ours, each.peer, each.script, each.ratio))
        rows.append(f"| {each.figure} | {each.goal} | {' | '.join(numbers)} | {VERDICTS[each.ok]} |")
    return "\n".join(rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _picture(plot: Plot) -> str:
    dark, light = (f"{FOLDER}/{plot.name}-{theme.name}.svg" for theme in (DARK, LIGHT))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img alt="{plot.title}" src="{light}">'
        "</picture>"
    )


def _between(text: str, marker: str, new: str) -> str:
    before, found, rest = text.partition(marker)
    _, end, after = rest.partition(END)
    if not (found and end):
        raise ValueError(f"{PAGE} has no {marker} with an {END} behind it")
    return f"{before}{marker}\n\n{new}\n\n{END}{after}"
