from __future__ import annotations

import pytest

from multikueue.api.kinds import WORKLOADS
from multikueue.cli.access import connection
from multikueue.cli.access.connection import fetch, now, run_async
from tests.builders import workload
from tests.cli.cluster import Cluster, Fake
from tests.cli.conftest import Run, World


@pytest.mark.anyio
async def test_a_long_list_is_fetched_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAGE", 2)
    cluster = Cluster("manager")
    for number in range(5):
        cluster.add(WORKLOADS, workload(f"wl-{number}").build())

    items = await fetch(Fake(cluster), WORKLOADS)

    assert cluster.calls == ["list workloads"] * 3
    assert [item["metadata"]["name"] for item in items] == [f"wl-{number}" for number in range(5)]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("kueue.x-k8s.io/v1beta2", "Workload")}


@pytest.mark.anyio
async def test_a_list_of_one_namespace() -> None:
    cluster = Cluster("manager")
    cluster.add(WORKLOADS, workload("a", namespace="x").build())
    cluster.add(WORKLOADS, workload("b", namespace="y").build())

    assert [item["metadata"]["name"] for item in await fetch(Fake(cluster), WORKLOADS, namespace="y")] == ["b"]


def test_async_work_is_run_and_answers() -> None:
    async def work() -> int:
        return 7

    assert run_async(work) == 7
    assert now().tzinfo is not None


def test_what_cannot_be_reached_is_told_with_url_file_and_context(world: World, cli: Run) -> None:
    ended = cli("workloads", "list", "--context", "gone")

    assert ended.code == 3
    assert ended.err.endswith(f"(https://127.0.0.1:1, {world.kubeconfig}: context 'gone')\n")
