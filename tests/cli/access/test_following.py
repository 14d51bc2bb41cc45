"""Commands that go on until somebody ends them, each a process with pipes: its reader goes away, or there is a Ctrl-C."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from subprocess import PIPE, Popen
from typing import Any

import anyio
import anyio.to_thread
import pytest

from multikueue.cli.terminal.exit import ExitCode
from testbed.objects import local_queue, multikueue_cluster
from tests.cli.field import Field

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]  # seven programs start at a time, on a busy machine too

LONGEST = 60
"""Seconds for an end that comes at once."""

REMARKS = {
    "workloads list -w": "",
    "jobs list -w": "",
    "queues list -w": "",
    "clusters list -w": "",
    "logs -f train": "workload default/job-train is on worker1\n",
    "pods -w train": "",
    "events -w train": "",
}
"""What each command says on stderr while it works. Its end adds nothing."""

Programs = dict[str, Popen[bytes]]


@pytest.fixture(autouse=True)
def _interruptible() -> Iterator[None]:
    """A shell's background job ignores SIGINT, and its programs would, too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


async def something_new(field: Field, name: str, copy: dict[str, Any]) -> None:
    """A change that each of the commands prints."""
    await field.submit(name)
    await field.manager.create(local_queue(name, "default", cluster_queue="shared"))
    await field.manager.create(multikueue_cluster(name, secret=name))
    await field.pod("worker1", name, copy)
    await field.tell("worker1", copy, name, "2026-01-01T12:00:00Z")


@asynccontextmanager
async def at_work(field: Field) -> AsyncIterator[tuple[Programs, dict[str, Any]]]:
    """All of the commands, each with its first lines in the pipe, and the copy of the job that they show."""
    await field.submit("train")
    await field.runs_on("train", "worker1")
    copy = await field.copy("worker1", "train")
    await something_new(field, "first", copy)
    with ExitStack() as stack:
        programs = {words: started(stack, words) for words in REMARKS}
        for program in programs.values():
            assert program.stdout
            await anyio.wait_readable(program.stdout)
        yield programs, copy


def started(stack: ExitStack, words: str) -> Popen[bytes]:
    program = stack.enter_context(Popen([sys.executable, "-m", "multikueue", *words.split()], stdout=PIPE, stderr=PIPE))
    stack.callback(program.kill)
    return program


async def ends(programs: Programs) -> dict[str, tuple[int, str]]:
    """The exit code and the stderr of each."""
    found = {}
    for words, program in programs.items():
        _, err = await anyio.to_thread.run_sync(program.communicate, None, LONGEST)
        found[words] = program.returncode, err.decode()
    return found


async def test_each_ends_quietly_when_its_reader_has_gone(field: Field) -> None:
    async with at_work(field) as (programs, copy):
        for program in programs.values():
            assert program.stdout
            program.stdout.close()
        await something_new(field, "second", copy)

        assert await ends(programs) == {words: (ExitCode.READER_GONE, said) for words, said in REMARKS.items()}


async def test_each_ends_quietly_by_ctrl_c(field: Field) -> None:
    async with at_work(field) as (programs, _):
        for program in programs.values():
            program.send_signal(signal.SIGINT)

        assert await ends(programs) == {words: (ExitCode.INTERRUPTED, said) for words, said in REMARKS.items()}
