"""The board as text, for a terminal while it runs and for the summary: values in, renderables out."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from multikueue_simulator.demo.board import Board, Moment, Stand, percentile

__all__ = ["picture", "story", "summary"]

LINES = 10
"""Moments that are shown."""

_BAR = 16


def picture(board: Board, at: float, *, jobs: int) -> RenderableType:
    """The whole view at a moment, in seconds since the beginning; so many jobs are to come in all."""
    head = Text.assemble(
        ("multikueue demo", "bold"),
        f"   {at:4.0f} s   {board.finished} of {jobs} jobs finished   {board.rate(at):.1f} dispatched/s   ",
        (board.act, "bold yellow"),
    )
    moments = [*board.moments][-LINES:]
    lines = [story(moment) for moment in moments] + [Text("")] * (LINES - len(moments))
    return Group(head, Text(""), _queues(board), Text(""), _workers(board), Text(""), *lines)


def story(moment: Moment) -> Text:
    """One line about what happened."""
    return Text.assemble(
        (f"{moment.at:6.1f} s  ", "dim"), (moment.text, moment.style), overflow="ellipsis", no_wrap=True
    )


def summary(board: Board) -> RenderableType:
    """What came of it all."""
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


def _queues(board: Board) -> Table:
    table = _table("QUEUE", "SUBMITTED", "WAITING", "RACING")
    for name in board.stands:
        table.add_column(f"ON {name.upper()}", justify="right")
    table.add_column("FINISHED", justify="right")
    for queue in board.queues:
        counts = board.counts(queue)
        running = [_number(counts[name]) for name in board.stands]
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
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for number, title in enumerate(columns):
        table.add_column(title, justify="left" if number == 0 or not title else "right", min_width=9)
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
