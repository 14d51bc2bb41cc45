"""A manager and two workers over HTTPS, on which jobs last a moment, and a kubeconfig for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import anyio
import pytest
import yaml
from structlog.testing import capture_logs

from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.manager.process import manage
from multikueue.settings import InForce, Settings, Webhook
from multikueue_simulator.serving.serve import MANAGER, Plan
from testbed import objects
from testbed.client import Client, eventually
from tests.cli.field import joined

TEAM = "team-a"
WEBHOOK = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/multikueue-manager"


@pytest.fixture
async def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    """A client of the manager cluster, whose kubeconfig is that of the process; LocalQueue `main` in `team-a`, of 8 CPUs."""
    monkeypatch.setattr("multikueue.client.asynchronous.POLL_INTERVAL", timedelta(milliseconds=100))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    plan, stop = Plan(workers=2, kueue=True, jobs=True, job_lasts=timedelta(milliseconds=200)), anyio.Event()
    async with AsyncExitStack() as stack:
        stack.enter_context(capture_logs())
        sandbox, clients = await stack.enter_async_context(joined(plan, tmp_path))
        await _set_up(clients)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(_manage, sandbox[MANAGER].kubeconfig(), stop)
        await eventually(lambda: clients[MANAGER].request("GET", WEBHOOK))
        yield clients[MANAGER]
        stop.set()
        tasks.cancel_scope.cancel()


async def _set_up(clients: dict[str, Client]) -> None:
    for name, client in clients.items():
        await client.create(objects.namespace(TEAM))
        await client.create(objects.resource_flavor())
        checks = ("everywhere",) if name == MANAGER else ()
        await client.create(objects.cluster_queue("main", quota={"cpu": "8"}, checks=checks))
        await client.create(objects.local_queue("main", TEAM, cluster_queue="main"))
    await clients[MANAGER].create(objects.multikueue_config("everywhere", clusters=("worker1", "worker2")))
    await clients[MANAGER].create(objects.admission_check("everywhere", config="everywhere"))


async def _manage(kubeconfig: Path, stop: anyio.Event) -> None:
    settings = Settings(webhook=Webhook(enabled=True, host="127.0.0.1", port=0, url="https://127.0.0.1"))
    credentials = await from_kubeconfig(yaml.safe_load(await anyio.Path(kubeconfig).read_text()))
    await manage(InForce(settings), credentials, stop=stop, begun=lambda _mandate, _metrics: None)
