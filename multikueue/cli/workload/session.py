"""The workload of a command: its present cluster, and following it to another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import msgspec

from multikueue.api.kinds import WORKLOADS
from multikueue.api.kueue.workload import FINISHED, Workload
from multikueue.cli.access.connection import now
from multikueue.cli.access.worker_access import WorkerAccess
from multikueue.cli.terminal.exit import CommandFailed, leaves
from multikueue.cli.terminal.output import note, one_line
from multikueue.cli.workload.lookup import Pair, fetch_workloads, pick
from multikueue.cli.workload.view import WorkloadView
from multikueue.errors import ClusterUnreachable, NotFound

if TYPE_CHECKING:
    from multikueue.answers.answer import JobAnswer
    from multikueue.answers.seen import Seen
    from multikueue.kube.cluster_client import WatchingClient

__all__ = ["Follower", "WithoutWorkload", "WorkloadSession", "ended", "open_workload"]

POLL_INTERVAL = timedelta(seconds=1)
"""Time between two reads of the workload, which show whether it is still on the same cluster."""

LAST_DATA_TIMEOUT = timedelta(seconds=10)
"""The longest wait for the last data of a cluster that the workload has left: the cluster may be dead."""


class Follower(Protocol):
    """The work of a command on the cluster where the workload is."""

    async def play(self, view: WorkloadView, /) -> None:
        """Works until cancelled, when the workload has left the cluster."""

    async def drain(self) -> None:
        """Returns when all data under way has arrived."""


class WithoutWorkload(CommandFailed):
    """There is a job of that name, and no Workload for it. `answer`: why, as far as it was seen."""

    def __init__(self, seen: Seen) -> None:
        from multikueue.answers.answer import answer

        self.answer = answer(seen, now())
        super().__init__(f"{seen.name} has no workload: {self.answer}")


class WorkloadSession(msgspec.Struct, frozen=True):
    """The workload that was named; `item` is the object as the server sent it, `mine` the workloads of its namespace."""

    manager: WatchingClient
    reach: WorkerAccess
    item: dict[str, Any]
    workload: Workload
    mine: list[Pair]

    async def answer(self, workload: Workload | None = None) -> JobAnswer:
        """What `why` answers of the workload, or of what it has become."""
        from multikueue.cli.access.manager_settings import load_settings
        from multikueue.cli.workload.seen import look_at

        found = await look_at(self.manager, self.reach, workload or self.workload, self.mine, load_settings(None))
        return found.answer()

    async def nowhere(self, workload: Workload | None = None) -> str:
        """The reason why the workload is on no cluster, in one line."""
        return f"workload {self.workload.key} is on no cluster: {one_line(str(await self.answer(workload)))}"

    @asynccontextmanager
    async def winner(self) -> AsyncIterator[WorkloadView]:
        """A view of the workload on its cluster. Raises CommandFailed with the reason if it is on none."""
        if not self.workload.status.cluster_name:
            raise CommandFailed(await self.nowhere())
        async with AsyncExitStack() as stack:
            yield WorkloadView(self.manager, self.reach, self.workload, stack)

    async def stay(self, act: Follower) -> Workload:
        """Play on the workload's cluster, then on its next one; returns the workload once it is finished."""
        said = version = ""
        while True:
            workload = await self._look()
            if workload.has(FINISHED):
                return workload
            if workload.status.cluster_name:
                said = version = ""
                await self._play(act, workload)
                continue
            if version != (version := workload.metadata.resource_version) and said != (
                said := await self.nowhere(workload)
            ):
                note(f"{said} Waiting for a cluster.")
            await anyio.sleep(POLL_INTERVAL.total_seconds())

    async def _play(self, act: Follower, workload: Workload) -> None:
        cluster = workload.status.cluster_name or ""
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            tasks.start_soon(_play_on, act, WorkloadView(self.manager, self.reach, workload, stack))
            now = await self._look()
            while now.status.cluster_name == cluster and not now.has(FINISHED):
                await anyio.sleep(POLL_INTERVAL.total_seconds())
                now = await self._look()
            with anyio.move_on_after(None if now.has(FINISHED) else LAST_DATA_TIMEOUT.total_seconds()):
                await act.drain()
            tasks.cancel_scope.cancel()

    async def _look(self) -> Workload:
        # Runs to its end: a cancelled call would close its connection, and nothing waits for the closing.
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


async def _play_on(act: Follower, view: WorkloadView) -> None:
    """Play, again and again while the cluster cannot be reached: it may come back, and if it is lost the workload leaves it."""
    said = False
    while True:
        try:
            return await act.play(view)
        except (ClusterUnreachable, BaseExceptionGroup) as error:
            ends = list(leaves(error))
            away = [end for end in ends if isinstance(end, ClusterUnreachable) and end.cluster == view.cluster]
            if len(away) < len(ends):
                raise
            if not said:
                note(f"{view.cluster} cannot be reached: {away[0].why}; trying again")
                said = True
        await anyio.sleep(POLL_INTERVAL.total_seconds())


@asynccontextmanager
async def open_workload(named: str, namespace: str | None, reach: WorkerAccess) -> AsyncIterator[WorkloadSession]:
    """Opens the workload, by default in the context's namespace. Raises CommandFailed unless exactly one has the name:
    WithoutWorkload if there is a job that has none."""
    from multikueue.cli.workload.seen import look_without_workload

    async with reach.manager.connect_in(namespace) as (manager, where):
        mine = await fetch_workloads(manager, where)
        alone = await look_without_workload(manager, where, named, mine)
        if alone is not None:
            raise WithoutWorkload(alone)
        item, workload = pick(mine, named, where)
        yield WorkloadSession(manager, reach, item, workload, mine)


def ended(workload: Workload) -> str:
    """The sentence of one that is over."""
    from multikueue.answers.answer import answer
    from multikueue.answers.seen import Seen, typed_name

    return answer(Seen(name=typed_name(workload), namespace=workload.key.namespace, workload=workload), now()).summary
