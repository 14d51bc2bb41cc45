"""The watches of a worker's queues: when there are any, which changes have the worker read, and what they tell of its room."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.controllers.workers.connection.watches import QueueWatches, RoomWatches
from multikueue.errors import Forbidden
from multikueue.kube.transport.loop_share import UNMETERED
from multikueue.store.caches.rooms import UNREAD
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
async def begun(made: Table, watches: QueueWatches | RoomWatches, fault: Any) -> AsyncIterator[Watched]:
    """The worker once its watches have begun."""
    worker = Watched(made)
    worker.cluster.fault = fault or worker.cluster.fault
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watches.run, worker.cluster, UNMETERED)
        await anyio.wait_all_tasks_blocked()
        yield worker
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def watched(*, namespaces: tuple[str, ...] = EVERYWHERE, fault: Any = None) -> AsyncIterator[Watched]:
    """Nobody follows the worker yet, and it is doubted no more."""
    made = table(workers=1)
    have(made.workers["w1"], 100)
    async with begun(made, QueueWatches(made.world, "w1", namespaces), fault) as worker:
        await worker.is_due()  # it was connected
        worker.cluster.calls.clear()
        yield worker


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


# The queues that are closed.


@asynccontextmanager
async def doubted(
    key: ObjectKey | None = None,
    patch: Body | None = None,
    *,
    has_queues: bool = True,
    namespaces: tuple[str, ...] = EVERYWHERE,
    fault: Any = None,
) -> AsyncIterator[Watched]:
    """A worker that was just connected, with the queues of the manager or without, and with this change of one."""
    made = table(workers=1)
    cluster = made.workers["w1"]
    if has_queues:
        have(cluster, 100)
    if key is not None and patch is not None:
        Watched(made).change(key, patch)
    async with begun(made, QueueWatches(made.world, "w1", namespaces), fault) as worker:
        yield worker


def closed(worker: Watched) -> str:
    return worker.table.store.closed_queues.of(LOCAL).get("w1", "")


async def test_a_worker_that_has_all_queues_is_looked_at_once() -> None:
    async with doubted() as worker:
        assert asked(worker.cluster) == {
            f"{verb} {what}queues" for verb in ("list", "watch") for what in ("cluster", "local")
        }
        worker.cluster.drop(kinds.LOCAL_QUEUES, LOCAL)
        await anyio.wait_all_tasks_blocked()
        assert closed(worker) == "", "nothing is watched any more"


@pytest.mark.parametrize(
    ("key", "patch", "why"),
    [
        pytest.param(
            LOCAL, {"spec": {"clusterQueue": "gone"}}, "ClusterQueue gone doesn't exist", id="it leads nowhere"
        ),
        pytest.param(
            THEIRS,
            {"status": {"conditions": [INACTIVE | {"reason": "FlavorNotFound"}]}},
            "ClusterQueue theirs is inactive (FlavorNotFound)",
            id="where it leads is inactive",
        ),
    ],
)
async def test_a_queue_that_is_closed_is_watched_until_it_opens(key: ObjectKey, patch: Body, why: str) -> None:
    async with doubted(key, patch) as worker:
        assert closed(worker) == why
        worker.cluster.drop(kinds.LOCAL_QUEUES, LOCAL)
        worker.cluster.drop(kinds.CLUSTER_QUEUES, THEIRS)
        await anyio.wait_all_tasks_blocked()
        assert closed(worker) == f"LocalQueue {QUEUE} doesn't exist"
        have(worker.cluster, 100)
        await anyio.wait_all_tasks_blocked()
        assert closed(worker) == ""


@pytest.mark.parametrize("plural", ["clusterqueues", "localqueues"])
@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_what_a_worker_does_not_let_us_watch_closes_nothing(verb: str, plural: str) -> None:
    def refuse(asked: str, of: str) -> Forbidden | None:
        return Forbidden(403, "Forbidden", "no") if (asked, of) == (verb, plural) else None

    async with doubted(has_queues=False, fault=refuse) as worker:
        assert closed(worker) == ""
        assert worker.table.store.worker("w1").link.is_connected


async def test_a_queue_in_a_namespace_that_is_not_offered_is_not_known() -> None:
    async with doubted(has_queues=False, namespaces=("other",)) as worker:
        assert closed(worker) == ""


# The room of a worker.


@asynccontextmanager
async def roomy(*, namespaces: tuple[str, ...] = EVERYWHERE, fault: Any = None) -> AsyncIterator[Watched]:
    """A worker with 10 cores, whose room nobody needs yet."""
    made = table(workers=1)
    cluster = made.workers["w1"]
    have(cluster, 10)
    for kind in (kinds.COHORTS, kinds.RESOURCE_FLAVORS):
        cluster.put(kind, {"metadata": {"name": "one"}, "spec": {}})
    async with begun(made, RoomWatches(made.world, "w1", namespaces), fault) as worker:
        yield worker


async def free(worker: Watched) -> tuple[float, str]:
    """The cores that are free for the workloads of the LocalQueue, and why that may be in doubt."""
    await anyio.wait_all_tasks_blocked()
    room = worker.table.store.rooms.worker("w1").room(LOCAL, worker.table.now(), ObjectKey("", "asking"))
    return sum(each.free for each in room.quotas) / 1000, room.doubt


def running(name: str, *, origin: str = "", cpu: int = 4) -> Body:
    """A workload on the worker that has so many cores there."""
    usage = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpu)}, "count": 1}
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "", "message": "", "lastTransitionTime": STAMP}
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {"kueue.x-k8s.io/multikueue-origin": origin} if origin else {},
        },
        "spec": {"queueName": QUEUE, "podSets": [{"name": "main", "count": 1, "template": {}}]},
        "status": {
            "conditions": [reserved],
            "admission": {"clusterQueue": "theirs", "podSetAssignments": [usage]},
        },
    }


async def test_a_worker_whose_room_nobody_needs_is_not_watched() -> None:
    async with roomy() as worker:
        assert asked(worker.cluster) == set()
        worker.table.store.rooms.need({})
        assert await free(worker) == (10, "")
        plurals = ("clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloads")
        assert asked(worker.cluster) == {f"{verb} {plural}" for verb in ("list", "watch") for plural in plurals}


async def test_the_workloads_of_others_are_watched_and_ours_once() -> None:
    async with roomy() as worker:
        worker.table.store.rooms.need({})
        worker.cluster.put(kinds.WORKLOADS, running("theirs"))
        assert await free(worker) == (6, "")
        worker.cluster.put(kinds.WORKLOADS, running("ours", origin="multikueue"))
        assert await free(worker) == (2, ""), "it comes by the watch of our copies"
        assert {each.key.name for each in worker.table.store.rooms.worker("w1").workloads} == {"theirs"}
        worker.cluster.drop(kinds.WORKLOADS, ObjectKey(NAMESPACE, "theirs"))
        assert await free(worker) == (6, "")


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (("clusterqueues",), (0, UNREAD)),
        (("cohorts", "resourceflavors"), (10, "not all of its cohorts and resourceflavors may be read")),
        (("workloads",), (10, "not all of its workloads may be read")),
    ],
    ids=["its ClusterQueues", "what a role of earlier releases lacks", "the workloads of others"],
)
async def test_what_a_worker_refuses_is_no_trouble_and_told(
    refused: tuple[str, ...], expected: tuple[float, str]
) -> None:
    def refuse(_verb: str, plural: str) -> Forbidden | None:
        return Forbidden(403, "Forbidden", "no") if plural in refused else None

    async with roomy(fault=refuse) as worker:
        worker.table.store.rooms.need({})
        assert await free(worker) == expected
        assert worker.table.store.worker("w1").link.is_connected
