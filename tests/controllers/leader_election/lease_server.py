"""The cluster with the Lease, and candidates' lines to it: slow, lossy, cut, as a test wants it. For virtual time.

What is sent arrives even if its sender has given up waiting by then, as in a real network. The links of fakekube
(`network.link`) draw such delays from a range; here a test says each one, for the order of a few calls is what it is about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import anyio

from fakekube.model.storage import DELETED, Change
from fakekube.model.wire import Request, Response, Watch
from fakekube.network.transport import on_the_spot
from multikueue.api.kinds import LEASES, NAMESPACES
from multikueue.api.meta import ObjectKey
from multikueue.errors import ClusterUnreachable
from tests.cluster import Cluster, InProcessClient

Body = dict[str, Any]
KEY = ObjectKey("kueue-system", "multikueue-manager")
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class LeaseServer(Cluster):
    """`specs` are those of the Lease as they came to be, with their time."""

    def __init__(self) -> None:
        super().__init__("manager", lambda: BEGAN + timedelta(seconds=anyio.current_time()))
        self.put(NAMESPACES, {"metadata": {"name": KEY.namespace}})
        self.specs: list[tuple[float, Body]] = []
        self.server.storage.subscribe(self._note, f"{LEASES.plural}.{LEASES.group}")

    @property
    def body(self) -> Body | None:
        return self.find(LEASES, KEY)

    @property
    def holder(self) -> str:
        return str(self.body["spec"].get("holderIdentity", "")) if self.body else ""

    def write(self, spec: Body) -> None:
        """Write it, whoever one is and valid or not."""
        metadata = self.body["metadata"] if self.body else KEY._asdict()
        self.put(LEASES, {"metadata": metadata, "spec": spec})

    def _note(self, change: Change) -> None:
        if change.type != DELETED:
            self.specs.append((anyio.current_time(), change.version.object["spec"]))


class Line(InProcessClient):
    """A candidate's client. `delays` answers, per call, the seconds there and the seconds back."""

    def __init__(self, server: LeaseServer, *, timeout: float = 5.0) -> None:
        super().__init__(self)
        self.server, self.timeout = server, timeout
        self.delays: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0)
        self.cut, self.watches = False, True

    async def handle(self, request: Request) -> Response | Watch:
        if "watch" in request.query:
            if not self.watches or self.cut:
                raise ClusterUnreachable("", "no watch")
            return await self.server.api.handle(request)
        return await self._carried(request)

    async def _carried(self, request: Request) -> Response | Watch:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Response | Watch] = loop.create_future()
        there, back = self.delays()

        def arrive() -> None:
            loop.call_later(back, come_home, on_the_spot(self.server.api.handle(request)))

        def come_home(said: Response | Watch) -> None:
            if not (answer.done() or self.cut):
                answer.set_result(said)

        if not self.cut:
            loop.call_later(there, arrive)
        with anyio.move_on_after(self.timeout):
            return await answer
        raise ClusterUnreachable("", "no answer in time")
