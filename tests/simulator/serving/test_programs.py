"""Programs beside a served cluster: they come and go, and Kueue's webhooks with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from fakekube.model.wire import Object
from multikueue_simulator.serving.serve import Plan, Sandbox, Served
from multikueue_simulator.world import objects
from testbed.client import ApiError, Client, Kind, eventually
from testbed.objects import CLUSTER_QUEUE, JOB, condition

pytestmark = pytest.mark.anyio

WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration")


@pytest.fixture(name="sandbox")
async def _sandbox(tmp_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(Plan(workers=1, job_lasts=timedelta(hours=1)), folder=tmp_path) as sandbox:
        yield sandbox


@pytest.fixture(name="served")
def _served(sandbox: Sandbox) -> Served:
    return sandbox["worker1"]


@pytest.fixture(name="client")
async def _client(served: Served) -> AsyncIterator[Client]:
    async with Client(
        served.front_end.url, ca=served.front_end.ca, token=served.cluster.users.token("admin")
    ) as client:
        yield client


async def becomes_active(client: Client, name: str) -> None:
    await client.create(objects.cluster_queue(name, cpu=4))

    async def active() -> Object | None:
        return condition(await client.get(CLUSTER_QUEUE, name), "Active")

    await eventually(active)


def wrong_queue(name: str) -> Object:
    """What Kueue's webhook refuses, and its definition does not."""
    body = objects.cluster_queue(name, cpu=4)
    body["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] = "-1"
    return body


async def test_a_kueue_that_ended_begins_again_as_another(sandbox: Sandbox, served: Served, client: Client) -> None:
    for name in ("first", "second"):
        assert not served.kueue.running
        await sandbox.run(served.kueue)
        await sandbox.run(served.kueue)  # one that runs goes on
        await becomes_active(client, name)
        await served.kueue.stop()


async def test_its_webhooks_refuse_while_it_runs_and_fail_while_it_does_not(
    sandbox: Sandbox, served: Served, client: Client
) -> None:
    await sandbox.run(served.kueue)
    with pytest.raises(ApiError, match="must be greater than or equal to 0"):
        await client.create(wrong_queue("cq"))
    await served.kueue.stop()
    with pytest.raises(ApiError, match="failed calling webhook") as failed:
        await client.create(wrong_queue("cq"))
    assert failed.value.status == 500


async def test_a_removed_kueue_leaves_a_cluster_without_webhooks(
    sandbox: Sandbox, served: Served, client: Client
) -> None:
    await sandbox.run(served.kueue)
    assert len(await client.list(WEBHOOKS)) == 1
    await served.kueue.remove()
    assert await client.list(WEBHOOKS) == []
    await client.create(wrong_queue("cq"))
    await served.kueue.remove()  # nothing is there to take away


async def test_jobs_run_as_long_as_they_were_told_to(sandbox: Sandbox, served: Served, client: Client) -> None:
    long, short = (objects.job(name, "default", queue=None, managed=False, seconds=0.1) for name in ("long", "short"))
    del long["metadata"]["annotations"]
    for body in (long, short):
        body["spec"]["suspend"] = False
        await client.create(body)
    await sandbox.run(served.jobs)

    async def is_over() -> bool:
        return condition(await client.get(JOB, "short", "default"), "Complete") is not None

    await eventually(is_over)
    assert (await client.get(JOB, "long", "default"))["status"]["active"] == 1
    await served.jobs.stop()
    assert not served.jobs.running
