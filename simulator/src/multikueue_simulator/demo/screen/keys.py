"""Keys of a terminal: raw while the block lasts, and as it was after it. Ctrl-C stays what it is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import IO

import anyio

__all__ = ["HELP", "is_keyboard", "keys_of", "pressed", "raw"]

HELP = "k kill  h hang  b burst  m kill manager  s strategy  w why  l logs  q end"
"""What the keys do; digits choose a worker, arrows a job. `k` and `h` pressed again bring the worker back."""

_SEQUENCES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down"}
_CHARACTERS = {b"\r": "enter", b"\n": "enter", b"\x1b": "escape"}


def is_keyboard(stream: IO[str]) -> bool:
    """Whether keys can be read from a stream one by one."""
    try:
        import termios
    except ImportError:  # not on Windows
        return False
    try:
        termios.tcgetattr(stream.fileno())
    except (OSError, ValueError, termios.error):
        return False
    return True


@contextmanager
def raw(descriptor: int) -> Iterator[None]:
    """The terminal gives each key at once and shows none, until the end of the block."""
    import termios
    import tty

    before = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSANOW, before)


async def pressed(descriptor: int) -> AsyncIterator[str]:
    """The names of the keys as they are pressed, until the terminal is gone."""
    while True:
        await anyio.wait_readable(descriptor)
        try:
            data = os.read(descriptor, 64)
        except OSError:
            return
        if not data:
            return
        for key in keys_of(data):
            yield key


def keys_of(data: bytes) -> Iterator[str]:
    """The names of the keys in what a terminal sent at once."""
    while data:
        sequence = next((each for each in (*_SEQUENCES, *_CHARACTERS) if data.startswith(each)), data[:1])
        data = data[len(sequence) :]
        yield _SEQUENCES.get(sequence) or _CHARACTERS.get(sequence) or sequence.decode("ascii", "replace")
