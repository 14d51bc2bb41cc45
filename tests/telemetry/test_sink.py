"""The log's way out: nothing that becomes of its file holds up or breaks whoever logs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from multikueue.telemetry.sink import MOST_WAITING, LogSink

LINE = b"x" * 1023 + b"\n"
DRAIN = 20.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


def test_lines_arrive_whole_and_in_order(tmp_path: Path) -> None:
    file = tmp_path / "log"
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    sink = LogSink(descriptor)
    expected = [b"%d\n" % n for n in range(1000)]
    for line in expected:
        sink.write(line)
    sink.drain(DRAIN)
    os.close(descriptor)
    assert file.read_bytes().splitlines(keepends=True) == expected
    assert sink.dropped == 0


def test_a_pipe_that_nobody_reads_blocks_nobody(pipe: tuple[int, int]) -> None:
    there, here = pipe
    sink = LogSink(here)
    for _ in range(2 * MOST_WAITING // len(LINE)):
        sink.write(LINE)
    assert sink.dropped > 0
    read = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(there, 2**16), b"")])
    read.start()
    sink.drain(DRAIN)  # what fitted is not lost
    os.close(here)
    read.join()


def test_a_reader_that_is_gone_breaks_nothing(pipe: tuple[int, int]) -> None:
    there, here = pipe
    os.close(there)
    sink = LogSink(here)
    for _ in range(3):
        sink.write(LINE)
    sink.drain(DRAIN)
    assert sink.dropped == 3


def test_a_file_that_others_made_non_blocking_loses_nothing(pipe: tuple[int, int]) -> None:
    there, here = pipe
    os.set_blocking(here, False)
    sink = LogSink(here)
    for _ in range(300):  # more than a pipe holds
        sink.write(LINE)
    got = b""
    while len(got) < 300 * len(LINE):
        got += os.read(there, 2**16)
    assert got == LINE * 300
    assert sink.dropped == 0


def test_a_line_after_a_torn_one_begins_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle of a line, and has space again."""
    written, room = bytearray(), [5]

    def write(_descriptor: int, data: bytes) -> int:
        if not room[0]:
            room[0] = 100
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(room[0], len(data))
        room[0] -= taken
        written.extend(data[:taken])
        return taken

    monkeypatch.setattr(os, "write", write)
    sink = LogSink(-1)
    sink.write(b"first line\n")
    sink.write(b"second line\n")
    sink.drain(DRAIN)
    assert bytes(written) == b"first\nsecond line\n"
    assert sink.dropped == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("target", ["/dev/full", "a closed descriptor"])
def test_a_process_logs_and_goes_on_whatever_its_standard_error_is(target: str) -> None:
    program = (
        "import structlog; from multikueue.settings import Log; from multikueue.telemetry import logs, sink\n"
        "logs.configure(Log(format='json')); log = structlog.get_logger()\n"
        "[log.warning('a.b', n=n) for n in range(10)]; sink.STDERR.drain(20); print(sink.STDERR.dropped)"
    )
    command = [sys.executable, "-c", program]
    if target == "/dev/full":
        with open(target, "wb") as full:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, check=True)
    else:
        done = subprocess.run(["sh", "-c", 'exec "$0" "$@" 2>&-', *command], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"10\n"
