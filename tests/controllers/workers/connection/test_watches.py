"""The watches of a worker's queues: when there are any, and which changes have the worker read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workers.connection.watches import QueueWatches
from multikueue.errors import Forbidden
from multikueue.kube.transport.loop_share import UNMETERED
from multikueue.store.workers.watch_scope import EVERYWHERE
from tests.cluster import Cluster
from tests.controllers.quota.test_capacity import have
from tests.controllers.table import NAMESPACE, QUEUE, Body, Table, table

pytestmark = pytest.mark.anyio

THEIRS, LOCAL = ObjectKey("", "theirs"), ObjectKey(NAMESPACE, QUEUE)
STAMP = "2026-01-01T12:00:00Z"
INACTIVE = {"type": "Active", "status": "False", "reason": "Stopped", "message": "", "lastTransitionTime": STAMP}


class Watched:
    """A worker whose watches run."""

    def __init__(self, made: Table) -> None:
        self.table, self.cluster = made, made.workers["w1"]

    async def is_due(self) -> bool:
        """Whether the worker is to be read, once all that happened has arrived; then it is read."""
        await anyio.wait_all_tasks_blocked()
        return "w1" in await self.table.taken(self.table.queues.capacity)

    def follow(self, *names: str) -> None:
        self.table.world.followed.put(names)

    def change(self, key: ObjectKey, patch: Body) -> None:
        self.cluster.change(kinds.LOCAL_QUEUES if key.namespace else kinds.CLUSTER_QUEUES, key, patch)


@asynccontextmanager
async def watched(*, namespaces: tuple[str, ...] = EVERYWHERE, fault: Any = None) -> AsyncIterator[Watched]:
    """Nobody follows the worker yet."""
    made = table(workers=1)
    have(made.workers["w1"], 100)
    made.workers["w1"].fault = fault or made.workers["w1"].fault
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(QueueWatches(made.world, "w1", namespaces).run, made.workers["w1"], UNMETERED)
        worker = Watched(made)
        await worker.is_due()  # it was connected
        yield worker
        tasks.cancel_scope.cancel()


def asked(cluster: Cluster) -> set[str]:
    return {call for call in cluster.calls if call.partition(" ")[0] in ("list", "watch")}


async def test_a_worker_that_nobody_follows_is_not_watched() -> None:
    async with watched() as worker:
        assert not await worker.is_due()
        worker.follow("w2")
        assert not await worker.is_due()
        assert asked(worker.cluster) == set()


async def test_it_is_watched_while_it_is_followed() -> None:
    async with watched() as worker:
        worker.follow("w1", "w2")
        assert await worker.is_due()
        assert asked(worker.cluster) == {
            f"{verb} {what}queues" for verb in ("list", "watch") for what in ("cluster", "local")
        }
        worker.follow("w1")
        have(worker.cluster, 60)
        assert await worker.is_due()
        worker.follow()
        await anyio.wait_all_tasks_blocked()
        have(worker.cluster, 100)
        assert not await worker.is_due()
        worker.follow("w1")
        assert await worker.is_due()


@pytest.mark.parametrize(
    ("key", "patch"),
    [
        pytest.param(THEIRS, {"spec": {"resourceGroups": []}}, id="other quotas"),
        pytest.param(THEIRS, {"spec": {"stopPolicy": "Hold"}}, id="the queue is stopped"),
        pytest.param(THEIRS, {"status": {"conditions": [INACTIVE]}}, id="it is inactive"),
        pytest.param(THEIRS, {"metadata": {"deletionTimestamp": STAMP}}, id="it is being deleted"),
        pytest.param(THEIRS, {"status": {"effectiveQuotas": {}}}, id="an orchestrator gives it others"),
        pytest.param(LOCAL, {"spec": {"clusterQueue": "another"}}, id="a LocalQueue leads elsewhere"),
        pytest.param(LOCAL, {"spec": {"stopPolicy": "Hold"}}, id="a LocalQueue is stopped"),
    ],
)
async def test_it_is_read_when_what_is_read_of_a_queue_changes(key: ObjectKey, patch: Body) -> None:
    async with watched() as worker:
        worker.follow("w1")
        assert await worker.is_due()
        worker.change(key, patch)
        assert await worker.is_due()
        assert not await worker.is_due()


@pytest.mark.parametrize("key", [THEIRS, LOCAL], ids=["a ClusterQueue", "a LocalQueue"])
async def test_it_is_not_read_for_what_changes_with_each_job(key: ObjectKey) -> None:
    async with watched() as worker:
        worker.follow("w1")
        assert await worker.is_due()
        for number in range(20):
            usage = [{"name": "default", "resources": [{"name": "cpu", "total": str(number)}]}]
            worker.change(key, {"status": {"flavorsUsage": usage, "pendingWorkloads": number}})
            assert not await worker.is_due()
        worker.change(THEIRS, {"spec": {"cohortName": "all", "preemption": {"withinClusterQueue": "LowerPriority"}}})
        assert not await worker.is_due(), "what it could borrow does not count"


@pytest.mark.parametrize("key", [THEIRS, LOCAL], ids=["a ClusterQueue", "a LocalQueue"])
async def test_it_is_read_when_a_queue_comes_or_goes(key: ObjectKey) -> None:
    async with watched() as worker:
        worker.follow("w1")
        assert await worker.is_due()
        worker.cluster.drop(kinds.LOCAL_QUEUES if key.namespace else kinds.CLUSTER_QUEUES, key)
        assert await worker.is_due()
        have(worker.cluster, 100)
        assert await worker.is_due()


async def test_of_a_worker_that_offers_some_namespaces_no_other_is_watched() -> None:
    async with watched(namespaces=("other", NAMESPACE)) as worker:
        worker.follow("w1")
        assert await worker.is_due()
        worker.change(LOCAL, {"spec": {"stopPolicy": "Hold"}})
        assert await worker.is_due()
        paths = {request.path for request in worker.cluster.requests if request.path.endswith("localqueues")}
        assert {path.split("/namespaces/")[-1] for path in paths} == {"other/localqueues", f"{NAMESPACE}/localqueues"}


async def test_a_worker_that_refuses_to_be_watched_is_in_no_trouble() -> None:
    def refuse(verb: str, _plural: str) -> Forbidden | None:
        return Forbidden(403, "Forbidden", "no") if verb == "watch" else None

    async with watched(fault=refuse) as worker:
        worker.follow("w1")
        assert await worker.is_due()
        assert worker.table.store.worker("w1").link.is_connected


async def test_quotas_that_cannot_be_read_are_no_news_until_they_can() -> None:
    async with watched() as worker:
        worker.follow("w1")
        assert await worker.is_due()
        have(worker.cluster, "lots")
        assert await worker.is_due()
        have(worker.cluster, "plenty")
        assert not await worker.is_due()
        have(worker.cluster, 5)
        assert await worker.is_due()
