"""One workload a command is about: where it is at the moment, and staying with it when it goes elsewhere."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import anyio

from multikueue.api.kinds import WORKLOADS, Kind
from multikueue.api.meta import Object, ObjectKey
from multikueue.api.workload import FINISHED, Workload
from multikueue.cli.access.worker_access import Reach, Worker
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note
from multikueue.cli.workload import description
from multikueue.cli.workload.lookup import fetch_workloads, pick
from multikueue.errors import NotFound
from multikueue.kube.reflector import Reflector

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import WatchingClient

__all__ = ["Act", "Scene", "follow", "nowhere", "open_scene"]

T = TypeVar("T", bound=Object)

POLL_SECONDS = 1.0
"""Between two looks at the workload, to see whether it is still where it was."""

DRAIN_SECONDS = 10.0
"""What is still on its way from a cluster that the workload has left may take so long: the cluster may be dead."""


class Act(Protocol):
    """What a command does on the cluster where the workload is."""

    async def play(self, worker: Worker, workload: Workload, /) -> None:
        """Goes on until it is cancelled: the workload is not there any more."""

    async def drain(self) -> None:
        """Returns when all that is on its way has arrived."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The workload that was named; `item` is the object as the server sent it."""

    manager: WatchingClient
    reach: Reach
    item: dict[str, Any]
    workload: Workload

    @asynccontextmanager
    async def winner(self) -> AsyncIterator[Worker]:
        """The cluster where it is. Raises CommandFailed if it is nowhere, and says why."""
        cluster = self.workload.status.cluster_name
        if not cluster:
            raise CommandFailed(nowhere(self.workload))
        async with self.reach.connect(self.manager, cluster) as worker:
            yield worker

    async def stay(self, act: Act) -> Workload:
        """Play on the cluster where the workload is, then on the next one; answers the workload once it is finished."""
        said = ""
        while True:
            workload = await self._look()
            if workload.has(FINISHED):
                return workload
            if workload.status.cluster_name:
                said = ""
                await self._play(act, workload)
                continue
            if said != (said := nowhere(workload)):
                note(f"{said} Waiting for a cluster.")
            await anyio.sleep(POLL_SECONDS)

    async def _play(self, act: Act, workload: Workload) -> None:
        cluster = workload.status.cluster_name or ""
        async with self.reach.connect(self.manager, cluster) as worker, anyio.create_task_group() as tasks:
            tasks.start_soon(act.play, worker, workload)
            now = await self._look()
            while now.status.cluster_name == cluster and not now.has(FINISHED):
                await anyio.sleep(POLL_SECONDS)
                now = await self._look()
            with anyio.move_on_after(None if now.has(FINISHED) else DRAIN_SECONDS):
                await act.drain()
            tasks.cancel_scope.cancel()

    async def _look(self) -> Workload:
        # Let it come to its end: a call that is given up closes its connection, with a farewell that nobody waits for.
        with anyio.CancelScope(shield=True):
            workload = await self._now()
        if workload is None:
            raise CommandFailed(f"workload {self.workload.key} has been deleted")
        return workload

    async def _now(self) -> Workload | None:
        try:
            return await self.manager.get(WORKLOADS, self.workload.key)
        except NotFound:
            return None


@asynccontextmanager
async def open_scene(named: str, namespace: str | None, reach: Reach) -> AsyncIterator[Scene]:
    """In the namespace of the context, if none is given. Raises CommandFailed if there is no such workload, or several."""
    async with reach.manager.connect_in(namespace) as (manager, where):
        item, workload = pick(await fetch_workloads(manager, where), named, where)
        yield Scene(manager, reach, item, workload)


def nowhere(workload: Workload) -> str:
    """Why it is on no cluster, in one line."""
    return f"workload {workload.key} is on no cluster: {description.now(workload)}"


# --- following one collection ----------------------------------------------------------------------------------------


class _Changes(Generic[T]):
    """A reflector's sink that passes on what is new: the object, and whether it is gone."""

    def __init__(self, tell: Callable[[tuple[T, bool]], None]) -> None:
        self.unreadable: dict[ObjectKey, str] = {}
        self._tell, self._known = tell, dict[ObjectKey, T]()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: ObjectKey, /) -> T | None:
        return self._known.get(key)

    def newest(self, _namespace: str, /) -> int:
        return 0

    def expect_list(self, _namespace: str, /) -> None:
        """Nothing else tells us anything."""

    def replacing(self, items: Sequence[T], _version: int, _namespace: str, /) -> Iterator[None]:
        there = {item.key for item in items}
        for item in [item for key, item in self._known.items() if key not in there]:
            self.remove(item)
        for item in items:
            self.upsert(item)
        return iter(())

    def wants(self, _item: T, /) -> bool:
        return True

    def upsert(self, item: T, /) -> None:
        old = self._known.get(item.key)
        if old is None or old.metadata.resource_version != item.metadata.resource_version:
            self._known[item.key] = item
            self._tell((item, False))

    def remove(self, item: T, /) -> None:
        if self._known.pop(item.key, None) is not None:
            self._tell((item, True))


async def follow(
    client: WatchingClient,
    kind: Kind[T],
    namespace: str,
    take: Callable[[T, bool], Awaitable[None]],
    *,
    selector: str = "",
) -> None:
    """Tell `take` each object there is and each change, until cancelled; the flag says that the object is gone.

    Of all namespaces if that is empty. A broken connection is made again, with a remark. Raises Forbidden.
    """
    path = kind.collection(namespace) if namespace else kind.path()
    await client.request("GET", path, params={"limit": "1"})
    send, receive = anyio.create_memory_object_stream[tuple[T, bool]](math.inf)

    def remark(stands: bool, why: str) -> None:
        if not stands:
            note(f"{client.cluster or 'the manager'}: {why}; trying again")

    reflector = Reflector(
        client, kind, _Changes(send.send_nowait), on_state=remark, namespace=namespace, label_selector=selector
    )
    async with receive, send, anyio.create_task_group() as tasks:
        tasks.start_soon(reflector.run)
        async for item, gone in receive:
            await take(item, gone)
