"""The manager that ships, with so many workloads that wait for quota, on virtual time: what one event costs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import anyio

from fakekube.model.wire import Object
from multikueue.api import kinds
from multikueue.api.kind import Kind
from multikueue.api.meta import ObjectKey
from multikueue.settings import Cluster, Dispatch, InForce, Settings
from multikueue_simulator.time import VirtualClock, run
from multikueue_simulator.world import objects
from multikueue_simulator.world.world import NAMESPACE, Layout, Share, World
from tests.controllers.table import AT_ONCE
from tests.costs.counting import Counts, counted, functions_counted
from tests.costs.fleet import quickly

__all__ = ["EVENTS", "Event", "costs"]

QUEUE, ROOMY, WORKER, RUNNING = "full", "roomy", "worker", "running"

RARE = timedelta(days=1)
"""Between two signs of life, so that none is counted for an event."""

CALM = 10.0
"""Seconds until an event has had all its consequences."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that somebody else does."""

    what: str
    happens: Callable[[World], object]


def _labelled(kind: Kind[Any], name: str, namespace: str = "") -> Callable[[World], object]:
    """Somebody labels an object of the manager cluster."""
    body = {"metadata": {"labels": {"seen": "yes"}}}
    return lambda world: world.manager.patch(kind, ObjectKey(namespace, name), body)


def _copy_labelled(world: World) -> object:
    site = world.site(WORKER)
    [copy] = site.all(kinds.WORKLOADS)
    key = ObjectKey(NAMESPACE, copy["metadata"]["name"])
    return site.patch(kinds.WORKLOADS, key, {"metadata": {"labels": {"seen": "yes"}}})


def _pod_unready(world: World) -> object:
    key = ObjectKey(NAMESPACE, RUNNING)
    return world.site(WORKER).patch(kinds.JOBS, key, {"status": {"ready": 0}}, subresource="status")


def _queue_counted(world: World) -> object:
    """As the Kueue of a worker does with each workload."""
    status = {"status": {"pendingWorkloads": 7}}
    return world.site(WORKER).patch(kinds.CLUSTER_QUEUES, ObjectKey("", WORKER), status, subresource="status")


EVENTS: Sequence[Event] = (
    Event("nothing", lambda _: None),
    Event("a label of one that waits", _labelled(kinds.WORKLOADS, "waiting-0", NAMESPACE)),
    Event("a label of their LocalQueue", _labelled(kinds.LOCAL_QUEUES, QUEUE, NAMESPACE)),
    Event("a label of their ClusterQueue", _labelled(kinds.CLUSTER_QUEUES, QUEUE)),
    Event("a label of their flavor", _labelled(kinds.RESOURCE_FLAVORS, objects.FLAVOR)),
    Event("a label of their check", _labelled(kinds.ADMISSION_CHECKS, objects.CHECK)),
    Event("a label of their namespace", _labelled(kinds.NAMESPACES, NAMESPACE)),
    Event("a label of a MultiKueueCluster", _labelled(kinds.MULTIKUEUE_CLUSTERS, WORKER)),
    Event("a label of a copy that runs", _copy_labelled),
    Event("the status of a job on its worker", _pod_unready),
    Event("the status of a worker's ClusterQueue", _queue_counted),
)


@cache
def costs(waiting: int) -> Mapping[str, Counts]:
    """By event: what the manager does until all its consequences are over."""
    with quickly():
        return run(lambda: _costs(waiting))


async def _costs(waiting: int) -> Mapping[str, Counts]:
    world = World(_layout(), clock=VirtualClock(), seed=1)
    world.apply_fixtures()
    world.manager.create(kinds.JOBS, objects.job(RUNNING, NAMESPACE, queue=ROOMY, seconds=RARE.total_seconds()))
    for number in range(waiting):
        world.manager.create(kinds.WORKLOADS, _workload(f"waiting-{number}"))
    async with anyio.create_task_group() as tasks:
        await world.start(tasks)
        manager = world.add_manager("manager", InForce(_settings(world)))
        await manager.begin(tasks).wait()
        await anyio.sleep(10 * CALM)
        found = {event.what: await _cost(world, event) for event in EVENTS}
        tasks.cancel_scope.cancel()
    return found


async def _cost(world: World, event: Event) -> Counts:
    counts: Counts = Counter()
    [manager] = world.managers
    with counted(manager, counts), functions_counted(counts, process=manager):
        event.happens(world)
        await anyio.sleep(CALM)
    return counts


def _layout() -> Layout:
    return Layout(queues=(Share(QUEUE, 0), Share(ROOMY, 8)), workers=(Share(WORKER, 8),))


def _workload(name: str) -> Object:
    """One of nobody's job: it waits as any other does."""
    template = objects.job(name, NAMESPACE, queue=QUEUE)["spec"]["template"]
    return {
        "apiVersion": kinds.WORKLOADS.api_version,
        "kind": kinds.WORKLOADS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"queueName": QUEUE, "podSets": [{"name": "main", "count": 1, "template": template}]},
    }


def _settings(world: World) -> Settings:
    dispatch = Dispatch(heartbeat_interval=RARE, gc_interval=timedelta())
    return Settings(cluster=Cluster(namespace=world.layout.secrets), dispatch=dispatch, retention=AT_ONCE)
