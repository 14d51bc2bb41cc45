"""The board as text, for a terminal and for the summary. Pure: values in, renderables out."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.board.courses import Moment, Stand, percentile
from multikueue_simulator.demo.screen.keys import HELP

__all__ = ["Hand", "picture", "story", "summary"]

LINES, FEWEST_LINES = 10, 3
"""The number of moments shown on a high terminal, and the minimum on any."""

_BAR = 16


LEGEND = (
    ("█", "green"),
    " ours  ",
    ("█", "magenta"),
    " others  ",
    ("░", "dim"),
    " free   RACING: copies wait, the first to admit wins",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hand:
    """What a viewer with keys has chosen: a worker, a job, and the answer to what they asked about it."""

    worker: str = ""
    job: str = ""
    asked: str = ""
    answer: str = ""


def picture(board: Board, at: float, *, jobs: int, hand: Hand | None = None) -> RenderableType:
    """The view at a time in seconds since the start; `jobs` is the final number of jobs. It fits a terminal of 80
    columns and 24 lines with three workers; with more workers a row only has the sum of running jobs."""
    return _Picture(board, at, jobs, hand)


@dataclass(frozen=True, slots=True)
class _Picture:
    board: Board
    at: float
    jobs: int
    hand: Hand | None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        above, below = self._above(console, options), self._below()
        height = sum(len(console.render_lines(part, options, pad=False)) for part in (above, below))
        count = max(FEWEST_LINES, min(LINES, console.height - height - 1))
        yield Group(above, *self._told(count, options.max_width), below)

    def _above(self, console: Console, options: ConsoleOptions) -> Group:
        board, blank = self.board, Text("")
        act = Text(board.headline(self.at), style="bold yellow", overflow="ellipsis", no_wrap=True)
        queues = _queues(board, by_worker=True)
        if Measurement.get(console, options.update(width=10 * options.max_width), queues).maximum > options.max_width:
            queues = _queues(board, by_worker=False)
        workers = _workers(board, self.hand.worker if self.hand else "")
        legend = Text.assemble(*LEGEND, style="dim", overflow="ellipsis", no_wrap=True)
        return Group(_head(board, self.at, self.jobs), act, blank, queues, blank, workers, legend, blank)

    def _below(self) -> Group:
        if self.hand is None:
            return Group()
        chosen = Text.assemble("chosen, by 1-9 and ↑↓: ", (f"{self.hand.worker} {self.hand.job}", "bold"))
        return Group(chosen, Text(HELP, style="dim", overflow="ellipsis", no_wrap=True))

    def _told(self, count: int, width: int) -> list[Text]:
        """What happened of late, or the answer to the viewer's question."""
        if self.hand is not None and self.hand.asked:
            lines = [f"$ {self.hand.asked}", *self.hand.answer.splitlines()]
            told = [Text(part) for line in lines for part in wrap(line, width) or [""]][:count]
        else:
            told = [story(moment) for moment in [*self.board.moments][-count:]]
        return told + [Text("")] * (count - len(told))


def _head(board: Board, at: float, jobs: int) -> Text:
    # Both are what must never happen, so both are there from the start.
    wrong = f"failed {board.failed}, ran twice {board.repeated}"
    return Text.assemble(
        ("multikueue demo", "bold"),
        f" {at:4.0f} s   {board.finished} of {jobs} jobs finished   {board.rate(at):.1f}/s   {wrong}",
        overflow="ellipsis",
        no_wrap=True,
    )


def story(moment: Moment) -> Text:
    """The line of one moment."""
    return Text.assemble(
        (f"{moment.at:6.1f} s  ", "dim"), (moment.text, moment.style), overflow="ellipsis", no_wrap=True
    )


def summary(board: Board) -> RenderableType:
    """The facts at the end of the demo."""
    courses, waits = board.courses.values(), board.waits()
    start = f"{_seconds(percentile(waits, 0.5))} median, {_seconds(percentile(waits, 0.95))} p95"
    facts = {
        "jobs submitted": str(len(courses)),
        "jobs finished": str(board.finished),
        "jobs that ran twice without need": str(board.repeated),
        "had to leave their worker and ran again": str(sum(c.evictions > 0 for c in courses)),
        "from submission to start": start,
    }
    facts |= {f"races on {name}": f"{stand.won} won, {stand.lost} lost" for name, stand in board.stands.items()}
    wide = max(map(len, facts))
    return Group(*(Text(f"{what:{wide}}   {fact}") for what, fact in facts.items()))


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


def _workers(board: Board, chosen: str) -> Table:
    table = _table("WORKER", "", "CPU", "OURS", "COPIES", "WON", "LOST")
    for name, stand in board.stands.items():
        copies = board.running(name) + board.racing(name)
        numbers = [_number(board.running(name)), _number(copies), str(stand.won), str(stand.lost)]
        shown = _name(name, stand, is_chosen=name == chosen)
        table.add_row(shown, _bar(stand), f"{stand.busy:.0f}/{stand.cpu}", *numbers)
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(columns):
        table.add_column(title, justify="left" if number == 0 or not title else "right", no_wrap=True)
    return table


def _name(name: str, stand: Stand, *, is_chosen: bool) -> Text:
    more = " reverse" if is_chosen else ""
    return Text(name, style=f"green{more}") if stand.reachable else Text(f"{name} (out of reach)", style=f"red{more}")


def _bar(stand: Stand) -> Text:
    ours, others = (round(_BAR * sum(part.values()) / stand.cpu) for part in (stand.used, stand.others))
    free = max(0, _BAR - ours - others)
    return Text.assemble(("█" * ours, "green"), ("█" * others, "magenta"), ("░" * free, "dim"))


def _number(count: int) -> str:
    return str(count) if count else "·"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
