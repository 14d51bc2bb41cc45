"""A console, and a recording of what it shows: asciicast version 2, as `asciinema play` takes it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NoReturn, TextIO, cast

from rich.console import Console

__all__ = ["console"]


class _Screen(Console):
    """Raises BrokenPipeError for a closed output, as other streams do, so that the command decides how to end."""

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


@contextmanager
def console(record: Path | None, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Console]:
    """A console on stdout, recorded to a file if one is given. Raises OSError if the file cannot be written."""
    if record is None:
        yield _Screen()
        return
    with record.open("w", encoding="utf-8") as file:
        tape = Tape(sys.stdout, file, clock)
        screen = _Screen(file=cast(IO[str], tape))
        tape.begin(screen.width, screen.height)
        yield screen


class Tape:
    """A text stream that copies its output to a file, with times."""

    def __init__(self, stream: TextIO, file: TextIO, clock: Callable[[], float]) -> None:
        self._stream, self._file, self._clock = stream, file, clock
        self._began = clock()

    @property
    def encoding(self) -> str:
        return self._stream.encoding

    def begin(self, width: int, height: int) -> None:
        self._keep({"version": 2, "width": width, "height": height})

    def write(self, text: str) -> int:
        # In raw mode, which players use, a line feed does not return to the first column.
        shown = text.replace("\r\n", "\n").replace("\n", "\r\n")
        self._keep([round(self._clock() - self._began, 6), "o", shown])
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def _keep(self, line: object) -> None:
        self._file.write(json.dumps(line) + "\n")
