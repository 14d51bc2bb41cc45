"""A program submits, waits, asks and cancels."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from multikueue.client import AsyncMultiKueue, container_job
from multikueue.errors import MultiKueueError
from testbed.client import Client
from testbed.objects import JOB
from tests.client.conftest import TEAM

pytestmark = pytest.mark.anyio

HELLO = container_job("x", "echo", name="hello", cpu="1")


@pytest.mark.usefixtures("manager")
async def test_a_job_is_submitted_runs_and_ends() -> None:
    async with AsyncMultiKueue(namespace=TEAM) as clusters:
        job = await clusters.submit(HELLO, queue="main")

        assert (job.name, job.namespace) == ("job/hello", TEAM)
        assert await job.wait(timeout=50) == 0
        assert (await job.status()).state == "Finished"
        assert await job.where() in ("worker1", "worker2")
        assert await job.logs(tail=5)


async def test_a_job_that_waits_says_why_and_can_be_cancelled(manager: Client, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(container_job("x", name="huge", cpu="9")))
    async with AsyncMultiKueue(namespace=TEAM) as clusters:
        job = await clusters.submit(file, queue="main")

        with pytest.raises(TimeoutError):
            await job.wait(timeout=1)
        told = await job.status()
        assert told.state == "Pending"
        assert told.obstacles
        assert (await job.where(), await job.logs()) == ("", "")
        await clusters.job("huge").cancel()

    assert await manager.list(JOB, TEAM) == []


@pytest.mark.usefixtures("manager")
async def test_what_cannot_be_submitted_is_an_error_that_says_why(tmp_path: Path) -> None:
    two = tmp_path / "two.yaml"
    two.write_text(yaml.safe_dump_all([HELLO, HELLO]))
    async with AsyncMultiKueue(namespace=TEAM) as clusters:
        for job, queue, why in (
            (HELLO, "", "names no queue"),
            (HELLO, "mane", "there is no LocalQueue 'mane'"),
            ({"apiVersion": "v1", "kind": "ConfigMap"}, "main", "is no job"),
            (two, "main", "expected one job, got 2 objects"),
        ):
            with pytest.raises(MultiKueueError, match=why):
                await clusters.submit(job, queue=queue)
        with pytest.raises(MultiKueueError, match="there is no workload 'nonesuch'"):
            await clusters.job("nonesuch").wait()


async def test_it_is_used_in_a_block() -> None:
    with pytest.raises(RuntimeError, match="async with"):
        AsyncMultiKueue().job("x")
