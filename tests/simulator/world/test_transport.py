"""The manager's client on a simulated line: it asks for leave to write as on sockets."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from fakekube.network.link import Weather
from multikueue.errors import NotLeading
from tests.fakekube.network.test_transport import Bench, on_bench


@on_bench
async def test_leave_to_write_is_asked_for_when_a_write_has_its_connection(bench: Bench) -> None:
    leave = True
    bench.link.weather = Weather(latency=(1, 1))
    async with bench.client(may_write=lambda: leave, limit=1) as client, anyio.create_task_group() as tasks:

        async def write() -> None:
            with pytest.raises(NotLeading):
                await client.request("POST", "/api", body={})

        tasks.start_soon(client.request, "GET", "/api")
        await anyio.lowlevel.checkpoint()
        tasks.start_soon(write)
        await anyio.sleep(0.5)
        leave = False
    async with bench.client(may_write=lambda: leave) as client:
        await client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body={})
    assert [request.method for request in bench.server.requests] == ["GET", "POST"]
