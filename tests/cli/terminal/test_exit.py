from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from multikueue.cli.terminal.exit import CommandFailed, ExitCode, reported
from multikueue.errors import ClusterUnreachable, ConfigurationError, Conflict, InvalidObject, MultiKueueError
from tests.cli.conftest import Result, Run


def ends(error: BaseException) -> int:
    def command() -> None:
        raise error

    return reported(command)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandFailed("no"), ExitCode.FAILED),
        (InvalidObject("a", "b", "c"), ExitCode.FAILED),
        (Conflict(409, "Conflict", "again"), ExitCode.FAILED),
        (ConfigurationError("no"), ExitCode.USAGE),
        (ClusterUnreachable("w1", "refused"), ExitCode.UNREACHABLE),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_error_is_one_line_and_a_code(
    error: MultiKueueError, code: ExitCode, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(error) == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_an_error_has_nothing_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    ends(Conflict(409, "Conflict", "\x1b[2J"))

    assert capsys.readouterr().err.endswith("\\x1b[2J\n")


def test_errors_of_many_tasks_are_told_once_each(capsys: pytest.CaptureFixture[str]) -> None:
    inner = ExceptionGroup("inner", [ClusterUnreachable("w1", "gone"), ClusterUnreachable("w1", "gone")])

    assert ends(ExceptionGroup("outer", [inner, CommandFailed("too")])) == ExitCode.UNREACHABLE
    assert capsys.readouterr().err.splitlines() == ["error: cluster w1 is unreachable: gone", "error: too"]


def test_a_defect_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        ends(ZeroDivisionError())
    with pytest.raises(ExceptionGroup):
        ends(ExceptionGroup("mixed", [ConfigurationError("no"), ZeroDivisionError()]))


OTHER_ENDS = [(SystemExit(), 0), (SystemExit(7), 7), (SystemExit("why"), 1), (KeyboardInterrupt(), 130)]


@pytest.mark.parametrize(("error", "code"), OTHER_ENDS)
def test_other_ends(error: BaseException, code: int) -> None:
    assert ends(error) == code


@pytest.mark.parametrize(("error", "code"), OTHER_ENDS)
def test_other_ends_within_tasks_are_the_same(error: BaseException, code: int) -> None:
    assert ends(BaseExceptionGroup("tasks", [error])) == code
    assert ends(BaseExceptionGroup("outer", [BaseExceptionGroup("tasks", [error])])) == code


def test_nothing_wrong_is_0() -> None:
    assert reported(lambda: None) == ExitCode.OK


PRINTS = "def command():\n    sys.stdin.read()\n    for _ in range(100_000):\n        print('x' * 100)\n"

PRINTS_IN_A_TASK = (
    "import anyio\n"
    "async def work():\n"
    "    sys.stdin.read()\n"
    "    for _ in range(100_000):\n"
    "        print('x' * 100)\n"
    "async def tasks():\n"
    "    async with anyio.create_task_group() as group:\n"
    "        group.start_soon(work)\n"
    "        group.start_soon(anyio.sleep_forever)\n"
    "def command():\n"
    "    anyio.run(tasks)\n"
)


PRINTS_A_LITTLE = "def command():\n    sys.stdin.read()\n    print('x')\n    raise SystemExit(0)\n"

COMPLAINS = (
    "from multikueue.errors import ConfigurationError\n"
    "def command():\n"
    "    sys.stdin.read()\n"
    "    os.dup2(1, 2)\n"
    "    raise ConfigurationError('no')\n"
)


@pytest.mark.parametrize(
    "command",
    [PRINTS, PRINTS_IN_A_TASK, PRINTS_A_LITTLE, COMPLAINS],
    ids=["by the command", "by a task", "so little that it waits for the end", "an error, into the same pipe"],
)
def test_a_reader_that_goes_away_is_no_drama(command: str) -> None:
    script = (
        f"import os, sys\nfrom multikueue.cli.terminal.exit import reported\n{command}sys.exit(reported(command))\n"
    )
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", script], stdin=-1, stdout=writer, stderr=-1) as child:
        os.close(writer)
        os.close(reader)
        _, said = child.communicate()

    assert (child.returncode, said) == (ExitCode.READER_GONE, b"")


@pytest.mark.parametrize("words", [("--help",), ("settings", "init")], ids=" ".join)
def test_a_command_into_a_closed_pipe_is_no_failure(words: tuple[str, ...]) -> None:
    """Unbuffered, each line meets the pipe within click, which makes an exit with 1 of it."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-u", "-m", "multikueue", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)

    assert (done.returncode, done.stderr) == (ExitCode.READER_GONE, b"")


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """`multikueue` in a line of a shell, for what it does with streams."""
    command = ["sh", "-c", line.replace("multikueue", f"exec {sys.executable} -m multikueue")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_nobody_wants_to_read_is_printed_nowhere() -> None:
    assert shell("multikueue version >&-").returncode == ExitCode.OK
    assert shell("multikueue nonsense 2>&-").returncode == ExitCode.USAGE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, as Linux has it")
def test_a_full_disk_is_one_line() -> None:
    done = shell("multikueue version > /dev/full")

    assert (done.returncode, done.stderr) == (ExitCode.FAILED, "error: [Errno 28] No space left on device\n")


class Interrupted(io.StringIO):
    def read(self, size: int | None = -1, /) -> str:
        raise KeyboardInterrupt


def test_ctrl_c_is_130_and_says_nothing(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Interrupted())

    assert cli("submit", "-f", "-") == Result(ExitCode.INTERRUPTED, out="", err="")
