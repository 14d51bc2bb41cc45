"""A node whose kubelet does one thing: it answers an API server's request for the log of a container, or its tail.

async with kubelet(plane, {"hello-0": "hello\\n"}) as node:
    ...  # pods with spec.nodeName == node have these logs
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from testbed.client import Kind
from testbed.plane import ControlPlane
from testbed.ports import free_port

__all__ = ["kubelet"]

NODE = Kind("v1", "Node")


@asynccontextmanager
async def kubelet(plane: ControlPlane, logs: Mapping[str, str]) -> AsyncIterator[str]:
    """Yields the name of a new node of the plane. `logs` has the text of each pod by its name, and is read at each
    request."""
    name, port = f"{plane.name}-node", free_port()

    async def log(request: web.Request) -> web.Response:
        text = logs.get(request.match_info["pod"])
        if text is None:
            return web.Response(status=404, text="no such pod")
        lines = text.splitlines(keepends=True)
        most = int(request.query.get("tailLines", len(lines)))
        return web.Response(text="".join(lines[len(lines) - most :]))

    application = web.Application()
    application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", log)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=_tls(plane)).start()
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        async with plane.client() as client:
            await client.apply({"apiVersion": NODE.api_version, "kind": NODE.kind, "metadata": {"name": name}})
            await client.patch_status(NODE, name, status)
            yield name
            await client.delete(NODE, name)
    finally:
        await runner.cleanup()


def _tls(plane: ControlPlane) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with TemporaryDirectory() as folder:
        context.load_cert_chain(*plane.identity.authority.issue("kubelet", "127.0.0.1").write(Path(folder)))
    return context
