"""Plots as SVG, light and dark: lines over a logarithmic axis, from points of results. Nothing but text is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from benchmarks.lines import Point

__all__ = ["DARK", "LIGHT", "PLOTS", "Plot", "Theme", "svg"]

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 64, 110, 40, 48
TICKS = 5


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours: of the ground, of text and of the grid, and of each side."""

    name: str
    ground: str
    text: str
    grid: str
    sides: Mapping[str, str]


LIGHT = Theme("light", "#ffffff", "#1f2328", "#d1d9e0", {"ours": "#0969da", "peer": "#cf222e", "script": "#59636e"})
DARK = Theme("dark", "#0d1117", "#f0f6fc", "#3d444d", {"ours": "#4493f8", "peer": "#f85149", "script": "#9198a1"})


@dataclass(frozen=True, slots=True)
class Plot:
    """What is shown: `name` is that of its points and files. `goal` is a line across."""

    name: str
    title: str
    x: str
    y: str
    is_log: bool = True
    goal: float | None = None


PLOTS: Sequence[Plot] = (
    Plot("rate-by-distance", "Dispatch of a burst, by distance", "round trip, ms", "jobs/s", is_log=False),
    Plot("rate-by-clusters", "Dispatch of a burst, by clusters", "clusters", "jobs/s"),
    Plot("cpu-by-clusters", "CPU per job, by clusters", "clusters", "ms"),
    Plot("latency-by-load", "Submission to remote job, p95, by load", "% of the ceiling", "ms", is_log=False),
    Plot("rest-memory", "Memory at rest, by idle workers", "workers", "MiB", goal=300),
    Plot("rest-cpu", "CPU at rest, by idle workers", "workers", "% of a core", goal=5),
    Plot("rest-requests", "Requests per idle worker and minute", "workers", "requests", goal=1),
    Plot("held-memory", "Memory, by workloads in memory", "workloads", "MiB", goal=1229),
    Plot("held-cpu", "CPU to take in a workload, by workloads", "workloads", "µs"),
    Plot("pause", "Longest collection of garbage, by workloads", "workloads", "ms", goal=20),
)


def svg(plot: Plot, points: Iterable[Point], theme: Theme) -> str:
    """The plot of those points that are its own. Raises ValueError without any."""
    own = sorted((each for each in points if each.plot == plot.name), key=lambda each: each.x)
    if not own:
        raise ValueError(f"there are no points of {plot.name}")
    scale = _Scale.of(plot, own)
    parts = [*_frame(plot, scale, theme), *_axis(own, scale, theme)]
    sides = [side for side in theme.sides if any(each.side == side for each in own)]
    ends = _apart([scale.at(*_last(own, side))[1] for side in sides])
    for side, end in zip(sides, ends, strict=True):
        parts += _curve([each for each in own if each.side == side], side, end, scale, theme)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    font = 'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12"'
    return "\n".join([f'{head} {font} role="img" aria-label="{escape(plot.title)}">', *parts, "</svg>", ""])


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where a value is on the paper."""

    is_log: bool
    low: float
    high: float
    top: float

    @classmethod
    def of(cls, plot: Plot, points: Sequence[Point]) -> _Scale:
        is_log = plot.is_log and points[0].x > 0
        along = [log10(each.x) if is_log else each.x for each in points]
        highest = max(*(each.y for each in points), plot.goal or 0.0)
        return cls(is_log, min(along), max(max(along), min(along) + 1e-9), _round_up(highest))

    def at(self, x: float, y: float) -> tuple[float, float]:
        along = (log10(x) if self.is_log else x) - self.low
        across = LEFT + along / (self.high - self.low) * (WIDTH - LEFT - RIGHT)
        return round(across, 1), round(HEIGHT - BOTTOM - y / self.top * (HEIGHT - TOP - BOTTOM), 1)


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10, ..."""
    if value <= 0:
        return 1.0
    unit: float = 10 ** int(log10(value) // 1)
    return next(step * unit for step in (1, 2, 2.5, 5, 10) if step * unit >= value)


def _frame(plot: Plot, scale: _Scale, theme: Theme) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{theme.ground}"/>',
        f'<text x="{LEFT}" y="22" fill="{theme.text}" font-size="14" font-weight="600">{escape(plot.title)}</text>',
        f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 10}" fill="{theme.text}" text-anchor="middle">{escape(plot.x)}</text>',
        f'<text x="{LEFT}" y="{TOP - 6}" fill="{theme.text}" text-anchor="end">{escape(plot.y)}</text>',
    ]
    for number in range(TICKS + 1):
        value = scale.top * number / TICKS
        height = bottom - (bottom - TOP) * number / TICKS
        parts.append(f'<line x1="{LEFT}" x2="{right}" y1="{height}" y2="{height}" stroke="{theme.grid}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{height + 4}" fill="{theme.text}" text-anchor="end">{value:,g}</text>')
    if plot.goal is not None:
        height = scale.at(10**scale.low if scale.is_log else scale.low, plot.goal)[1]
        parts.append(
            f'<line x1="{LEFT}" x2="{right}" y1="{height}" y2="{height}" stroke="{theme.text}" stroke-dasharray="4 4"/>'
        )
        parts.append(f'<text x="{right + 8}" y="{height + 4}" fill="{theme.text}">goal</text>')
    return parts


def _axis(points: Sequence[Point], scale: _Scale, theme: Theme) -> list[str]:
    texts = []
    for value in sorted({each.x for each in points}):
        across, _ = scale.at(value, 0)
        place = f'x="{across}" y="{HEIGHT - BOTTOM + 18}"'
        texts.append(f'<text {place} fill="{theme.text}" text-anchor="middle">{value:,g}</text>')
    return texts


def _curve(points: Sequence[Point], side: str, end: float, scale: _Scale, theme: Theme) -> list[str]:
    colour = theme.sides[side]
    places = [scale.at(each.x, each.y) for each in points]
    way = " ".join(f"{across},{height}" for across, height in places)
    dots = [f'<circle cx="{across}" cy="{height}" r="3.5" fill="{colour}"/>' for across, height in places]
    line = f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"/>'
    return [line, *dots, f'<text x="{places[-1][0] + 10}" y="{end + 4}" fill="{colour}">{side}</text>']


def _last(points: Sequence[Point], side: str) -> tuple[float, float]:
    last = [each for each in points if each.side == side][-1]
    return last.x, last.y


def _apart(heights: Sequence[float], least: float = 14) -> list[float]:
    """The heights of labels, moved down where they would lie over one another."""
    moved: dict[int, float] = {}
    above = float("-inf")
    for number in sorted(range(len(heights)), key=lambda number: heights[number]):
        above = moved[number] = max(heights[number], above + least)
    return [moved[number] for number in range(len(heights))]
