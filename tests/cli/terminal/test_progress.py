"""What turns while something takes its time, and that a pipe has nothing of it."""

from __future__ import annotations

import io
import sys
from datetime import timedelta

import anyio
import anyio.lowlevel
import pytest

from multikueue.cli.terminal import progress
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.progress import spinner

pytestmark = pytest.mark.anyio


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_on_a_terminal_it_turns_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "SPINNER_AFTER", timedelta())
    monkeypatch.setattr(progress, "SPINNER_STEP", timedelta())

    async with spinner("checking 2 clusters"):
        while "/ checking 2 clusters 0s" not in screen.getvalue():
            await anyio.lowlevel.checkpoint()

    assert screen.getvalue().endswith("\r\x1b[K")


async def test_what_is_quick_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)

    async with spinner("x"):
        await anyio.lowlevel.checkpoint()

    assert screen.getvalue() == ""


async def test_a_pipe_has_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    monkeypatch.setattr(progress, "SPINNER_AFTER", timedelta())

    async with spinner("x"):
        await anyio.sleep(0.02)

    assert pipe.getvalue() == ""


async def test_an_error_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())

    with pytest.raises(ExceptionGroup) as raised:
        async with spinner("x"):
            raise CommandFailed("no")

    assert isinstance(raised.value.exceptions[0], CommandFailed)
