"""The watch of a manager cluster that is away, forgets, or answers slowly: what was seen stays, and what was missed comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from fakekube.model.wire import Request
from fakekube.network.interceptor import Interceptor
from multikueue.api import kinds
from multikueue.api.meta import ObjectKey, encode
from multikueue.kube.auth.credentials import from_kubeconfig
from multikueue.kube.client import Client
from multikueue.runtime import SystemClock
from multikueue_console.watch.fleet_watch import FleetWatch
from multikueue_simulator.serving.serve import Plan, Sandbox, Served
from multikueue_simulator.world import objects
from tests.builders.workloads import workload
from tests.cluster import Cluster, InProcessClient

pytestmark = pytest.mark.anyio


def as_tree(name: str) -> dict[str, Any]:
    tree: dict[str, Any] = msgspec.json.decode(encode(workload(name).build()))
    return tree


def put(site: Served, name: str) -> None:
    body = as_tree(name) | {"apiVersion": kinds.WORKLOADS.api_version, "kind": "Workload"}
    body["metadata"]["uid"] = f"uid-of-{name}"
    site.cluster.storage.put(f"{kinds.WORKLOADS.plural}.{kinds.WORKLOADS.group}", f"default/{name}", body)


def remove(site: Served, name: str) -> None:
    site.cluster.storage.remove(f"{kinds.WORKLOADS.plural}.{kinds.WORKLOADS.group}", f"default/{name}")


def rows(watch: FleetWatch) -> list[str]:
    return sorted(row.workload for row in watch.feed)


async def until(holds: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not holds():  # noqa: ASYNC110  # a watch of another cluster tells nobody
            await anyio.sleep(0.02)


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[tuple[Served, FleetWatch]]:
    """A cluster over HTTPS with the workloads `a` and `b`, and a watch that has seen them."""
    async with Sandbox(Plan(workers=0), folder=folder) as sandbox, anyio.create_task_group() as tasks:
        site = sandbox["manager"]
        put(site, "a")
        put(site, "b")
        async with Client.connect(await from_kubeconfig(site.kubeconfig())) as client:
            watch = FleetWatch(client, ("",), SystemClock())
            await tasks.start(watch.run)
            await until(lambda: rows(watch) == ["a", "b"] and watch.seen.clusters is not None)
            yield site, watch
            tasks.cancel_scope.cancel()


async def test_of_a_cluster_that_is_away_all_stays_that_was_seen_and_what_was_missed_comes_later(
    tmp_path: Path,
) -> None:
    async with watched(tmp_path) as (site, watch):
        await site.front_end.stop()
        await until(lambda: kinds.WORKLOADS.plural in watch.health)
        assert rows(watch) == ["a", "b"]
        remove(site, "a")
        put(site, "c")
        await site.front_end.start()
        await until(lambda: rows(watch) == ["b", "c"])
        await until(lambda: not watch.health)


async def test_a_cluster_that_has_forgotten_what_it_told_is_listed_again(tmp_path: Path) -> None:
    async with watched(tmp_path) as (site, watch):
        await site.front_end.stop()
        number = watch.feed.number
        remove(site, "a")
        put(site, "c")
        site.cluster.storage.compact()
        await site.front_end.start()
        await until(lambda: rows(watch) == ["b", "c"])
        told = watch.feed.since(number)
        assert ([row.workload for row in told.rows], len(told.gone)) == (["c"], 1), "b is no news"
        await until(lambda: not watch.health)


async def test_a_cluster_that_answers_slowly_is_shown_as_far_as_it_has_answered() -> None:
    clock, slow = SystemClock(), {"clusterqueues"}
    cluster = Cluster("manager", clock.now)
    cluster.put(kinds.WORKLOADS, as_tree("a"))
    cluster.put(kinds.CLUSTER_QUEUES, objects.cluster_queue("cq", cpu=4))
    answering = anyio.Event()

    async def wait(request: Request) -> None:
        if any(request.path.endswith(each) for each in slow):
            await answering.wait()

    watch = FleetWatch(InProcessClient(Interceptor(cluster.server.api, before=wait)), ("",), clock)
    async with anyio.create_task_group() as tasks:
        await tasks.start(watch.run)
        assert rows(watch) == ["a"]
        assert watch.seen.cluster_queues is None
        cluster.put(kinds.WORKLOADS, as_tree("b"))
        await until(lambda: rows(watch) == ["a", "b"])
        answering.set()
        await until(lambda: ObjectKey("", "cq") in (watch.seen.cluster_queues or {}))
        tasks.cancel_scope.cancel()
