"""A running connection to a worker's server, for tests of it and of its heartbeat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import anyio

from multikueue.api.meta import ObjectKey
from multikueue.controllers.workers.connection.connection import Connection
from multikueue.controllers.workers.connection.kubeconfigs import Access
from multikueue.dispatch.remote import Asked, Reach
from multikueue.kube.auth.credentials import Credentials
from multikueue.kube.auth.tokens import FixedToken
from multikueue.settings import Dispatch, Timings
from multikueue.store.workers.watch_scope import EVERYWHERE
from multikueue.store.workers.worker import NEVER, WorkerView
from multikueue.testing import NOW
from tests.controllers.table import Table, table
from tests.controllers.workers.worker_server import WorkerServer
from tests.store.known import not_seen_yet

QUICK = Dispatch(heartbeat_interval=timedelta(milliseconds=10))
TIMINGS = Timings(
    heartbeat_timeout=timedelta(milliseconds=300),
    call_timeout=timedelta(milliseconds=500),
    suspect_after=timedelta(0),
    isolate_after=timedelta(milliseconds=20),
    reconnect_first=timedelta(milliseconds=5),
    reconnect_cap=timedelta(milliseconds=10),
)
KEY = ObjectKey("team", "job-a")
ASKED = Asked("attempt", NOW)


def access(server: WorkerServer | str, token: str) -> Access:
    """A kubeconfig for a server with a token. Another token is another kubeconfig."""
    url = server if isinstance(server, str) else server.url
    return Access(f"{url} {token}".encode(), Credentials(server=url, token=FixedToken(f"Bearer {token}")))


@dataclass
class Line:
    """A running connection, and the states it has had since it was first connected."""

    world: Table
    connection: Connection
    worker: WorkerView
    states: list[Reach] = field(default_factory=list)

    def reach_changed(self, worker: WorkerView) -> None:
        self.states.append(worker.link.reach)

    def worker_met(self, worker: WorkerView) -> None:
        raise AssertionError

    def worker_forgotten(self, worker: WorkerView) -> None:
        raise AssertionError

    async def until(self, condition: Callable[[], object]) -> None:
        with anyio.fail_after(5):
            while not condition():  # noqa: ASYNC110  # what is waited for happens in a server, not in an event of ours
                await anyio.sleep(0.002)

    async def changes_to(self, server: WorkerServer, token: str) -> None:
        """Until heartbeat and both watches use the token."""
        wanted = {"GET api", "WATCH workloads", "WATCH jobs"}
        await self.until(lambda: self.connection.problem is None and wanted <= set(server.uses(token)))

    async def objects(self, kind: type[Exception]) -> str:
        """The problem of that kind, once it is there: its message."""
        await self.until(lambda: self.connection.problem is not None and self.connection.problem.kind is kind)
        assert self.connection.problem is not None
        return self.connection.problem.message


@asynccontextmanager
async def connected(
    server: WorkerServer,
    *,
    before: Access | None = None,
    namespaces: tuple[str, ...] = EVERYWHERE,
    **dispatch: Any,
) -> AsyncIterator[Line]:
    """A connection to a server with the token "one", that has listed everything."""
    async with connecting(server, before=before, namespaces=namespaces, **dispatch) as line:
        await line.until(lambda: line.worker.link.reach is Reach.CONNECTED)
        line.states.clear()
        yield line


@asynccontextmanager
async def connecting(
    server: WorkerServer,
    *,
    before: Access | None = None,
    namespaces: tuple[str, ...] = EVERYWHERE,
    **dispatch: Any,
) -> AsyncIterator[Line]:
    """`dispatch` are settings of that group."""
    world = table(timings=TIMINGS, **dispatch)
    worker = world.store.worker("w1")
    not_seen_yet(worker)
    made = Connection(world.world, QUICK, worker, access(server, "one"), anyio.Event(), namespaces, before=before)
    line = Line(world, made, worker)
    world.store.observe(line)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(made.run)
        yield line
        made.stop()


def never_asked(line: Line) -> None:
    line.worker.probe_failed(NEVER, line.world.now(), line.world.world.lost_after)


async def beats(line: Line, server: WorkerServer, token: str) -> None:
    """Until there were two more signs of life by that token."""
    before = server.uses(token).count("GET api")
    await line.until(lambda: server.uses(token).count("GET api") >= before + 2)
