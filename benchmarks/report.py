"""Figures as a table, as Markdown for the docs, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.calls import Calls
from benchmarks.figures import Figures, Ratio, Row, ratios, rows

__all__ = ["Report", "as_json", "as_markdown", "as_text"]

VERDICTS = {True: "pass", False: "MISS", None: ""}


@dataclass(frozen=True, slots=True)
class Report:
    """One run: its command, its machine, and the figures of each side."""

    command: str
    machine: Mapping[str, str]
    sides: Mapping[str, Figures]

    @property
    def rows(self) -> list[Row]:
        return rows(self.sides)

    @property
    def ratios(self) -> list[Ratio]:
        return ratios(self.sides)

    @property
    def whole(self) -> bool:
        """Whether ours was measured beside another side."""
        return "ours" in self.sides and len(self.sides) > 1

    @property
    def missed(self) -> list[str]:
        judged: list[Row | Ratio] = [*self.rows, *self.ratios]
        return [each.label for each in judged if each.met is False]


def as_json(report: Report) -> str:
    """Everything that was measured."""
    tree: dict[str, Any] = msgspec.to_builtins(report)
    tree["rows"] = msgspec.to_builtins(report.rows)
    tree["ratios"] = msgspec.to_builtins(report.ratios)
    return msgspec.json.format(msgspec.json.encode(tree), indent=2).decode()


def as_text(report: Report) -> str:
    """The table and the ratios, then their explanation: steps, calls, and CPU per program."""
    parts = ["\n".join(_aligned(cells)) for cells in (_cells(report), _ratio_cells(report))]
    for name, side in report.sides.items():
        parts += [
            f"{name}: {side.rested_jobs} jobs one at a time, ms from submission (p50, p95)\n" + _steps(side),
            f"{name}: calls per job, one at a time | in a burst of {side.jobs}\n" + _calls(side),
            f"{name}: CPU during the burst, ms per job\n" + _cpu(side),
        ]
    return "\n\n".join(parts)


def as_markdown(report: Report) -> str:
    """The tables for the docs, with their command and machine."""
    tables = "\n\n".join(_markdown_table(cells) for cells in (_cells(report), _ratio_cells(report)))
    where = ", ".join(report.machine.values())
    return f"`{report.command}` on {where}:\n\n{tables}"


def _markdown_table(table: Sequence[Sequence[str]]) -> str:
    header, *lines = table
    marks = ["---", *["---:" for _ in header[1:]]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, marks, *lines))


def _cells(report: Report) -> list[list[str]]:
    names = list(report.sides)
    header = ["figure", *names, "ratio", "target", ""]
    return [header, *([row.label, *_values(row, names), row.target, VERDICTS[row.met]] for row in report.rows)]


def _ratio_cells(report: Report) -> list[list[str]]:
    return [["ratio of one run", "value", "target", ""], *(_ratio_line(each) for each in report.ratios)]


def _ratio_line(ratio: Ratio) -> list[str]:
    value = "-" if ratio.value is None else f"{ratio.value:.2f}"
    return [ratio.label, value, ratio.target, VERDICTS[ratio.met]]


def _values(row: Row, names: Sequence[str]) -> list[str]:
    values = [row.values[name] for name in names]
    texts = ["-" if value is None else f"{value:.{row.digits}f}" for value in values]
    return [*texts, "" if row.ratio is None else f"{row.ratio:.2f}"]


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cells[column]) for cells in table) for column in range(len(table[0]))]
    return [
        "  ".join(
            cell.rjust(width) if 0 < column < len(cells) - 2 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in table
    ]


def _steps(side: Figures) -> str:
    return "\n".join(f"  {step:25} {1000 * d.p50:7.0f} {1000 * d.p95:7.0f}" for step, d in side.steps.items())


def _calls(side: Figures) -> str:
    return "\n".join(
        [
            *_calls_on("manager", side.rested_manager, side.manager),
            *_calls_on("workers", side.rested_worker, side.worker),
        ]
    )


def _calls_on(where: str, rested: Calls, burst: Calls) -> list[str]:
    names = dict.fromkeys([*burst.by, *rested.by])
    lines = [f"  {where} {'all writes':44} {rested.writes:7.2f} {burst.writes:7.2f}"]
    return lines + [f"  {where} {name:44} {rested.by.get(name, 0):7.2f} {burst.by.get(name, 0):7.2f}" for name in names]


def _cpu(side: Figures) -> str:
    ordered = sorted(side.cpu.items(), key=lambda item: -item[1])
    return "\n".join(f"  {name:25} {1000 * seconds / side.jobs:7.1f}" for name, seconds in ordered)
