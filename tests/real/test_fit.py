"""What fits no worker: it says so, does not hold up what fits, and runs once a worker has enough."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import anyio.to_thread
import pytest

from testbed.bed import Testbed
from testbed.client import eventually
from testbed.kubeconfig import dump
from testbed.objects import CLUSTER_QUEUE
from tests.real.harness import EVENT, Manager, Team, complaints
from tests.real.test_capacity import have

pytestmark = [pytest.mark.anyio, pytest.mark.real, pytest.mark.timeout(120), pytest.mark.usefixtures("calm")]

FITS_NO_WORKER = "multikueue.dev/FitsNoWorker"


@pytest.fixture(scope="module")
def manager_settings() -> dict[str, str]:
    """It looks often, and its back-off is longer than a test."""
    return {"CAPACITY_FOLLOW__INTERVAL": "200ms", "QUOTA__REQUEUE_FIRST": "10m"}


async def small(crew: Team) -> None:
    """Workers of 4 cores each behind a queue of 12."""
    for worker in crew.clients:
        await have(crew, worker, "4")
    queue = await crew.manager.get(CLUSTER_QUEUE, crew.namespace)
    groups = queue["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = "12"
    assert groups[0]["flavors"][0]["resources"][0]["name"] == "cpu"
    await crew.manager.patch(CLUSTER_QUEUE, crew.namespace, {"spec": {"resourceGroups": groups}})


async def parked(crew: Team, *names: str) -> None:
    """They fit no worker, and have given their quota back."""

    async def given_back() -> bool:
        for name in names:
            assert await crew.is_true(FITS_NO_WORKER, name)
            assert not await crew.is_true("QuotaReserved", name)
            assert await crew.copies(name) == {}
        return True

    await eventually(given_back, timeout=40)


async def why(bed: Testbed, crew: Team, folder: Path, *words: str) -> str:
    """What the program says, as an administrator of the manager cluster."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_bytes(dump(bed.manager.kubeconfig()))
    done = await anyio.to_thread.run_sync(
        partial(
            subprocess.run,
            [sys.executable, "-m", "multikueue", "why", "-n", crew.namespace, *words],
            env={**os.environ, "KUBECONFIG": str(kubeconfig)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    )
    assert done.returncode == 0, done.stderr
    return f"{done.stdout}{done.stderr}"


async def test_two_jobs_that_fit_no_worker_hold_nobody_up_and_run_once_one_fits(
    bed: Testbed, crew: Team, manager: Manager, tmp_path: Path
) -> None:
    await small(crew)
    for name in ("huge", "huge2"):
        await crew.submit(name, requests={"cpu": "6"})
    await parked(crew, "huge", "huge2")
    for name in ("a", "b"):
        await crew.submit(name, requests={"cpu": "4"})
        await crew.runs_on(name)

    workers = ", ".join(crew.cluster(worker) for worker in crew.clients)

    async def said() -> bool:
        """Also if a worker was out of reach for a moment, and the workload was tried again."""
        condition = await crew.condition(FITS_NO_WORKER, "huge")
        message = condition["message"] if condition is not None else ""
        return message.startswith("cpu 6 of 4 at most in flavor ") and message.endswith(f": {workers}")

    await eventually(said)
    events = [
        event["involvedObject"]["name"]
        for event in await crew.manager.list(EVENT, crew.namespace)
        if event["reason"] == "FitsNoWorker" and event["involvedObject"]["kind"] == "Workload"
    ]
    assert set(events) == {(await crew.workload(name))["metadata"]["name"] for name in ("huge", "huge2")}

    told = await why(bed, crew, tmp_path, "huge")
    assert told.splitlines()[0].startswith("Pending: no worker can ever hold it: cpu 6 of 4 at most in flavor ")
    assert all(crew.cluster(worker) in told for worker in crew.clients)

    for name in ("a", "b"):
        await crew.complete(await crew.winner(name), name)
        await crew.finished(name)
    *_, last = crew.clients
    await have(crew, last, "12")
    assert await crew.runs_on("huge", timeout=40) == last

    async def is_forgotten() -> bool:
        """With the record of the win, which comes after the winner's job."""
        return await crew.condition(FITS_NO_WORKER, "huge") is None

    await eventually(is_forgotten)
    assert complaints(manager) == []
