from __future__ import annotations

from datetime import timedelta

import pytest

from multikueue.api import kinds
from multikueue.api.meta import ObjectKey
from multikueue.api.multikueue.clusters import DRAIN_ANNOTATION
from multikueue.controllers.fleet.worker_queues import QueueKeeper
from multikueue.errors import ClusterUnreachable
from multikueue.registration.queues import SYNCED_LABEL
from tests.controllers.table import NAMESPACE, QUEUE, Table, table

pytestmark = pytest.mark.anyio

MAIN = ObjectKey(NAMESPACE, QUEUE)


def connected(workers: int = 2) -> Table:
    world = table(workers=workers)
    for name, cluster in world.workers.items():
        cluster.put(kinds.CLUSTER_QUEUES, {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}})
        world.world.clients[name] = cluster
        cluster.calls.clear()
    return world


def queues(world: Table) -> list[str]:
    """The workers that have the queue."""
    return [name for name, cluster in world.workers.items() if cluster.find(kinds.LOCAL_QUEUES, MAIN)]


async def test_a_queue_that_is_missing_is_made_and_marked() -> None:
    world = connected()
    await QueueKeeper(world.world).look()
    assert queues(world) == ["w1", "w2"]
    made = world.workers["w1"].find(kinds.LOCAL_QUEUES, MAIN) or {}
    assert made["metadata"]["labels"][SYNCED_LABEL] == "multikueue"
    assert made["spec"]["clusterQueue"] == "cq"


async def test_a_worker_that_has_all_is_asked_again_after_a_while_only() -> None:
    world = connected(workers=1)
    keeper = QueueKeeper(world.world)
    await keeper.look()
    world.workers["w1"].calls.clear()
    world.time += timedelta(minutes=9)
    await keeper.look()
    assert world.workers["w1"].calls == []

    world.workers["w1"].drop(kinds.LOCAL_QUEUES, MAIN)
    world.time += timedelta(minutes=1)
    await keeper.look()
    assert queues(world) == ["w1"]


async def test_another_queue_or_another_connection_is_another_look() -> None:
    world = connected(workers=1)
    keeper = QueueKeeper(world.world)
    await keeper.look()
    body = {"metadata": {"name": "next", "namespace": NAMESPACE}, "spec": {"clusterQueue": "cq"}}
    world.manager.put(kinds.LOCAL_QUEUES, body)
    await keeper.look()
    assert world.workers["w1"].find(kinds.LOCAL_QUEUES, ObjectKey(NAMESPACE, "next")) is not None


async def test_what_cannot_be_made_is_told_and_tried_again() -> None:
    world = connected(workers=1)
    world.workers["w1"].drop(kinds.CLUSTER_QUEUES, ObjectKey("", "cq"))
    keeper = QueueKeeper(world.world)
    await keeper.look()
    (message,) = [message for reason, message in world.said() if reason == "QueuesLacking"]
    assert message.startswith("LocalQueue team/main: there is no ClusterQueue cq")

    world.workers["w1"].put(kinds.CLUSTER_QUEUES, {"metadata": {"name": "cq"}, "spec": {"namespaceSelector": {}}})
    world.time += timedelta(minutes=1)
    await keeper.look()
    assert queues(world) == ["w1"]


async def test_a_worker_that_does_not_answer_keeps_no_other_from_it() -> None:
    world = connected()
    world.workers["w1"].fault = lambda _verb, _plural: ClusterUnreachable("w1", "no answer")
    await QueueKeeper(world.world).look()
    assert queues(world) == ["w2"]


async def test_a_worker_that_is_drained_gets_nothing() -> None:
    world = connected()
    change = {"metadata": {"annotations": {DRAIN_ANNOTATION: "wait"}}}
    world.manager.change(kinds.MULTIKUEUE_CLUSTERS, ObjectKey("", "w1"), change)
    await QueueKeeper(world.world).look()
    assert queues(world) == ["w2"]
