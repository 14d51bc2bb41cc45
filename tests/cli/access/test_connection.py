from __future__ import annotations

from typing import cast

import pytest

from multikueue.api.kinds import WORKLOADS
from multikueue.cli.access import connection
from multikueue.cli.access.connection import fetch, fetch_pairs, now, run_async
from multikueue.kube.cluster_client import ClusterClient
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


DEEP = "[" * 100_000 + "]" * 100_000


class OnePage:
    """A server that answers each list with the same items."""

    def __init__(self, *items: str) -> None:
        self._answer = f'{{"metadata":{{}},"items":[{",".join(items)}]}}'.encode()

    async def request(self, _method: str, _path: str, *, params: object) -> bytes:
        return self._answer


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("status", "why"),
    [
        (f'{{"anything":{DEEP}}}', "it is nested too deeply"),
        ('{"conditions":7}', "Expected `array`, got `int` - at `$.status.conditions`"),
    ],
    ids=["nested too deeply", "of another form"],
)
async def test_an_object_that_cannot_be_read_hides_no_other(
    status: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def item(name: str, status: str) -> str:
        return f'{{"metadata":{{"name":"{name}","namespace":"a"}},"status":{status}}}'

    pages = cast(ClusterClient, OnePage(item("first", "{}"), item("odd", status), item("last", "{}")))

    found = await fetch_pairs(pages, WORKLOADS)

    assert [workload.metadata.name for _, workload in found] == ["first", "last"]
    assert capsys.readouterr().err == f"Workload a/odd is left out, since it cannot be read: {why}\n"
