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
from multikueue.cli.terminal.progress import conclude, each, spinner

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


async def test_one_that_fails_keeps_no_other_from_it(capsys: pytest.CaptureFixture[str]) -> None:
    async def double(number: int) -> int:
        await anyio.lowlevel.checkpoint()
        if number == 2:
            raise CommandFailed("not two")
        return 2 * number

    answers, failures = await each("doubling", [3, 2, 1], double)

    assert (answers, [str(error) for error in failures]) == ([6, 2], ["not two"])
    with pytest.raises(ExceptionGroup, match="not done") as group:
        conclude("doubled", len(answers), failures)
    assert list(group.value.exceptions) == failures
    assert capsys.readouterr().err == "2 of 3 workers doubled.\n"


def test_work_on_one_thing_needs_no_summary(capsys: pytest.CaptureFixture[str]) -> None:
    conclude("doubled", 1, [])

    assert capsys.readouterr().err == ""


ESTIMATES = {
    "nothing is done yet": ((0, 10, 60.0), ""),
    "half is done": ((5, 10, 600.0), ", about 10m left"),
    "it is soon over": ((9, 10, 18.0), ""),
    "it is over": ((10, 10, 600.0), ""),
}


@pytest.mark.parametrize(("seen", "words"), ESTIMATES.values(), ids=ESTIMATES)
def test_the_rest_takes_as_long_as_what_is_done_did(seen: tuple[int, int, float], words: str) -> None:
    assert progress.estimate(*seen) == words
