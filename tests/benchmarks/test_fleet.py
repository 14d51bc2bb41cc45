"""Fleets that are simulated for figures: each point is what it says."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import RawTestServer, TestClient

from benchmarks.fleet import held
from benchmarks.fleet.idle_servers import IdleServers
from benchmarks.fleet.rest import Rest, per_worker

pytestmark = pytest.mark.anyio


async def test_idle_servers_answer_as_clusters_of_their_own_and_count() -> None:
    servers = IdleServers()
    client: TestClient[Any, Any] = TestClient(RawTestServer(servers.handle))
    async with client:
        uids = [(await _json(client, f"/{name}/api/v1/namespaces/kube-system"))["metadata"]["uid"] for name in "ab"]
        assert uids == ["uid-of-a", "uid-of-b"]
        assert (await _json(client, "/a/apis/kueue.x-k8s.io/v1beta2/workloads"))["items"] == []
        async with client.get("/a/apis/batch/v1/jobs?watch=true") as watch:
            assert watch.status == 200
        found = servers.asked()
    assert (found.requests, found.watches) == (3, 1)
    assert servers.asked().requests == 0


async def _json(client: TestClient[Any, Any], path: str) -> dict[str, dict[str, str]]:
    async with client.get(path) as answer:
        found: dict[str, dict[str, str]] = msgspec.json.decode(await answer.read())
        return found


@pytest.mark.parametrize("state", ["waiting", "finished"])
def test_workloads_are_held_in_a_process_of_their_own(state: held.State) -> None:
    found = held.measure(state, 30)
    assert (found.number, found.resident > found.added, found.each > 0) == (30, True, True)


def test_the_memory_of_a_worker_is_the_difference_to_none() -> None:
    def rest(workers: int, resident: float) -> Rest:
        return Rest(workers, 1, 1, 0, 0, 0, 0, 0, resident, resident, 0)

    assert per_worker(rest(100, 90.0), rest(0, 70.0)) == pytest.approx(204.8)
