"""Two managers in the same play, side by side: ours alive, and Kueue's own as it was measured. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from multikueue_simulator.demo.board.board import Board
from multikueue_simulator.demo.board.courses import Moment, percentile
from multikueue_simulator.demo.screen.picture import story

__all__ = ["NAMES", "comparison", "longest_pause", "side_by_side"]

NAMES = ("this manager, live", "Kueue's own, as measured")

_LINES = 5
_BAR = 30


def side_by_side(ours: Board, peer: Board, at: float, *, jobs: int) -> RenderableType:
    """The view at a time: what each has done by now, and what happened to it."""
    return _Versus(ours, peer, at, jobs)


@dataclass(frozen=True, slots=True)
class _Versus:
    ours: Board
    peer: Board
    at: float
    jobs: int

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
        head = Text.assemble(
            ("multikueue demo --versus", "bold"), f"   {self.at:4.0f} s   the same jobs, the same faults"
        )
        act = Text(self.ours.headline(self.at), style="bold yellow", overflow="ellipsis", no_wrap=True)
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for name, board in zip(NAMES, (self.ours, self.peer), strict=True):
            table.add_row(
                Text(name, style="bold"), _bar(board, self.jobs), f"{board.finished:3} of {self.jobs} finished"
            )
            table.add_row("", _workers(board), f"{_waiting(board):3} wait")
        parts: list[RenderableType] = [head, act, Text(""), table]
        for name, board in zip(NAMES, (self.ours, self.peer), strict=True):
            parts += [Text(""), Text(name, style="bold"), *_told(board)]
        yield Group(*parts)


def comparison(ours: Board, peer: Board, *, never: int) -> RenderableType:
    """The facts at the end; `never`: the jobs that the peer would never finish."""
    boards = (ours, peer)
    rows = [
        ("", *NAMES),
        ("last job finished after", *map(_end, boards)),
        ("jobs that never finish", str(len(ours.courses) - ours.finished), str(never)),
        ("jobs that ran twice without need", *(str(board.repeated) for board in boards)),
        ("longest pause without a start", *(_seconds(longest_pause(board)) for board in boards)),
        ("from submission to start, median", *(_wait(board, 0.5) for board in boards)),
        ("from submission to start, p95", *(_wait(board, 0.95) for board in boards)),
    ]
    return Group(*(Text(f"{what:35}{one:21}{other}") for what, one, other in rows))


def longest_pause(board: Board) -> float:
    """The longest time between two jobs that got a worker, or from a submission on, while some job waited."""
    starts = sorted(course.started for course in board.courses.values() if course.started is not None)
    pauses = [0.0]
    for before, after in zip([0.0, *starts], starts, strict=False):
        waits = (c for c in board.courses.values() if c.started is not None and c.started >= after)
        since = min((course.submitted for course in waits), default=after)
        pauses.append(after - max(before, since))
    return max(pauses)


def _told(board: Board) -> list[Text]:
    told = [moment for moment in board.moments if moment.style and not _is_for_both(moment)][-_LINES:]
    return [*(story(moment) for moment in told), *[Text("")] * (_LINES - len(told))]


def _is_for_both(moment: Moment) -> bool:
    """Whether it is an act, which is shown above, or a hint."""
    return moment.style in ("bold yellow", "cyan")


def _bar(board: Board, jobs: int) -> Text:
    done = round(_BAR * board.finished / max(1, jobs))
    return Text.assemble(("█" * done, "green"), ("░" * (_BAR - done), "dim"))


def _workers(board: Board) -> Text:
    text = Text("  ", overflow="ellipsis", no_wrap=True)
    return text.join(
        Text(f"{name} {stand.busy:.0f}/{stand.cpu}", style="" if stand.reachable else "red")
        for name, stand in board.stands.items()
    )


def _waiting(board: Board) -> int:
    return sum(course.stage in ("waiting", "racing") for course in board.courses.values())


def _end(board: Board) -> str:
    return _seconds(max((course.finished or 0.0 for course in board.courses.values()), default=0.0))


def _wait(board: Board, share: float) -> str:
    waits = percentile(board.waits(), share)
    return "-" if waits is None else _seconds(waits)


def _seconds(value: float) -> str:
    return f"{value:.1f} s"
