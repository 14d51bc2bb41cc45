"""The pictures of a demo as one animated SVG, which a page shows without a script and without a player."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style

__all__ = ["Film", "filmed"]

COLUMNS, LINES = 92, 25
"""The size of the picture, in characters."""

PAUSE = 4.0
"""Seconds for which the last picture stays before the first one comes again."""

_EVERY = 0.5
"""Seconds between two pictures, at least."""

_WIDE, _HIGH, _EDGE = 8.4, 18, 14
"""Pixels: one character, one line, the edge around them."""

_COLORS = {"green": "#3fb950", "red": "#ff7b72", "yellow": "#e3b341", "magenta": "#bc8cff", "cyan": "#56d4dd"}
_FRONT, _BACK = "#d1d7e0", "#0d1117"

Row = tuple[Segment, ...]


@contextmanager
def filmed(path: Path, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Callable[[RenderableType], None]]:
    """The function that takes a picture. The file is written at the end, of what there is by then. Raises OSError if it cannot
    be."""
    with path.open("w", encoding="utf-8") as file:
        film = Film(clock)
        try:
            yield film.take
        finally:
            file.write(film.svg())


@dataclass(slots=True)
class Film:
    """Takes pictures, and keeps each line that they share once."""

    clock: Callable[[], float]
    _taken: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    _console: Console = field(
        default_factory=lambda: Console(
            file=io.StringIO(), width=COLUMNS, height=LINES, force_terminal=True, color_system="standard"
        )
    )

    def take(self, picture: RenderableType) -> None:
        """Keep the picture, unless the last one is too young or equal."""
        at = self.clock()
        if self._taken and at < self._taken[-1][0] + _EVERY:
            return
        rows = tuple(_drawn(row) for row in self._console.render_lines(picture, pad=False)[:LINES])
        if not self._taken or rows != self._taken[-1][1]:
            self._taken.append((at, rows))

    def svg(self) -> str:
        """The animation; empty without a picture."""
        if not self._taken:
            return ""
        wide, high = COLUMNS * _WIDE + 2 * _EDGE, LINES * _HIGH + 2 * _EDGE
        began, lasts = self._taken[0][0], self._taken[-1][0] - self._taken[0][0] + PAUSE
        ids = {row: f"r{number}" for number, row in enumerate(dict.fromkeys(_rows(self._taken)))}
        steps = (
            f"{100 * (at - began) / lasts:.3f}%{{transform:translateX({-number * wide:g}px)}}"
            for number, (at, _) in enumerate(self._taken)
        )
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" xml:space="preserve" viewBox="0 0 {wide:g} {high}"',
            ' role="img" aria-label="multikueue demo">',
            f"<style>text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:{_FRONT};white-space:pre}}",
            *(f".{name}{{fill:{color}}}" for name, color in _COLORS.items()),
            ".bold{font-weight:700}.dim{opacity:.6}",
            f".film{{animation:film {lasts:.1f}s step-end infinite}}@keyframes film{{{''.join(steps)}}}</style>",
            f'<rect width="100%" height="100%" rx="8" fill="{_BACK}"/>',
            "<defs>",
            *(f'<g id="{name}">{row}</g>' for row, name in ids.items()),
            '</defs><g class="film">',
        ]
        for number, (_, rows) in enumerate(self._taken):
            left = number * wide + _EDGE
            uses = (
                f'<use href="#{ids[row]}" x="{left:g}" y="{_EDGE + (line + 1) * _HIGH - 4}"/>'
                for line, row in enumerate(rows)
                if row
            )
            parts.append("".join(uses))
        return "\n".join([*parts, "</g></svg>", ""])


def _rows(taken: Iterable[tuple[float, tuple[str, ...]]]) -> Iterator[str]:
    return (row for _, rows in taken for row in rows if row)


def _drawn(row: list[Segment]) -> str:
    """A line as text elements, each with its place and its width: no font of a reader moves the columns."""
    drawn, column = [], 0
    for segment in Segment.simplify(row):
        text, width = segment.text.rstrip(), segment.cell_length
        lead = len(text) - len(text.lstrip())
        shown = text.lstrip()
        if shown:
            style = f' class="{names}"' if (names := _names(segment.style)) else ""
            place = f'x="{(column + lead) * _WIDE:g}" textLength="{len(shown) * _WIDE:g}"'
            drawn.append(f"<text {place}{style}>{escape(shown, quote=False)}</text>")
        column += width
    return "".join(drawn)


def _names(style: Style | None) -> str:
    if style is None:
        return ""
    color = style.color.name if style.color is not None and style.color.name in _COLORS else ""
    return " ".join(filter(None, (color, "bold" if style.bold else "", "dim" if style.dim else "")))
