"""Recordings of a console, as asciinema reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from multikueue_simulator.demo.screen.cast import console


def test_what_is_shown_is_kept_with_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([10.0, 11.5, 12.0, 12.5, 13.0, 13.5])
    with console(tmp_path / "demo.cast", clock=lambda: next(times)) as screen:
        screen.print("one")
    head, *frames = [json.loads(line) for line in (tmp_path / "demo.cast").read_text().splitlines()]
    assert (head["version"], head["width"]) == (2, screen.width)
    assert frames[0] == [1.5, "o", "one\r\n"]
    assert capsys.readouterr().out == "one\n"


def test_without_a_file_nothing_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    with console(None) as screen:
        screen.print("one")
    assert capsys.readouterr().out == "one\n"
