"""Where log lines go: a file that never blocks the code that logs, and never raises.

A full disk, a pipe whose reader is gone or one that is not read must not hold up dispatch. Lines wait for a thread of
their own; what cannot be written, or does not fit any more, is dropped and counted.
"""

from __future__ import annotations

import atexit
import os
import queue
import select
import sys
import threading
import time

__all__ = ["MOST_WAITING", "STDERR", "LogSink"]

MOST_WAITING = 4 * 2**20
"""Bytes of lines that wait to be written: some 20,000 lines."""

_AT_EXIT = 1.0
"""Seconds for which the end of the process waits for lines that are not written yet."""


class LogSink:
    """The lines on their way to a file descriptor, as a binary file with `write` and `flush`. `dropped` counts the lines
    that were lost."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._put = self._taken = 0  # bytes; each is written by one thread alone
        self._full, self._refused = 0, 0
        self._is_torn = False
        self._thread: threading.Thread | None = None

    @property
    def dropped(self) -> int:
        return self._full + self._refused

    def write(self, line: bytes) -> int:
        """Takes one whole line, with its end. Callers take turns, as structlog's loggers of one file do."""
        if self._put - self._taken + len(line) > MOST_WAITING:
            self._full += 1
            return len(line)
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_out, name="log", daemon=True)
            self._thread.start()
            atexit.register(self.drain)
        self._put += len(line)
        self._lines.put(line)
        return len(line)

    def flush(self) -> None:
        """Nothing: lines are written as soon as they can be."""

    def drain(self, seconds: float = _AT_EXIT) -> None:
        """Waits until all lines are written, for so many seconds at most."""
        end = time.monotonic() + seconds
        while self._taken < self._put and time.monotonic() < end:
            time.sleep(0.001)

    def _write_out(self) -> None:
        while True:
            line = self._lines.get()
            try:
                self._write_one(line)
            except OSError:  # the next line is tried again: a disk has space again, a pipe another reader
                self._refused += 1
            self._taken += len(line)

    def _write_one(self, line: bytes) -> None:
        rest = b"\n" + line if self._is_torn else line
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except BlockingIOError:  # another process that shares the file has made it non-blocking
                select.select((), (self._descriptor,), (), 1)
                continue
            self._is_torn = written < len(rest)
            rest = rest[written:]


STDERR = LogSink(2 if sys.stderr is not None else -1)
"""The log of this process. If it was started without standard error, the next socket has the number 2: all is dropped."""
