"""The board as text, for a terminal and for the summary. Pure: values in, renderables out."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from multikueue_simulator.demo.board import Board, Moment, Stand, percentile

__all__ = ["picture", "story", "summary"]

LINES, FEWEST_LINES = 10, 3
"""The number of moments shown on a high terminal, and the minimum on any."""

_BAR = 16


def picture(board: Board, at: float, *, jobs: int) -> RenderableType:
    """The view at a time in seconds since the start; `jobs` is the final number of jobs. It fits a terminal of 80
    columns and 24 lines with three workers; with more workers a row only has the sum of running jobs."""
    return _Picture(board, at, jobs)


@dataclass(frozen=True, slots=True)
class _Picture:
    board: Board
    at: float
    jobs: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        board, blank = self.board, Text("")
        head = Text.assemble(
            ("multikueue demo", "bold"),
            f"   {self.at:4.0f} s   {board.finished} of {self.jobs} jobs finished   {board.rate(self.at):.1f} dispatched/s",
        )
        act = Text(board.act, style="bold yellow", overflow="ellipsis", no_wrap=True)
        queues = _queues(board, by_worker=True)
        if Measurement.get(console, options.update(width=10 * options.max_width), queues).maximum > options.max_width:
            queues = _queues(board, by_worker=False)
        above = Group(head, act, blank, queues, blank, _workers(board), blank)
        height = len(console.render_lines(above, options, pad=False))
        count = max(FEWEST_LINES, min(LINES, console.height - height - 1))
        moments = [*board.moments][-count:]
        yield Group(above, *(story(moment) for moment in moments), *[blank] * (count - len(moments)))


def story(moment: Moment) -> Text:
    """The line of one moment."""
    return Text.assemble(
        (f"{moment.at:6.1f} s  ", "dim"), (moment.text, moment.style), overflow="ellipsis", no_wrap=True
    )


def summary(board: Board) -> RenderableType:
    """The facts at the end of the demo."""
    courses = board.courses.values()
    waits = board.waits()
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    facts.add_row("jobs submitted", str(len(courses)))
    facts.add_row("jobs finished", str(board.finished))
    facts.add_row("jobs that ran twice at no need", str(sum(c.starts > 1 + c.evictions for c in courses)))
    facts.add_row("taken from a lost worker and run elsewhere", str(sum(c.evictions > 0 for c in courses)))
    facts.add_row(
        "from submission to start",
        f"{_seconds(percentile(waits, 0.5))} median, {_seconds(percentile(waits, 0.95))} p95",
    )
    for name, stand in board.stands.items():
        facts.add_row(f"races on {name}", f"{stand.won} won, {stand.lost} lost")
    return facts


def _queues(board: Board, *, by_worker: bool) -> Table:
    places = [f"ON {name.upper()}" for name in board.stands] if by_worker else ["RUNNING"]
    table = _table("QUEUE", "SUBMITTED", "WAITING", "RACING", *places, "FINISHED")
    for queue in board.queues:
        counts = board.counts(queue)
        each = [counts[name] for name in board.stands]
        running = [_number(count) for count in (each if by_worker else [sum(each)])]
        first = [str(counts.total()), _number(counts["waiting"]), _number(counts["racing"])]
        table.add_row(queue, *first, *running, str(counts["finished"]))
    return table


def _workers(board: Board) -> Table:
    table = _table("WORKER", "", "CPU", "OURS", "COPIES", "WON", "LOST")
    for name, stand in board.stands.items():
        copies = board.running(name) + board.racing(name)
        numbers = [_number(board.running(name)), _number(copies), str(stand.won), str(stand.lost)]
        table.add_row(_name(name, stand), _bar(stand), f"{stand.busy:.0f}/{stand.cpu}", *numbers)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(columns):
        table.add_column(title, justify="left" if number == 0 or not title else "right", no_wrap=True)
    return table


def _name(name: str, stand: Stand) -> Text:
    return Text(name, style="green") if stand.reachable else Text(f"{name} (out of reach)", style="red")


def _bar(stand: Stand) -> Text:
    ours, others = (round(_BAR * sum(part.values()) / stand.cpu) for part in (stand.used, stand.others))
    free = max(0, _BAR - ours - others)
    return Text.assemble(("█" * ours, "green"), ("█" * others, "magenta"), ("░" * free, "dim"))


def _number(count: int) -> str:
    return str(count) if count else "·"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
