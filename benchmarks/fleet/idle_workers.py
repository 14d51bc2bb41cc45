"""Workers that have nothing and do nothing, as a manager cluster knows them: their servers, and their queues."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio.to_thread
import msgspec

from benchmarks.fleet.idle_servers import Asked
from benchmarks.wire import Wire
from testbed import objects
from testbed.bed import Testbed
from testbed.kubeconfig import dump, kubeconfig
from testbed.process import Process

__all__ = ["Servers", "idle_servers", "make_known"]

PER_CONFIG = 20
"""Clusters that a MultiKueueConfig may name: so many more workers have as many more queues."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The process of the idle workers."""

    process: Process
    url: str

    def asked(self) -> Asked:
        self.process.tell("")
        return msgspec.json.decode(self.process.hear(), type=Asked)


@asynccontextmanager
async def idle_servers(bed: Testbed) -> AsyncIterator[Servers]:
    """Servers for any number of workers, for as long as the block runs."""
    folder = bed.folder / "idle"
    bed.manager.identity.authority.issue("idle", "127.0.0.1").write(folder)
    command = [sys.executable, "-m", "benchmarks.fleet.idle_servers", str(folder)]
    process = Process("idle servers", command, log=folder / "log", converses=True)
    process.start()
    try:
        port = await anyio.to_thread.run_sync(process.hear)
        yield Servers(process, f"https://127.0.0.1:{int(port)}")
    finally:
        await process.kill()


async def make_known(bed: Testbed, servers: Servers, workers: int, *, namespace: str) -> None:
    """What an administrator makes on the manager cluster: Secrets and MultiKueueClusters, and queues over them. All names
    begin with that of the namespace."""
    names = [f"{namespace}-{number:04}" for number in range(workers)]
    async with bed.manager.client() as client:
        for name in (objects.KUEUE_NAMESPACE, namespace):
            await client.apply(objects.namespace(name))
        await client.apply(objects.resource_flavor("default"))
    secrets = (_secret(bed, servers, name) for name in names)
    clusters = (objects.multikueue_cluster(name, secret=name) for name in names)
    async with Wire.open(bed.manager) as wire:
        await wire.post_all(f"/api/v1/namespaces/{objects.KUEUE_NAMESPACE}/secrets", map(msgspec.json.encode, secrets))
        await wire.post_all("/apis/kueue.x-k8s.io/v1beta2/multikueueclusters", map(msgspec.json.encode, clusters))
    async with bed.manager.client() as client:
        for number, some in enumerate(_parts(names)):
            queue = f"{namespace}-{number}"
            await client.apply(objects.multikueue_config(queue, clusters=some))
            await client.apply(objects.admission_check(queue, config=queue))
            await client.apply(objects.cluster_queue(queue, checks=[queue]))
            await client.apply(objects.local_queue(queue, namespace, cluster_queue=queue))


def _parts(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + PER_CONFIG] for start in range(0, len(names), PER_CONFIG)]


def _secret(bed: Testbed, servers: Servers, name: str) -> objects.Object:
    config = kubeconfig(f"{servers.url}/{name}", ca=bed.manager.ca, token="anybody", name=name)
    return objects.kubeconfig_secret(name, dump(config))
