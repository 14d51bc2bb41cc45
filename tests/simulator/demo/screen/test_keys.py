"""Keys of a terminal, on a pseudo-terminal: each is given at once, and the terminal is left as it was."""

from __future__ import annotations

import io
import os
import pty
import termios
from collections.abc import Iterator

import anyio
import pytest

from multikueue_simulator.demo.screen.keys import is_keyboard, keys_of, pressed, raw

pytestmark = pytest.mark.anyio


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    yield ours, theirs
    for each in (ours, theirs):
        os.close(each)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"kq", ["k", "q"]),
        (b"\x1b[A\x1b[B", ["up", "down"]),
        (b"\x1bOAx", ["up", "x"]),
        (b"\r\x1b", ["enter", "escape"]),
        (b"\xc3", ["\ufffd"]),
        (b"", []),
    ],
    ids=["letters", "arrows", "arrows of another terminal", "enter and escape", "no letter", "nothing"],
)
def test_keys_have_names(data: bytes, expected: list[str]) -> None:
    assert list(keys_of(data)) == expected


async def test_each_key_is_given_at_once_and_the_terminal_is_restored(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    before = termios.tcgetattr(theirs)
    with raw(theirs):
        assert not termios.tcgetattr(theirs)[3] & termios.ICANON
        assert termios.tcgetattr(theirs)[3] & termios.ISIG, "Ctrl-C stays what it is"
        os.write(ours, b"k")
        with anyio.fail_after(10):
            assert await anext(aiter(pressed(theirs))) == "k"
    assert termios.tcgetattr(theirs) == before


async def test_it_is_restored_after_an_error_too(terminal: tuple[int, int]) -> None:
    before = termios.tcgetattr(terminal[1])
    with pytest.raises(RuntimeError), raw(terminal[1]):
        raise RuntimeError
    assert termios.tcgetattr(terminal[1]) == before


def test_only_a_terminal_has_keys(terminal: tuple[int, int]) -> None:
    with os.fdopen(os.dup(terminal[1])) as stream:
        assert is_keyboard(stream)
    assert not is_keyboard(io.StringIO())
