"""A watch of jobs: each change is a row."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from multikueue.cli.access.connection import ContextChoice
from multikueue.cli.commands.workloads.rows import Selection
from multikueue.cli.commands.workloads.watching import watch_jobs
from multikueue.cli.terminal.formats import Format
from testbed.client import eventually
from testbed.objects import JOB, MULTIKUEUE_CLUSTER
from tests.cli.field import Field


@pytest.mark.anyio
async def test_a_watch_aligns_what_is_there_at_first(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "a-much-longer-name"):
        await field.submit(name)
    lines = list[str]()

    async def both() -> bool:
        lines.extend(capsys.readouterr().out.splitlines())
        return len(lines) == 2

    everything = Selection()
    async with anyio.create_task_group() as tasks:
        to = ContextChoice(field.kubeconfig, None)
        tasks.start_soon(partial(watch_jobs, to, None, everything, Format.TABLE, has_headers=False))
        await eventually(both)
        tasks.cancel_scope.cancel()

    assert len({line.index("Pending") for line in lines}) == 1


@pytest.mark.anyio
async def test_each_change_is_a_row_until_it_is_none_of_those_meant(
    field: Field, capsys: pytest.CaptureFixture[str]
) -> None:
    told = list[list[str]]()

    async def seen(number: int) -> None:
        async def yet() -> bool:
            told.extend(line.split() for line in capsys.readouterr().out.splitlines())
            return len(told) >= number

        await eventually(yet)

    choice = Selection(status="Starting")
    await field.submit("train")
    async with anyio.create_task_group() as tasks:
        to = ContextChoice(field.kubeconfig, None)
        tasks.start_soon(partial(watch_jobs, to, None, choice, Format.TABLE, has_headers=False))
        await field.submit("other")
        await field.runs_on("train", "worker1")
        await seen(1)
        await field.leaves("train")
        await seen(2)
        tasks.cancel_scope.cancel()

    assert [(row[0], row[1]) for row in told] == [("job/train", "Starting"), ("job/train", "Pending")]


@pytest.mark.anyio
async def test_a_watch_tells_when_the_first_pod_is_ready_and_when_the_worker_is_away(
    field: Field, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither changes the Workload. What does not change a row is not told."""
    told = list[str]()

    async def reads(state: str) -> None:
        async def yet() -> bool:
            told.extend(line.split()[1] for line in capsys.readouterr().out.splitlines())
            return told[-1:] == [state]

        await eventually(yet)

    await field.submit("train")
    await field.runs_on("train", "worker1")
    async with anyio.create_task_group() as tasks:
        to = ContextChoice(field.kubeconfig, None)
        tasks.start_soon(partial(watch_jobs, to, None, Selection(), Format.TABLE, has_headers=False))
        await reads("Starting")
        await field.manager.patch_status(JOB, "train", {"active": 1, "ready": 1}, "default")
        await reads("Running")
        condition = {"type": "Active", "status": "False", "reason": "Away", "message": "no answer"}
        since = {"lastTransitionTime": "2026-01-01T12:00:00Z"}
        await field.manager.patch_status(MULTIKUEUE_CLUSTER, "worker1", {"conditions": [condition | since]})
        await reads("Unknown")
        tasks.cancel_scope.cancel()

    assert told == ["Starting", "Running", "Unknown"]
