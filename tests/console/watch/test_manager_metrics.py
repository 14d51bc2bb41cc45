"""The manager's metrics, read by HTTP."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from aiohttp import web

from multikueue.runtime import SystemClock
from multikueue_console.model.worker_figures import WorkerFigures
from multikueue_console.watch import manager_metrics
from multikueue_console.watch.fleet_watch import FleetWatch
from multikueue_console.watch.manager_metrics import follow_metrics

pytestmark = pytest.mark.anyio


async def test_what_is_read_is_told_and_why_nothing_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_metrics, "EVERY", 0.05)
    status = 200

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(
            text='multikueue_cluster_reachability{cluster="oslo",status="suspect"} 1.0\n', status=status
        )

    app = web.Application()
    app.add_routes([web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client: Any = None
    watch, clock = FleetWatch(client, ("",), SystemClock()), SystemClock()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow_metrics, url, watch, clock)
        with anyio.fail_after(10):
            while not watch.seen.figures:
                await watch.changed.wait()
            assert (watch.seen.figures, watch.health) == ({"oslo": WorkerFigures(reach="suspect")}, {})
            status = 503
            while not watch.health:
                await watch.changed.wait()
            assert (watch.seen.figures, watch.health) == ({}, {"metrics": f"{url}: status 503"})
        tasks.cancel_scope.cancel()
    await runner.cleanup()
