"""What commands print: a table for people, columns for pipes, JSON and YAML for programs; progress goes to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import typer

__all__ = [
    "Column",
    "Format",
    "Listing",
    "Output",
    "Ticker",
    "age",
    "heading",
    "note",
    "one_line",
    "print_document",
    "print_facts",
    "print_items",
    "print_table",
    "printable",
    "since",
]

GAP = "   "

_COLOURS = {
    "True": "green",
    "False": "red",
    "Unknown": "yellow",
    "Admitted": "green",
    "Finished": "blue",
    "Failed": "red",
    "Evicted": "yellow",
    "Evicting": "yellow",
    "Inactive": "yellow",
    "ok": "green",
    "warning": "yellow",
    "failed": "red",
    "unreachable": "red",
}


class Format(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


Output = Annotated[Format, typer.Option("--output", "-o", help="How to print.", rich_help_panel="Output")]


@dataclass(frozen=True, slots=True)
class Column:
    """A column and whether only `-o wide` shows it."""

    title: str
    wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a list command found.

    `items` are the objects as the server sent them, `rows` one row for each, `resource` the word before the slash of
    `-o name`, `nothing` what to say when there is none.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    items: Sequence[dict[str, Any]]
    resource: str
    nothing: str


def print_items(listing: Listing, output: Format) -> None:
    """Print a listing in the chosen format. Programs get an empty list where people get a sentence."""
    match output:
        case Format.JSON | Format.YAML:
            print_document({"apiVersion": "v1", "kind": "List", "items": list(listing.items)}, output)
        case Format.NAME:
            for item in listing.items:
                print(printable(f"{listing.resource}/{item['metadata']['name']}"))
        case _ if not listing.rows:
            note(listing.nothing)
        case _:
            print_table(listing.columns, listing.rows, output)


def print_document(document: Any, output: Format) -> None:
    """Print one object as JSON or YAML, its fields in the order given."""
    if output is Format.YAML:
        import yaml

        print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), end="")
        return
    import msgspec

    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def note(text: str) -> None:
    """Progress and remarks: never in the way of what a program reads from stdout."""
    print(printable(text), file=sys.stderr)


def printable(text: str) -> str:
    """The text with backslash escapes for what a terminal obeys or hides: clusters have the words, not the screen.

    Line breaks stay.
    """
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def one_line(text: str) -> str:
    """One row is one line: what messages carry in line breaks becomes a space. Printable."""
    return printable(" ".join(text.split()))


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """A block of titled values under a heading."""
    heading(title)
    lines = [(f"{one_line(name)}:", one_line(value)) for name, value in facts]
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        print(f"  {name.ljust(width)}  {value or '-'}")


def heading(text: str) -> None:
    """A line above a block; bold on a terminal."""
    text = one_line(text)
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console().print(Text(text, style="bold"))


def age(moment: datetime | None, now: datetime) -> str:
    """The time since `moment` as kubectl shows ages: `45s`, `3m12s`, `5h`, `12d`; `<unknown>` without a moment."""
    return "<unknown>" if moment is None else since(now - moment)


def since(duration: timedelta) -> str:
    """A duration in at most two units, the finer one only while it matters."""
    seconds = max(0, int(duration.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    return f"{days}d"


def _two(whole: int, unit: str, rest: int, finer: str) -> str:
    return f"{whole}{unit}{rest}{finer}" if rest else f"{whole}{unit}"


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]], output: Format) -> None:
    """Print rows under titles, all columns if `output` is wide."""
    shown = [number for number, column in enumerate(columns) if output is Format.WIDE or not column.wide]
    titles = [columns[number].title for number in shown]
    cells = [[one_line(row[number]) or "-" for number in shown] for row in rows]
    if sys.stdout.isatty():
        _print_rich(titles, cells)
    else:
        _print_plain([titles, *cells])


def _print_plain(lines: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print(GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _print_rich(titles: Sequence[str], cells: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, len(GAP), 0, 0))
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in cells:
        # Text, not str: a message is never read as markup.
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    Console().print(table)


class Ticker:
    """A table that grows a row at a time, its columns as wide as they had to be so far."""

    def __init__(self, columns: Sequence[Column], output: Format) -> None:
        self._shown = [number for number, column in enumerate(columns) if output is Format.WIDE or not column.wide]
        self._titles = [columns[number].title for number in self._shown]
        self._widths = [len(title) for title in self._titles]
        self._is_empty = True

    def add(self, row: Sequence[str]) -> None:
        cells = [one_line(row[number]) or "-" for number in self._shown]
        self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)]
        if self._is_empty:
            self._print(self._titles)
            self._is_empty = False
        self._print(cells)

    def _print(self, cells: Sequence[str]) -> None:
        padded = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        print(GAP.join(padded).rstrip(), flush=True)
