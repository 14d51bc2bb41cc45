"""The real kube-apiserver, with the controllers that belong to what any cluster's API does."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from testbed.bed import Plan, Testbed
from testbed.controllers import GARBAGE, NAMESPACES
from tests.contract import builders
from tests.contract.server import OverHttp

__all__ = ["Real", "connected", "opened"]


async def opened() -> Testbed:
    """A running control plane that knows the suite's kinds. It belongs to no event loop.

    The garbage collector learns of a new kind within half a minute only, so the kinds come first.
    """
    bed = Testbed(Plan(workers=0, kueue=False, crds=("kueue",)))
    await bed.open()
    async with connected(bed) as server:
        await builders.install(server)
    await bed.start_controllers(bed.manager, [GARBAGE, NAMESPACES])
    return bed


COMPACTED = b64encode(b"compact_rev_key").decode()
"""The key in etcd by which API servers tell each other how far the past was compacted."""


class Real(OverHttp):
    def __init__(self, session: aiohttp.ClientSession, bed: Testbed) -> None:
        plane = bed.manager
        tokens = {user: plane.tokens[user] for user in ("admin", "manager")}
        super().__init__(session, tokens, url=plane.url, authority=plane.ca)
        self._etcd = bed.etcd.url

    async def forget(self) -> None:
        """Compact etcd, as the API server does every five minutes; it notices within seconds."""
        async with aiohttp.ClientSession(self._etcd) as etcd:
            async with etcd.post("/v3/kv/range", json={"key": COMPACTED}) as answer:
                revision = (await answer.json())["header"]["revision"]
            value = b64encode(revision.encode()).decode()
            async with etcd.post("/v3/kv/put", json={"key": COMPACTED, "value": value}) as answer:
                assert answer.status == 200
            async with etcd.post("/v3/kv/compaction", json={"revision": revision, "physical": True}) as answer:
                assert answer.status == 200


@asynccontextmanager
async def connected(bed: Testbed) -> AsyncIterator[Real]:
    """The control plane of a running testbed."""
    plane = bed.manager
    tls = ssl.create_default_context(cadata=plane.ca.decode())
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    async with aiohttp.ClientSession(plane.url, connector=connector, read_bufsize=2**22) as session:
        yield Real(session, bed)
