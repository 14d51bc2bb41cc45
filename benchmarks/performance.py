"""The tables and plots of kinds of work, from the results that are kept, for the page of figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from pathlib import Path

from benchmarks.lines import Line, Point
from benchmarks.page import put
from benchmarks.plot import DARK, LIGHT, PLOTS, Plot, Theme, svg

__all__ = ["as_table", "into_docs"]

FOLDER = "plots"
VERDICTS = {True: "reached", False: "MISSED", None: ""}


def into_docs(lines: Mapping[str, Sequence[Line]], points: Sequence[Point], page: Path) -> None:
    """Put the tables, by kind of work, and the plots into the page and its folder. What has no results here stays as it is.

    Raises ValueError if the page has no marker for them.
    """
    folder = page.parent / FOLDER
    for work, rows in lines.items():
        put(page, work, as_table(rows))
    folder.mkdir(exist_ok=True)
    for plot, theme in product(PLOTS, (LIGHT, DARK)):
        if any(each.plot == plot.name for each in points):
            _file(folder, plot, theme).write_text(svg(plot, points, theme))
    shown = [plot for plot in PLOTS if _file(folder, plot, LIGHT).exists()]
    put(page, "plots", "\n\n".join(map(_picture, shown)))


def as_table(lines: Iterable[Line]) -> str:
    rows = ["| figure | goal | ours | peer | script | ratio | |", "| --- | --- | --: | --: | --: | --: | --- |"]
    for each in lines:
        numbers = (_number(value) for value in (each.ours, each.peer, each.script, each.ratio))
        rows.append(f"| {each.figure} | {each.goal} | {' | '.join(numbers)} | {VERDICTS[each.ok]} |")
    return "\n".join(rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _file(folder: Path, plot: Plot, theme: Theme) -> Path:
    return folder / f"{plot.name}-{theme.name}.svg"


def _picture(plot: Plot) -> str:
    dark, light = (_file(Path(FOLDER), plot, theme) for theme in (DARK, LIGHT))
    return (
        f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img alt="{plot.title}" src="{light}">'
        "</picture>"
    )
