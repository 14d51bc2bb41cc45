"""Tables and stories as text, computed from what a watch has seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from multikueue.api.meta import ObjectKey
from multikueue.api.values import quantity
from multikueue_console.model.clusters import cluster_rows
from multikueue_console.model.fleet import flat
from multikueue_console.model.objects import SeenObjects
from multikueue_console.model.queues import Bar, queue_trees
from multikueue_console.model.stories import Story
from multikueue_console.model.tallies import Load, Tally, merged
from multikueue_console.model.workloads import WorkloadRow

__all__ = [
    "MOST_ROWS",
    "TITLES",
    "Line",
    "SeenFleet",
    "TextTable",
    "clusters",
    "filtered",
    "plain",
    "queues",
    "sorted_by",
    "story_lines",
    "workloads",
]

MOST_ROWS = 1000
"""Rows that are drawn; a filter shows the others."""

TITLES: Mapping[str, tuple[str, ...]] = {
    "workloads": ("NAMESPACE", "JOB", "STATE", "CLUSTER", "#", "AGE", "QUEUE", "USER", "WHY"),
    "queues": ("QUEUE", "COHORT", "WAIT", "RUN", "QUOTA", "USED", "BORROWED", "WHY NOT"),
    "clusters": ("CLUSTER", "STATE", "SINCE", "RACING", "STARTING", "RUNNING", "DONE", "FAILED", "MESSAGE"),
}
"""The columns of each view; `#` is the place in the line of the queue."""


class SeenFleet(Protocol):
    """What views are computed from: see `multikueue_console.watch.fleet_watch.FleetWatch`."""

    @property
    def seen(self) -> SeenObjects: ...

    @property
    def feed(self) -> Iterable[WorkloadRow]: ...

    @property
    def tallies(self) -> Mapping[str, Tally]: ...

    @property
    def version(self) -> int: ...

    @property
    def health(self) -> Mapping[str, str]: ...

    def now(self) -> datetime: ...

    def place(self, row: WorkloadRow, /) -> int: ...

    def line(self, cluster_queue: str, /) -> tuple[ObjectKey, ...]: ...

    def story(self, key: ObjectKey, /) -> Story | None: ...


class Line(msgspec.Struct, frozen=True):
    """A row of a table: its identity and its cells."""

    key: str
    cells: tuple[str, ...]


class TextTable(msgspec.Struct, frozen=True):
    titles: tuple[str, ...]
    lines: tuple[Line, ...]


def workloads(fleet: SeenFleet, *, of: str = "") -> TextTable:
    """All workloads, or those of a ClusterQueue or cluster named `of`; those that are not over first, in order of their age."""
    now = int(fleet.now().timestamp())
    rows = [row for row in fleet.feed if not of or of in (row.cluster_queue, row.cluster)]
    rows.sort(key=lambda row: (row.is_over, -row.ended if row.is_over else row.created, row.name))
    return TextTable(TITLES["workloads"], tuple(_workload(fleet, row, now) for row in rows))


def _workload(fleet: SeenFleet, row: WorkloadRow, now: int) -> Line:
    place = fleet.place(row) if row.state == "Pending" else 0
    cluster = row.cluster or (f"{len(row.nominated)} asked" if row.nominated else "")
    since = _age(now - (row.since or row.created))
    cells = (row.namespace, row.name, row.state, cluster, str(place or ""), since, row.queue, row.user, row.reason)
    return Line(f"{row.namespace}/{row.workload}", cells)


def queues(fleet: SeenFleet) -> TextTable:
    """A line for each ClusterQueue and resource of a flavor; only the first of a queue has its name."""
    lines: list[Line] = []
    for queue in flat(queue_trees(fleet.seen)):
        head = (queue.name, queue.cohort, str(queue.pending), str(queue.admitted))
        why = queue.problem or ("on hold" if queue.is_held else "")
        for number, bar in enumerate(queue.bars or (None,)):
            front = ("", "", "", "") if number else head
            cells = (*front, *_amounts(bar), "" if number else why)
            lines.append(Line(f"{queue.name}/{number}", cells))
    return TextTable(TITLES["queues"], tuple(lines))


def _amounts(bar: Bar | None) -> tuple[str, str, str]:
    if bar is None:
        return "", "", ""
    share = min(1.0, bar.used / bar.nominal) if bar.nominal else 0.0
    filled = "█" * round(8 * share)
    nominal, used = (quantity.render(bar.resource, amount) for amount in (bar.nominal, bar.used))
    borrowed = quantity.render(bar.resource, bar.borrowed) if bar.borrowed else ""
    return f"{nominal} {bar.resource} of {bar.flavor}", f"{filled:·<8} {used}", borrowed


def clusters(fleet: SeenFleet) -> TextTable:
    """A line for each worker."""
    now = int(fleet.now().timestamp())
    on: dict[str, Load] = merged(fleet.tallies.values()).loads
    lines = []
    for each in cluster_rows(fleet.seen, on):
        load = each.load
        counts = (load.racing, load.starting, load.running, load.done, load.failed)
        since = _age(now - each.since) if each.since else ""
        cells = (each.name, each.state, since, *(str(count or "") for count in counts), each.message)
        lines.append(Line(each.name, cells))
    return TextTable(TITLES["clusters"], tuple(lines))


def plain(text: str) -> str:
    """The text without what a terminal would obey: messages and logs are foreign. A tab is as wide as in most terminals."""
    shown = text.expandtabs()
    return (
        shown
        if shown.isprintable()
        else "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in shown)
    )


def filtered(table: TextTable, words: str) -> TextTable:
    """The lines that have each of the words in some cell, in any case; a word after `!` must be in none."""
    found = table.lines
    for word in words.lower().split():
        is_wanted, part = not word.startswith("!"), word.removeprefix("!")
        found = tuple(line for line in found if any(part in cell.lower() for cell in line.cells) is is_wanted)
    return TextTable(table.titles, found)


def sorted_by(table: TextTable, column: int, *, is_falling: bool = False) -> TextTable:
    """In the order of a column, numbers and ages by their size, empty cells last."""
    full = [line for line in table.lines if line.cells[column]]
    full.sort(key=lambda line: _rank(line.cells[column]), reverse=is_falling)
    return TextTable(table.titles, (*full, *(line for line in table.lines if not line.cells[column])))


def story_lines(story: Story, now: datetime, expected: str = "") -> list[str]:
    """A workload's story: why it waits or where it runs, what it has, and what happened so far. `expected`: when it starts."""
    row = story.row
    lines = [*story.answer.lines(), ""]
    facts = {
        "Queue": f"{row.queue} ({row.cluster_queue or 'no ClusterQueue'})",
        "Place": f"{story.place} of {story.line}" if story.place else "",
        "Starts": expected if row.state == "Pending" else "",
        "User": row.user,
        "Priority": str(row.priority) if row.priority else "",
        "Pods": ", ".join(f"{count} {name}" for name, count in story.pod_sets.items()),
        "Asks for": ", ".join(f"{quantity.render(name, amount)} {name}" for name, amount in row.amounts.items()),
        "Flavors": ", ".join(f"{resource}: {flavor}" for resource, flavor in story.flavors.items()),
        "Evictions": str(row.evictions) if row.evictions else "",
    }
    lines += [f"{name + ':':<11}{value}" for name, value in facts.items() if value]
    lines += [f"{'Check:':<11}{check.name} {check.state}{_after(check.message)}" for check in story.checks]
    lines += ["", "What happened"]
    for step in story.steps:
        when = f"{step.at:%m-%d %H:%M:%S}" if step.at else "at some time"
        ago = f"{_age(int((now - step.at).total_seconds()))} ago" if step.at else ""
        where = f" on {step.cluster}" if step.cluster else ""
        lines.append(f"  {when:<15}{ago:>9}  {step.what}{where}{_after(step.text)}")
    return lines


def _after(text: str) -> str:
    return f": {text}" if text else ""


def _rank(cell: str) -> tuple[int, float, str]:
    if cell.isdecimal():
        return 0, float(cell), ""
    parts = re.findall(r"(\d+)([smhd])", cell)
    if parts and "".join(number + unit for number, unit in parts) == cell:
        return 0, sum(int(number) * _UNITS[unit] for number, unit in parts), ""
    return 1, 0.0, cell.lower()


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _age(seconds: int) -> str:
    """A duration in its largest unit or two, as kubectl shows it."""
    left = timedelta(seconds=max(0, seconds))
    hours, minutes = left.seconds // 3600, left.seconds // 60 % 60
    if left < timedelta(minutes=2):
        return f"{int(left.total_seconds())}s"
    if left < timedelta(hours=2):
        return f"{left.seconds // 60}m"
    if left < timedelta(days=1):
        return f"{hours}h{minutes}m" if minutes and hours < 10 else f"{hours}h"
    return f"{left.days}d"
