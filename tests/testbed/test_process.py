"""Programs that run beside us."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from testbed.process import Process, ProgramError

SLEEP = "import time; time.sleep(60)"


def _python(code: str, folder: Path) -> Process:
    return Process("snake", [sys.executable, "-S", "-c", code], log=folder / "snake.log")


async def _never() -> bool:
    return False


@pytest.mark.anyio
async def test_a_program_that_ends_early_shows_the_end_of_its_log(tmp_path: Path) -> None:
    process = _python("print('my port is taken')", tmp_path)
    process.start()
    with pytest.raises(ProgramError, match=r"ended before it was ready(.|\n)*my port is taken"):
        await process.wait_until(_never, timeout=10)


@pytest.mark.anyio
async def test_a_program_that_takes_too_long_fails(tmp_path: Path) -> None:
    process = _python(SLEEP, tmp_path)
    process.start()
    with pytest.raises(ProgramError, match="was not ready after"):
        await process.wait_until(_never, timeout=0.1)
    await process.kill()
    assert not process.running


@pytest.mark.anyio
async def test_what_an_earlier_start_said_is_not_the_tail_of_this_one(tmp_path: Path) -> None:
    process = _python("print('ready')", tmp_path)
    process.start()
    with pytest.raises(ProgramError):
        await process.wait_until(_never, timeout=10)
    process.argv[-1] = SLEEP
    process.start()
    assert process.tail() == ""
    assert process.log.read_text() == "ready\n"
    await process.kill()


def test_a_program_outlives_the_event_loop_that_started_it(tmp_path: Path) -> None:
    process = _python(SLEEP, tmp_path)

    async def start() -> None:
        process.start()

    anyio.run(start)
    assert process.running
    anyio.run(process.stop)
    assert not process.running


def test_no_program_outlives_us(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys, time\n"
        "from testbed.process import Process\n"
        f"process = Process('snake', [sys.executable, '-c', {SLEEP!r}], log=pathlib.Path({str(tmp_path)!r}) / 'log')\n"
        "process.start()\n"
        "print(process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        parent.kill()
    deadline = time.monotonic() + 5
    while _is_alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_alive(child)


def _is_alive(process: Path) -> bool:
    try:
        return "\nState:\tZ" not in (process / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
