"""The changes that pages of the console may make: what the commands do, with the client of who asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from multikueue.answers.seen import typed_name
from multikueue.api.kinds import WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from multikueue.api.kueue.workload import FINISHED, PRIORITY_CLASS_LABEL, any_owner_of, workload_spec
from multikueue.cli.commands.clusters.cordoning import mark
from multikueue.cli.commands.clusters.draining import drain_intent, drain_now
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


@asynccontextmanager
async def _told() -> AsyncIterator[None]:
    """Why a command does not do it is why the page does not."""
    try:
        yield
    except CommandFailed as error:
        if isinstance(error.__cause__, Forbidden):
            raise error.__cause__ from error
        raise ActionRefused(str(error)) from error


def _planned(says: str, name: str) -> Action:
    """The plan of that command: its effect in the command's words, and carried out."""

    async def do(client: ClusterClient, key: ObjectKey, _word: str) -> None:
        async with _told():
            step = await PLANS[name](client, await client.get(WORKLOADS, key))
            if step is not None:
                await step.act()

    async def effect(client: ClusterClient, key: ObjectKey) -> str:
        async with _told():
            step = await PLANS[name](client, await client.get(WORKLOADS, key))
        return step.effect if step is not None else "There is nothing to do any more."

    return Action(says, do, effect)


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


async def _priority_now(client: ClusterClient, key: ObjectKey) -> str:
    workload = await client.get(WORKLOADS, key)
    now = workload_spec(workload).priority_class_ref
    return f"Changes the priority class of {typed_name(workload)}{f', which is {now.name}' if now else ''}."


def _marked(says: str, *, is_cordoned: bool) -> Action:
    async def do(client: ClusterClient, key: ObjectKey, _word: str) -> None:
        await mark(client, key.name, is_cordoned=is_cordoned)

    async def effect(_client: ClusterClient, key: ObjectKey) -> str:
        return f"{'Cordons' if is_cordoned else 'Uncordons'} {key.name}."

    return Action(says, do, effect, is_of_workload=False)


async def _drain(client: ClusterClient, key: ObjectKey, _word: str) -> None:
    async with _told():
        await drain_now(client, key.name)


async def _drained(client: ClusterClient, key: ObjectKey) -> str:
    return await drain_intent(client, key.name)


ACTIONS: Mapping[str, Action] = {
    "hold": _planned(
        "It gives its quota back, what runs is stopped, and it does not queue until it is released.", "hold"
    ),
    "release": _planned("It queues again, at the place that its age gives it.", "release"),
    "requeue": _planned("It is stopped where it runs, and queues again. What it has not saved is lost.", "requeue"),
    "priority": Action(
        "Its job gets another priority class. The line is put in order again; what runs goes on.",
        _prioritize,
        _priority_now,
        asks="WorkloadPriorityClass",
    ),
    "cancel": _planned("Its job is deleted, here and where it runs. This cannot be undone.", "cancel"),
    "cordon": _marked("It gets no new workloads. What is there stays.", is_cordoned=True),
    "uncordon": _marked("It gets new workloads again.", is_cordoned=False),
    "drain": Action(
        "It gets no new workloads, and what waits there is withdrawn. What runs there is stopped and queues again; what that"
        " has not saved is lost.",
        _drain,
        _drained,
        is_of_workload=False,
    ),
}
"""By name, those of workloads and those of clusters."""
