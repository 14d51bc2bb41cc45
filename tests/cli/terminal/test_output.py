from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from multikueue.cli.terminal.formats import Format
from multikueue.cli.terminal.output import (
    Column,
    PrintedList,
    Ticker,
    age,
    note,
    one_line,
    print_facts,
    print_items,
    since,
)

ITEM = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"z": 1, "a": "ä"}}
THINGS = PrintedList(
    columns=(Column("NAME"), Column("CONNECTED"), Column("MESSAGE", is_wide=True)),
    rows=[("a", "True", "all is\nwell [bold]"), ("longer-name", "False", "")],
    items=[ITEM],
    resource="thing.example",
    nothing="No things found.",
)
NONE = PrintedList(columns=THINGS.columns, rows=[], items=[], resource="thing.example", nothing="No things found.")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_aligned_columns_without_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(THINGS, Format.TABLE)

    assert capsys.readouterr().out == "NAME          CONNECTED\na             True\nlonger-name   False\n"


def test_wide_has_all_columns_and_one_line_for_each_row(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(THINGS, Format.WIDE)

    assert capsys.readouterr().out.splitlines()[1:] == [
        "a             True        all is well [bold]",
        "longer-name   False       -",
    ]


@pytest.mark.parametrize("colour", [True, False], ids=["in colour", "NO_COLOR"])
def test_a_terminal_gets_colours_unless_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch, colour: bool) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")

    print_items(THINGS, Format.WIDE)
    print_facts("Thing a", [("Size", "")])

    shown = screen.getvalue()
    assert ("\x1b[32m" in shown) is colour
    assert "all is well [bold]" in shown
    assert "Size:  -" in shown


def test_a_narrow_terminal_breaks_lines_itself_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, url = Terminal(), "https://a-long-name.example.com:6443/with/a/path"
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("COLUMNS", "20")
    listing = PrintedList(
        columns=(Column("NAME"), Column("URL")), rows=[("a", url)], items=[ITEM], resource="x", nothing=""
    )

    print_items(listing, Format.TABLE)

    assert url in screen.getvalue()
    assert len(screen.getvalue().splitlines()) == 2


def test_no_colours_where_the_terminal_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setenv("TERM", "dumb")

    print_items(THINGS, Format.TABLE)

    assert "\x1b" not in screen.getvalue()


def test_programs_get_whole_objects(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(THINGS, Format.JSON)
    assert json.loads(capsys.readouterr().out) == {"apiVersion": "v1", "kind": "List", "items": [ITEM]}

    print_items(THINGS, Format.YAML)
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["items"] == [ITEM]
    assert "ä" in text
    assert text.index("z:") < text.index("a: ä")

    print_items(THINGS, Format.NAME)
    assert capsys.readouterr().out == "thing.example/a\n"


def test_nothing_is_a_sentence_for_people_and_an_empty_list_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    print_items(NONE, Format.TABLE)
    people = capsys.readouterr()
    print_items(NONE, Format.JSON)
    programs = capsys.readouterr()

    assert (people.out, people.err) == ("", "No things found.\n")
    assert json.loads(programs.out)["items"] == []
    assert programs.err == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("null\x00", r"null\x00"),
        ("left\u202eright", r"left\u202eright"),
        ("two\r\n  lines", "two lines"),
        ("Wörter, 語, 🙂", "Wörter, 語, 🙂"),
        ("", ""),
    ],
    ids=["ESC", "CSI in one character", "null", "another direction", "line breaks", "letters stay", "nothing"],
)
def test_one_line_has_nothing_a_terminal_obeys(text: str, shown: str) -> None:
    assert one_line(text) == shown


def test_what_people_see_has_nothing_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "\x1b]0;mine\x07"
    item = {"metadata": {"name": evil}}
    listing = PrintedList(columns=(Column("NAME"),), rows=[(evil,)], items=[item], resource="thing", nothing="")

    print_items(listing, Format.TABLE)
    print_items(listing, Format.NAME)
    print_facts(f"Thing {evil}", [(evil, f"{evil}\nFaked:  line")])
    note(f"{evil}\nnext")
    seen = capsys.readouterr()

    safe = r"\x1b]0;mine\x07"
    assert seen.out.splitlines() == ["NAME", safe, f"thing/{safe}", f"Thing {safe}", f"  {safe}:  {safe} Faked: line"]
    assert seen.err == f"{safe}\nnext\n"

    print_items(listing, Format.JSON)
    assert json.loads(capsys.readouterr().out)["items"] == [item]


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(seconds=-5), "0s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(seconds=120), "2m"),
        (timedelta(minutes=3, seconds=12), "3m12s"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=3, minutes=5), "3h5m"),
        (timedelta(hours=47), "47h"),
        (timedelta(days=2, hours=4), "2d4h"),
        (timedelta(days=30), "30d"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_durations_are_short(duration: timedelta, text: str) -> None:
    assert since(duration) == text


def test_ages() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    assert age(now - timedelta(hours=10), now) == "10h"
    assert age(None, now) == "<unknown>"


def test_rows_that_are_there_at_first_are_aligned_together(capsys: pytest.CaptureFixture[str]) -> None:
    ticker = Ticker(THINGS.columns, Format.TABLE)
    ticker.flush()
    for row in (("a", "True", "hidden"), ("longer-name", "", "")):
        ticker.add(row)
    assert capsys.readouterr().out == ""

    ticker.flush()

    assert capsys.readouterr().out == "NAME          CONNECTED\na             True\nlonger-name   -\n"


def test_a_later_row_is_as_wide_as_those_before(capsys: pytest.CaptureFixture[str]) -> None:
    ticker = Ticker(THINGS.columns, Format.TABLE)
    for row in (("longer-name", "", ""), ("b", "True\n", "")):
        ticker.add(row)
        ticker.flush()

    assert capsys.readouterr().out == "NAME          CONNECTED\nlonger-name   -\nb             True\n"
