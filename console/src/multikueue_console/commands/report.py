"""`multikueue report`: who used and waited how much, from the history."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multikueue.cli.access.connection import now
from multikueue.cli.terminal.durations import parse_duration
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.formats import Format
from multikueue.cli.terminal.output import Column, note, print_document, print_table, since
from multikueue_console.commands.stored import HistoryUrl, opened

if TYPE_CHECKING:
    from multikueue_console.history.report import ReportRow
    from multikueue_console.history.runs import Gap

__all__ = ["report"]


class ReportFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def _dimensions(text: str) -> tuple[str, ...]:
    from multikueue_console.history.use import DIMENSIONS

    found = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    if wrong := [each for each in found if each not in DIMENSIONS]:
        raise typer.BadParameter(f"there is no dimension {wrong[0][:50]!r}; there are {', '.join(DIMENSIONS)}")
    return found


if TYPE_CHECKING:
    _Dimensions = tuple[str, ...]
else:
    _Dimensions = str  # typer asks the parser

_BY = typer.Option(
    "--by",
    parser=_dimensions,
    metavar="LIST",
    help="Group by user, namespace, queue, cluster, hour or day, or several.",
)
_SINCE = typer.Option("--since", parser=parse_duration, metavar="DURATION", help="How far back, such as 30d or 12h.")


def report(
    by: Annotated[_Dimensions, _BY] = "user",  # type: ignore[assignment]
    start: Annotated[timedelta, _SINCE] = "7d",  # type: ignore[assignment]
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", help="Only this namespace; may be repeated.")
    ] = None,
    output: Annotated[ReportFormat, typer.Option("--output", "-o", help="The format.")] = ReportFormat.TABLE,
    file: Annotated[
        Path | None, typer.Option("--file", dir_okay=False, help="Write there; parquet needs it.", show_default=False)
    ] = None,
    url: HistoryUrl = None,
) -> None:
    """Show who used and waited how much.

    From the history that `multikueue record` keeps. Runs count where and when they ended, hours where they passed, and what
    still runs counts until now. Times without a record are printed on stderr.

    \b
    Examples:
      multikueue report --by user,day --since 30d
      multikueue report --by queue -o csv
      multikueue report --by user,cluster,hour -o parquet --file use.parquet
    """
    from multikueue_console.history.report import rows_of
    from multikueue_console.history.use import sums

    if output is ReportFormat.PARQUET and file is None:
        raise typer.BadParameter("-o parquet needs --file: it is not for a terminal")
    moment = now()
    begin = moment - start
    with opened(url) as history:
        shares = history.shares(begin, moment, namespaces=namespace or None)
        rows = rows_of(sums(shares, by, since=begin, until=moment))
        gaps = history.gaps(begin)
    _note_gaps(gaps)
    if output is ReportFormat.PARQUET:
        assert file is not None, "asked for above"
        _write_parquet(rows, by, file)
        return
    if file is None:
        _print(rows, by, output)
        return
    with file.open("w", encoding="utf-8", newline="") as sink:
        _print(rows, by, output, sink)


def _note_gaps(gaps: Sequence[Gap]) -> None:
    for gap in gaps[-5:]:
        note(f"From {gap.since:%Y-%m-%d %H:%M} to {gap.until:%Y-%m-%d %H:%M} UTC: {gap.reason}.")
    if len(gaps) > 5:
        note(f"And {len(gaps) - 5} earlier gaps.")


def _print(rows: Sequence[ReportRow], by: Sequence[str], output: ReportFormat, sink: Any = None) -> None:
    from contextlib import redirect_stdout

    with redirect_stdout(sink or sys.stdout):
        if output is ReportFormat.JSON:
            print_document({"items": [row.fields(by) for row in rows]}, Format.JSON)
        elif output is ReportFormat.CSV:
            _print_csv(rows, by)
        elif not rows:
            note("Nothing was recorded in this time.")
        else:
            _print_table(rows, by)


def _print_csv(rows: Sequence[ReportRow], by: Sequence[str]) -> None:
    import csv

    from multikueue_console.history.report import MEASURES

    writer = csv.DictWriter(sys.stdout, [*by, *MEASURES], lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _harmless(value) for name, value in row.fields(by).items()})


def _harmless(value: Any) -> Any:
    """A name that a spreadsheet would take for a formula, as text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _print_table(rows: Sequence[ReportRow], by: Sequence[str]) -> None:
    titles = (*by, "ended", "failed", "evicted", "preempted", "mean wait", "longest wait", "cpu hours", "gpu hours")
    cells = [
        (
            *row.group,
            *(str(number) for number in (row.ended, row.failed, row.evicted, row.preempted)),
            _wait(row.wait_mean),
            _wait(row.wait_max),
            f"{row.cpu_hours:.1f}",
            f"{row.gpu_hours:.1f}",
        )
        for row in rows
    ]
    print_table([Column(title.upper()) for title in titles], cells, Format.TABLE)


def _wait(seconds: float | None) -> str:
    return "" if seconds is None else since(timedelta(seconds=seconds))


def _write_parquet(rows: Sequence[ReportRow], by: Sequence[str], file: Path) -> None:
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise CommandFailed("-o parquet needs pyarrow: pip install 'multikueue-console[parquet]'") from None
    from multikueue_console.history.report import MEASURES

    whole = {"ended", "failed", "evicted", "preempted"}
    columns = [
        *((name, arrow.string()) for name in by),
        *((name, arrow.int64() if name in whole else arrow.float64()) for name in MEASURES),
    ]
    table = arrow.Table.from_pylist([row.fields(by) for row in rows], schema=arrow.schema(columns))
    parquet.write_table(table, file)
