"""MultiKueueCluster to connection: what is refused, what is shown, and how a worker's state declines and recovers."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.clusters import Clusters, Connection
from multikueue.dispatch.group import Reach
from multikueue.kube.credentials import Credentials
from multikueue.settings import Dispatch
from tests.controllers.table import Table, table

pytestmark = pytest.mark.anyio

W1 = ObjectKey("", "w1")
QUICK = Dispatch(suspect_after=timedelta(0), isolate_after=timedelta(milliseconds=20))


def secret(world: Table, **data: bytes) -> None:
    encoded = {name: b64encode(value).decode() for name, value in data.items()}
    world.manager.put(kinds.SECRETS, {"metadata": {"name": "secret", "namespace": "kueue-system"}, "data": encoded})
    world.store.secrets.replace(
        [world.manager._value(kinds.SECRETS, body) for body in world.manager.all(kinds.SECRETS)]
    )


async def condition(world: Table, *, spec: dict[str, Any] | None = None) -> tuple[str, str, str]:
    if spec is not None:
        world.manager.change(kinds.MULTIKUEUE_CLUSTERS, W1, {"spec": spec})
    await Clusters(world.world, QUICK, "kueue-system").reconcile("w1")
    (active,) = (world.manager.find(kinds.MULTIKUEUE_CLUSTERS, W1) or {})["status"]["conditions"]
    return active["status"], active["reason"], active["message"]


async def test_no_secret() -> None:
    expected = 'load client config failed: Secret "secret" not found'
    assert await condition(table()) == ("False", "BadKubeConfig", expected)


async def test_a_secret_without_the_key() -> None:
    world = table()
    secret(world, other=b"x")
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "BadKubeConfig")
    assert message == 'load client config failed: key "kubeconfig" not found in secret "secret"'


async def test_an_insecure_kubeconfig() -> None:
    world = table()
    secret(world, kubeconfig=b"clusters: [{name: a, cluster: {server: 'https://x', insecure-skip-tls-verify: true}}]")
    status, reason, message = await condition(world)
    assert (status, reason) == ("False", "InsecureKubeConfig")
    assert message == "load client config failed: insecure TLS verification is not allowed for cluster a"


async def test_a_file_that_is_not_there() -> None:
    spec = {"clusterSource": {"kubeConfig": {"location": "/nowhere/kubeconfig", "locationType": "Path"}}}
    _, reason, message = await condition(table(), spec=spec)
    assert (reason, message) == (
        "BadKubeConfig",
        "load client config failed: /nowhere/kubeconfig: No such file or directory",
    )


async def test_a_refused_cluster_is_out_of_reach_and_wakes_its_workloads() -> None:
    world = table()
    world.submit()
    await world.settle()
    await condition(world)
    assert world.store.worker("w1").reach is Reach.ISOLATED
    assert len(world.queues.workloads) == 1


async def test_the_same_refusal_is_written_once() -> None:
    world = table()
    await condition(world)
    world.manager.calls.clear()
    await condition(world)
    assert world.manager.calls == []


async def test_a_recorded_loss_goes_on_counting_in_a_new_process() -> None:
    world = table()
    await condition(world)
    recorded = world.store.worker("w1").since
    world.time += timedelta(minutes=5)
    world.start()
    world.store.worker("w1").reach = Reach.SUSPECT
    await condition(world)
    since = world.store.worker("w1").since
    assert since is not None
    assert recorded is None or since <= recorded + timedelta(seconds=1)
    assert since < world.time - timedelta(minutes=4)


def connection(world: Table) -> Connection:
    worker = world.store.worker("w1")
    return Connection(world.world, QUICK, worker, Credentials(server="https://x"), b"", anyio.Event())


async def test_trouble_is_suspect_then_isolated_and_over_at_once() -> None:
    world = table()
    link, worker = connection(world), world.store.worker("w1")
    async with anyio.create_task_group() as tasks:
        link._tasks = tasks
        link._report("heartbeat", "")
        assert worker.reach is Reach.CONNECTED
        link._report("heartbeat", "no answer")
        with anyio.fail_after(5):
            while worker.reach is not Reach.ISOLATED:  # noqa: ASYNC110
                await anyio.sleep(0.005)
        assert worker.why == "no answer"
        link._report("heartbeat", "")
        assert (worker.reach, worker.since, worker.why) == (Reach.CONNECTED, None, "")


async def test_a_moment_of_trouble_is_not_shown() -> None:
    world = table()
    link, worker = connection(world), world.store.worker("w1")
    link.settings = Dispatch(suspect_after=timedelta(seconds=30), isolate_after=timedelta(seconds=60))
    async with anyio.create_task_group() as tasks:
        link._tasks = tasks
        link._report("heartbeat", "")
        link._report("workloads", "reset")
        await anyio.wait_all_tasks_blocked()
        assert worker.reach is Reach.CONNECTED
        link._report("workloads", "")
        await anyio.wait_all_tasks_blocked()
        assert worker.reach is Reach.CONNECTED
