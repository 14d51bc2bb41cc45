from __future__ import annotations

from collections.abc import Mapping

import pytest

from multikueue.api.kinds import WORKLOADS
from multikueue.cli.access.connection import fetch, now, run_async
from multikueue.testing import workload
from tests.cli.cluster import Answer, Cluster, Fake, Tree


class Paging(Cluster):
    """Two objects to a page."""

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Tree | None, token: str) -> Answer:
        code, answer = super().answer(method, path, query, body, token)
        start = int(query.get("continue", 0))
        items = answer["items"]
        cont = {"continue": str(start + 2)} if start + 2 < len(items) else {}
        return code, {"metadata": cont, "items": items[start : start + 2]}


@pytest.mark.anyio
async def test_a_long_list_is_fetched_page_by_page() -> None:
    cluster = Paging("manager")
    for number in range(5):
        cluster.add(WORKLOADS, workload(f"wl-{number}").build())

    items = await fetch(Fake(cluster), WORKLOADS)

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
