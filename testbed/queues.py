"""The standard set-up of queues: the same LocalQueue on all workers, and a manager queue that dispatches to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio

from testbed import objects
from testbed.client import Client, eventually
from testbed.kubeconfig import dump
from testbed.objects import DEFAULT_QUOTA, Object
from testbed.plane import ControlPlane

__all__ = ["manager_setup", "setup_queue", "workers_setup"]


async def workers_setup(
    planes: Iterable[ControlPlane],
    *,
    namespace: str,
    queue: str = "main",
    cluster_queue: str | None = None,
    quota: Mapping[str, str] = DEFAULT_QUOTA,
    flavor: str = "default",
) -> None:
    """Create namespace, flavor, ClusterQueue and LocalQueue on each worker and wait until Kueue calls the queue active.

    The ClusterQueue is called like the namespace unless named otherwise, so that tests on the same planes keep apart.
    """

    async def setup(plane: ControlPlane) -> None:
        async with plane.client() as client:
            await setup_queue(
                client,
                namespace=namespace,
                queue=queue,
                cluster_queue=objects.cluster_queue(cluster_queue or namespace, flavor=flavor, quota=quota),
            )
            await eventually(lambda: _is_active(client, cluster_queue or namespace), timeout=30)

    async with anyio.create_task_group() as tasks:
        for plane in planes:
            tasks.start_soon(setup, plane)


async def manager_setup(
    plane: ControlPlane,
    workers: Mapping[str, dict[str, Any]],
    *,
    namespace: str,
    queue: str = "main",
    quota: Mapping[str, str] = DEFAULT_QUOTA,
    controller: str = objects.MULTIKUEUE_CONTROLLER,
) -> None:
    """Create what the manager cluster needs to dispatch from one queue: `workers` maps names to kubeconfigs.

    All cluster-wide objects are called like the namespace; each MultiKueueCluster and its Secret `NAMESPACE-WORKER`.
    """
    clusters = {f"{namespace}-{name}": config for name, config in workers.items()}
    async with plane.client() as client:
        await client.apply(objects.namespace(objects.KUEUE_NAMESPACE))
        for name, config in clusters.items():
            await client.apply(objects.kubeconfig_secret(name, dump(config)))
            await client.apply(objects.multikueue_cluster(name, secret=name))
        await client.apply(objects.multikueue_config(namespace, clusters=list(clusters)))
        await client.apply(objects.admission_check(namespace, config=namespace, controller=controller))
        body = objects.cluster_queue(namespace, quota=quota, checks=[namespace])
        await setup_queue(client, namespace=namespace, queue=queue, cluster_queue=body)


async def setup_queue(client: Client, *, namespace: str, queue: str, cluster_queue: Object) -> None:
    """Create a ClusterQueue with its flavors, and a LocalQueue in a namespace before it."""
    await client.apply(objects.namespace(namespace))
    for flavor in _flavors(cluster_queue):
        await client.apply(objects.resource_flavor(flavor))
    await client.apply(cluster_queue)
    await client.apply(objects.local_queue(queue, namespace, cluster_queue=cluster_queue["metadata"]["name"]))


def _flavors(cluster_queue: Object) -> list[str]:
    return [flavor["name"] for group in cluster_queue["spec"]["resourceGroups"] for flavor in group["flavors"]]


async def _is_active(client: Client, name: str) -> bool:
    active = objects.condition(await client.get(objects.CLUSTER_QUEUE, name), "Active")
    return active is not None and active["status"] == "True"
