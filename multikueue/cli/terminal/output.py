"""The output of commands: a table for people, columns for pipes, JSON and YAML for programs; progress goes to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
import typer
from msgspec.structs import replace

from multikueue.cli.terminal.formats import CustomColumns, Form, Format, JsonPath
from multikueue.cli.terminal.nearest import there_are

if TYPE_CHECKING:
    from multikueue.answers.answer import JobAnswer

__all__ = [
    "CLEAR_LINE",
    "Column",
    "PrintedList",
    "Ticker",
    "age",
    "has_spinner",
    "heading",
    "note",
    "note_unseen",
    "one_line",
    "print_answer",
    "print_document",
    "print_facts",
    "print_items",
    "print_table",
    "printable",
    "say",
    "since",
]

GAP = "   "

CLEAR_LINE = "\r\x1b[K"
"""Clears the current line of a terminal."""

_COLOURS = {
    "True": "green",
    "False": "red",
    "Unknown": "yellow",
    "Running": "green",
    "Starting": "cyan",
    "Held": "yellow",
    "Finished": "blue",
    "Failed": "red",
    "Pending": "yellow",
    "ok": "green",
    "warning": "yellow",
    "failed": "red",
    "unreachable": "red",
}


class Column(msgspec.Struct, frozen=True):
    """A column and whether only `-o wide` shows it."""

    title: str
    is_wide: bool = False


class PrintedList(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a list command.

    `items` are the objects as the server sent them, `rows` one row for each, `resource` the word before the slash of
    `-o name` (empty: each item's own kind and group, as with kubectl), `nothing` the sentence for an empty list.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    items: Sequence[dict[str, Any]]
    resource: str
    nothing: str


def print_items(listing: PrintedList, output: Form, *, sort_by: str = "", has_headers: bool = True) -> None:
    """Print a listing in the chosen format. Programs get an empty list where people get a sentence."""
    listing = _sorted(listing, sort_by) if sort_by else listing
    match output:
        case Format.JSON | Format.YAML | JsonPath():
            print_document({"apiVersion": "v1", "kind": "List", "items": list(listing.items)}, output)
        case Format.NAME:
            for item in listing.items:
                print(printable(f"{listing.resource or _resource(item)}/{item['metadata']['name']}"))
        case _ if not listing.rows:
            note(listing.nothing)
        case CustomColumns():
            _print_custom(output, listing.items, has_headers=has_headers)
        case _:
            print_table(listing.columns, listing.rows, output, has_headers=has_headers)


def _resource(item: Mapping[str, Any]) -> str:
    group = item.get("apiVersion", "").rpartition("/")[0]
    return f"{item['kind'].lower()}.{group}" if group else item["kind"]


def _sorted(listing: PrintedList, sort_by: str) -> PrintedList:
    """Items and their rows in the order of the first value at the path, items without one last. Raises BadParameter for a
    path that finds nothing in any of them, as kubectl does."""
    from multikueue.cli.terminal.jsonpath import path

    if len(listing.items) != len(listing.rows):
        raise typer.BadParameter("--sort-by: these rows are not objects")
    found = [path(sort_by).find(item) for item in listing.items]
    if found and not any(found):
        fields = dict.fromkeys(field for item in listing.items for field in _fields(item))
        raise typer.BadParameter(f"--sort-by: none of them has {sort_by}; {there_are(sort_by.strip('{}'), fields)}")
    order = sorted(range(len(found)), key=lambda number: _rank(found[number]))
    return replace(
        listing, items=[listing.items[number] for number in order], rows=[listing.rows[number] for number in order]
    )


def _fields(item: Any, above: str = "") -> Iterator[str]:
    """The paths of all values in objects of the item."""
    for name, value in item.items():
        if isinstance(value, dict):
            yield from _fields(value, f"{above}.{name}")
        elif "/" not in name:
            yield f"{above}.{name}"


def _rank(found: Sequence[Any]) -> tuple[Any, ...]:
    from multikueue.api.meta import natural

    match found:
        case [bool() | str() as value, *_]:
            return 1, natural(str(value))
        case [int() | float() as value, *_]:
            return 0, value
    return (2,)


def print_document(document: Any, output: Form) -> None:
    """Print one object in a format for programs, its fields in the order given."""
    match output:
        case JsonPath():
            print(output.render(document), end="")
        case CustomColumns():
            _print_custom(output, [document])
        case Format.YAML:
            import yaml

            print(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), end="")
        case _:
            import msgspec

            print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())


def _print_custom(output: CustomColumns, items: Sequence[Any], *, has_headers: bool = True) -> None:
    columns = [Column(title) for title, _ in output.columns]
    print_table(columns, [list(output.cells(item)) for item in items], Format.TABLE, has_headers=has_headers)


def note(text: str) -> None:
    """Progress and remarks on stderr: programs read stdout."""
    print(f"{_clearing()}{printable(text)}", file=sys.stderr)


def say(text: str) -> None:
    """A line of the answer while a spinner may turn on the same terminal."""
    print(_clearing(), end="", file=sys.stderr, flush=True)
    print(printable(text))


def has_spinner() -> bool:
    """Whether stderr is a terminal, on which a line can be replaced."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _clearing() -> str:
    """What removes a spinner's line, where there may be one."""
    return CLEAR_LINE if has_spinner() else ""


