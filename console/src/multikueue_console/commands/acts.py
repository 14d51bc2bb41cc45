"""The changes that pages of the console may make: what the commands do, with the client of who asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from multikueue.api.kinds import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from multikueue.api.kueue.workload import FINISHED, PRIORITY_CLASS_LABEL, any_owner_of
from multikueue.cli.commands.clusters.cordoning import mark
from multikueue.cli.commands.clusters.draining import drain_now
from multikueue.cli.commands.workloads.actions import MERGE, PLANS
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.workload.lookup import refuse_unknown
from multikueue.cli.workload.related_objects import RelatedObjects
from multikueue.errors import Forbidden
from multikueue_console.web.actions import Action, ActionRefused

if TYPE_CHECKING:
    from multikueue.api.meta import ObjectKey
    from multikueue.kube.cluster_client import ClusterClient

__all__ = ["ACTIONS"]

_Do = Callable[["ClusterClient", "ObjectKey", str], Awaitable[None]]


@asynccontextmanager
async def _told() -> AsyncIterator[None]:
    """Why a command does not do it is why the page does not."""
    try:
        yield
    except CommandFailed as error:
        if isinstance(error.__cause__, Forbidden):
            raise error.__cause__ from error
        raise ActionRefused(str(error)) from error


def _planned(name: str) -> _Do:
    """The plan of that command, carried out."""

    async def do(client: ClusterClient, key: ObjectKey, _word: str) -> None:
        async with _told():
            step = await PLANS[name](client, await client.get(WORKLOADS, key))
            if step is not None:
                await step.act()

    return do


async def _prioritize(client: ClusterClient, key: ObjectKey, name: str) -> None:
    """Name another WorkloadPriorityClass in the label of the job, which the manager follows."""
    async with _told():
        workload = await client.get(WORKLOADS, key)
        if workload.has(FINISHED) or any_owner_of(workload) is None:
            raise CommandFailed(
                f"{key} {'is finished' if workload.has(FINISHED) else 'has no job, whose label says it'}"
            )
        await refuse_unknown(client, WORKLOAD_PRIORITY_CLASSES, name)
        body = {"metadata": {"labels": {PRIORITY_CLASS_LABEL: name}}}
        await client.request("PATCH", await RelatedObjects(client, workload).path(), body=body, content_type=MERGE)


def _marked(*, is_cordoned: bool) -> _Do:
    async def do(client: ClusterClient, key: ObjectKey, _word: str) -> None:
        await mark(client, key.name, is_cordoned=is_cordoned)

    return do


async def _drain(client: ClusterClient, key: ObjectKey, _word: str) -> None:
    async with _told():
        await drain_now(client, key.name)


ACTIONS: Mapping[str, Action] = {
    "hold": Action(
        "It gives its quota back, what runs is stopped, and it does not queue until it is released.", _planned("hold")
    ),
    "release": Action("It queues again, at the place that its age gives it.", _planned("release")),
    "requeue": Action(
        "It is stopped where it runs, and queues again. What it has not saved is lost.", _planned("requeue")
    ),
    "priority": Action(
        "Its job gets another priority class. The line is put in order again; what runs goes on.",
        _prioritize,
        asks="WorkloadPriorityClass",
    ),
    "cancel": Action("Its job is deleted, here and where it runs. This cannot be undone.", _planned("cancel")),
    "cordon": Action("It gets no new workloads. What is there stays.", _marked(is_cordoned=True), is_of_workload=False),
    "uncordon": Action("It gets new workloads again.", _marked(is_cordoned=False), is_of_workload=False),
    "drain": Action(
        "It gets no new workloads, and what waits there is withdrawn. What runs there is stopped and queues again; what that"
        " has not saved is lost.",
        _drain,
        is_of_workload=False,
    ),
}
"""By name, those of workloads and those of clusters."""
