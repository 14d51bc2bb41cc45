from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import select
from time import monotonic

import anyio
import pytest
from rich.cells import cell_len

from multikueue.api.kinds import WORKLOADS
from multikueue.api.meta import ObjectKey
from multikueue_console.commands.top import OwnCommands
from tests.cli.conftest import World
from tests.console.history.lives import running

PATIENCE = 40.0


class Terminal:
    """The program on a pseudo-terminal of that size."""

    def __init__(self, process: subprocess.Popen[bytes], file: int) -> None:
        self.process, self._file, self.seen = process, file, b""

    def wait_for(self, text: bytes) -> None:
        deadline = monotonic() + PATIENCE
        while text not in self.seen:
            assert monotonic() < deadline, self.seen[-2000:]
            self._read()

    def end(self) -> int:
        """The exit code, once it has ended by itself."""
        deadline = monotonic() + PATIENCE
        while (code := self.process.poll()) is None:
            assert monotonic() < deadline, self.seen[-2000:]
            self._read()
        return code

    def _read(self) -> None:
        """What is written must be read, or the program waits."""
        if select([self._file], [], [], 0.1)[0]:
            with suppress(OSError):  # it has closed its side
                self.seen += os.read(self._file, 65536)

    def press(self, keys: bytes) -> None:
        os.write(self._file, keys)


@contextmanager
def on_terminal(columns: int, rows: int, *words: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    command = [sys.executable, "-m", "multikueue", "top", *words]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            yield Terminal(process, ours)
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.parametrize("size", [(80, 24), (240, 60)], ids=["80x24", "240x60"])
def test_it_runs_on_a_terminal(size: tuple[int, int], world: World) -> None:
    world.manager.add(WORKLOADS, running("bert").build())
    with on_terminal(*size, "-n", "team") as terminal:
        terminal.wait_for(b"bert")
        terminal.press(b":")
        terminal.wait_for(b"workloads or quit")
        terminal.press(b"quit")
        terminal.press(b"\r")
        assert terminal.end() == 0
    ends = list(drawn_to(terminal.seen.decode()))
    assert max(row for row, _ in ends) == size[1]
    assert max(column for _, column in ends) == size[0]


def drawn_to(written: str) -> Iterator[tuple[int, int]]:
    """The row and the last column of each piece that follows a move of the cursor."""
    moves = re.split(r"\x1b\[(\d+);(\d+)H", written)[1:]
    for row, column, piece in zip(moves[::3], moves[1::3], moves[2::3], strict=True):
        words = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>])", "", piece)
        yield int(row), int(column) - 1 + cell_len(words)


def test_it_needs_a_terminal(world: World) -> None:
    words = [sys.executable, "-m", "multikueue", "top"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=os.environ)
    assert done.returncode == 1
    assert "needs a terminal" in done.stderr


def test_keys_do_what_the_commands_do_with_the_same_kubeconfig(tmp_path: Path) -> None:
    commands = OwnCommands(tmp_path / "none", "somewhere")

    async def call() -> tuple[list[str], str]:
        key = ObjectKey("team", "train")
        return [line async for line in commands.logs(key)], await commands.act("hold", key)

    lines, told = anyio.run(call)
    assert any("none" in line for line in lines), lines
    assert "none" in told
