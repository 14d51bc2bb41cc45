"""One workload a command is about: where it is at the moment, and staying with it when it goes elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from multikueue.api.kinds import WORKLOADS
from multikueue.api.workload import FINISHED, Workload
from multikueue.cli.access.worker_access import Reach
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note
from multikueue.cli.workload import description
from multikueue.cli.workload.lookup import fetch_workloads, pick
from multikueue.cli.workload.view import View
from multikueue.errors import NotFound

if TYPE_CHECKING:
    from multikueue.kube.cluster_client import WatchingClient

__all__ = ["Act", "Scene", "nowhere", "open_scene"]

POLL_SECONDS = 1.0
"""Between two looks at the workload, to see whether it is still where it was."""

DRAIN_SECONDS = 10.0
"""What is still on its way from a cluster that the workload has left may take so long: the cluster may be dead."""


class Act(Protocol):
    """What a command does on the cluster where the workload is."""

    async def play(self, view: View, /) -> None:
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
    async def winner(self) -> AsyncIterator[View]:
        """What runs of it where it is. Raises CommandFailed if it is nowhere, and says why."""
        if not self.workload.status.cluster_name:
            raise CommandFailed(nowhere(self.workload))
        async with AsyncExitStack() as stack:
            yield View(self.manager, self.reach, self.workload, stack)

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
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            tasks.start_soon(act.play, View(self.manager, self.reach, workload, stack))
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
