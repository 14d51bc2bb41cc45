"""Worker clusters that have nothing and do nothing: `python -m benchmarks.fleet.idle_servers FOLDER`.

One process and one port stand for any number of API servers: the first segment of a path is a worker's name, so each
has a URL, a client, connections and watches of its own. They answer what a manager asks of an empty cluster, hold its
watches open, and send a bookmark each minute, as API servers do. FOLDER has the server's certificate as `tls.crt` and
`tls.key`. The port is printed once it is open. A line on standard input is answered by the number of requests and watches
since the line before, as JSON.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections import Counter
from pathlib import Path

import anyio
import msgspec
from aiohttp import web

__all__ = ["BOOKMARK_SECONDS", "Asked"]

BOOKMARK_SECONDS = 60.0
BOOKMARK = b'{"type":"BOOKMARK","object":{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"}}}\n'
VERSIONS = b'{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}'


class Asked(msgspec.Struct, frozen=True):
    """What was asked of all workers together, since the last time somebody wanted to know."""

    requests: int
    watches: int
    most_at_once: int


class IdleServers:
    """All workers. Each request concerns one of them, whose name only makes its identity."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._under_way = self._most = 0

    def asked(self) -> Asked:
        found = Asked(self._asked["requests"], self._asked["watches"], self._most)
        self._asked.clear()
        self._most = self._under_way
        return found

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if "watch" in request.query:
            self._asked["watches"] += 1
            return await self._watch(request)
        self._asked["requests"] += 1
        self._under_way += 1
        self._most = max(self._most, self._under_way)
        try:
            await asyncio.sleep(0)
            return web.Response(body=_answer(request.path), content_type="application/json")
        finally:
            self._under_way -= 1

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        kind, version = b"Object", b"v1"
        for number in range(2, sys.maxsize):
            await asyncio.sleep(BOOKMARK_SECONDS)
            await stream.write(BOOKMARK % (kind, version, number))
        return stream


def _answer(path: str) -> bytes:
    _, worker, *rest = path.split("/")
    if rest == ["api"]:
        return VERSIONS
    if rest[-2:] == ["namespaces", "kube-system"]:
        meta = {"name": "kube-system", "uid": f"uid-of-{worker}", "resourceVersion": "1"}
        return msgspec.json.encode({"kind": "Namespace", "apiVersion": "v1", "metadata": meta})
    return b'{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}'


async def serve(folder: Path) -> None:
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    servers = IdleServers()
    runner = web.ServerRunner(web.Server(servers.handle), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=trust, backlog=4096)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    while await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        print(msgspec.json.encode(servers.asked()).decode(), flush=True)
    await runner.cleanup()


if __name__ == "__main__":
    anyio.run(serve, Path(sys.argv[1]), backend_options={"use_uvloop": True})