def printable(text: str) -> str:
    """The text with control and hidden characters escaped: text from a cluster must not control the terminal.

    Line breaks stay.
    """
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode() for char in text
    )


def one_line(text: str) -> str:
    """The text in one line, line breaks as spaces. Printable."""
    return printable(" ".join(text.split()))


def print_answer(told: JobAnswer) -> None:
    """Why a job does not run, or where it does."""
    for line in told.lines():
        indent = "  " if line.startswith("  ") else ""
        print(f"{indent}{one_line(line)}")


def note_unseen(told: JobAnswer) -> None:
    """What is missing in the answer, if anything is."""
    if told.not_seen:
        note(f"{told.not_seen[0].upper()}{told.not_seen[1:]}.")


def print_facts(title: str, facts: Iterable[tuple[str, str]]) -> None:
    """A block of titled values under a heading."""
    heading(title)
    lines = [(f"{one_line(name)}:", one_line(value)) for name, value in facts]
    width = max((len(name) for name, _ in lines), default=0)
    for name, value in lines:
        print(f"  {name.ljust(width)}  {value or '-'}")


def heading(text: str) -> None:
    """A line above a block; bold on a terminal."""
    print(_styled(one_line(text), is_bold=True))


def _styled(text: str, *, is_bold: bool | None = None, colour: str | None = None) -> str:
    """The text in bold or a colour: on a terminal that has them, unless NO_COLOR is set (no-color.org)."""
    plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain or not (is_bold or colour) else typer.style(text, bold=is_bold, fg=colour)


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


def print_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], output: Form, *, has_headers: bool = True
) -> None:
    """Print rows under titles, all columns if `output` is wide. A terminal breaks long lines, and nothing is left out."""
    shown = [number for number, column in enumerate(columns) if output is Format.WIDE or not column.is_wide]
    titles = [columns[number].title for number in shown]
    cells = [[one_line(row[number]) or "-" for number in shown] for row in rows]
    widths = [max(map(len, column)) for column in zip(*([titles] if has_headers else []), *cells, strict=True)]
    if has_headers:
        print(_line(titles, widths, is_bold=True))
    for row in cells:
        print(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int], *, is_bold: bool | None = None) -> str:
    """A row without trailing blanks, which would break the line on a screen that is just wide enough."""
    last = len(cells) - 1
    padded = (cell if number == last else cell.ljust(widths[number]) for number, cell in enumerate(cells))
    return GAP.join(
        _styled(text, is_bold=is_bold, colour=_COLOURS.get(cell)) for text, cell in zip(padded, cells, strict=True)
    )


class Ticker:
    """A table that grows. Rows wait for `flush`: what is there at first is aligned together; a column is as wide as its
    widest cell so far."""

    def __init__(self, columns: Sequence[Column], output: Form, *, headers: bool = True) -> None:
        self._shown = [number for number, column in enumerate(columns) if output is Format.WIDE or not column.is_wide]
        self._titles = [columns[number].title for number in self._shown]
        self._widths = [len(title) for title in self._titles]
        self._needs_titles = headers
        self._waiting = list[Sequence[str]]()

    def add(self, row: Sequence[str]) -> None:
        cells = [one_line(row[number]) or "-" for number in self._shown]
        self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)]
        self._waiting.append(cells)

    def flush(self) -> None:
        """Print the rows that were added since."""
        if self._waiting and self._needs_titles:
            print(_line(self._titles, self._widths, is_bold=True))
            self._needs_titles = False
        for cells in self._waiting:
            print(_line(cells, self._widths))
        self._waiting.clear()
        sys.stdout.flush()
