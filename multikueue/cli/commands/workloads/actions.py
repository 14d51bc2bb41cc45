"""Actions on a job: cancel, hold, release, requeue, move. Each announces its effect, and asks before it stops a job.

All use the caller's own rights and change objects of the manager cluster only; the manager does the rest.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from multikueue.cli.access.completion import queues
from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, SettingsFile, run_async
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note
from multikueue.cli.terminal.progress import spinner
from multikueue.cli.workload.lookup import InNamespace, Named, fetch_workloads, pick, refuse_unknown

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.kube.client import Client

__all__ = ["cancel", "hold", "move", "release", "requeue"]

MERGE = "application/merge-patch+json"

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")]


def cancel(
    name: Named,
    namespace: InNamespace = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Delete a job, wherever it waits or runs.

    \b
    Examples:
      multikueue workloads cancel -n team-a my-job
      multikueue workloads cancel jobset/train --yes
    """
    run_async(lambda: _cancel(_Call(ContextChoice(kubeconfig, context), namespace, name, dry_run), is_confirmed=yes))


def hold(
    name: Named,
    namespace: InNamespace = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Keep a job from running until it is released.

    One that runs is stopped, and what it has not saved is lost.

    \b
    Examples:
      multikueue workloads hold -n team-a my-job
    """
    run_async(lambda: _hold(_Call(ContextChoice(kubeconfig, context), namespace, name, dry_run), is_confirmed=yes))


def release(
    name: Named,
    namespace: InNamespace = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Let a held job queue again.

    \b
    Examples:
      multikueue workloads release -n team-a my-job
    """
    run_async(lambda: _release(_Call(ContextChoice(kubeconfig, context), namespace, name, dry_run)))


def requeue(
    name: Named,
    namespace: InNamespace = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Take a job off its cluster and queue it again.

    One that waits to be queued again by its back-off queues at once.

    \b
    Examples:
      multikueue workloads requeue -n team-a my-job
    """
    run_async(lambda: _requeue(_Call(ContextChoice(kubeconfig, context), namespace, name, dry_run), is_confirmed=yes))


def move(
    name: Named,
    queue: Annotated[
        str, typer.Option("--to", help="The LocalQueue it should wait in.", show_default=False, autocompletion=queues)
    ],
    namespace: InNamespace = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Have a job that waits wait in another queue.

    \b
    Examples:
      multikueue workloads move -n team-a my-job --to night
    """
    run_async(lambda: _move(_Call(ContextChoice(kubeconfig, context), namespace, name, dry_run), queue))


class _Call(msgspec.Struct, frozen=True):
    target: ContextChoice
    namespace: str | None
    name: str
    dry_run: bool

    @asynccontextmanager
    async def found(self) -> AsyncIterator[tuple[Client, Workload]]:
        async with self.target.connect_in(self.namespace) as (client, where):
            async with spinner(f"looking for {self.name}"):
                _, workload = pick(await fetch_workloads(client, where), self.name, where)
            yield client, workload

    def may_proceed(self, what: str, *, should_ask: bool = False) -> bool:
        """Announce the effect `what`, and ask if `should_ask` is set. False in a dry run."""
        note(f"{what}{' (dry run)' if self.dry_run else ''}")
        if self.dry_run:
            return False
        if should_ask:
            typer.confirm("Go on?", abort=True, err=True)
        return True


async def _cancel(call: _Call, *, is_confirmed: bool) -> None:
    from multikueue.api.kueue.workload import FINISHED, any_owner_of
    from multikueue.cli.workload.related_objects import RelatedObjects

    async with call.found() as (client, workload):
        job = any_owner_of(workload)
        what = f"{job.kind.lower()}/{job.name}" if job else f"workload/{workload.metadata.name}"
        cluster = "" if workload.has(FINISHED) else workload.status.cluster_name
        where = f" and its copy on {cluster}" if cluster else ""
        if not call.may_proceed(
            f"Deletes {what} in namespace {workload.metadata.namespace}{where}.", should_ask=not is_confirmed
        ):
            return
        path = await RelatedObjects(client, workload).path()
        uid = job.uid if job else workload.metadata.uid
        body = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        async with spinner(f"deleting {what}"):
            await client.request("DELETE", path, body=body)
        print(f"{what} deleted")


async def _hold(call: _Call, *, is_confirmed: bool) -> None:
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload.activation import activate

    async with call.found() as (client, workload):
        _refuse_finished(workload)
        if not workload_spec(workload).active:
            note(f"{workload.key} is held already.")
            return
        stops = _running_on(workload)
        what = f"Stops it on {stops}; it waits" if stops else "Keeps it waiting"
        if call.may_proceed(
            f"{what} until `multikueue workloads release`.", should_ask=bool(stops) and not is_confirmed
        ):
            async with spinner(f"holding {workload.key}"):
                await activate(client, workload, is_active=False)
            print(f"{workload.key} held")


async def _release(call: _Call) -> None:
    from multikueue.api.kueue.workload import workload_spec
    from multikueue.cli.workload.activation import activate

    async with call.found() as (client, workload):
        _refuse_finished(workload)
        if workload_spec(workload).active:
            note(f"{workload.key} is not held.")
        elif call.may_proceed(f"Queues {workload.key} again."):
            async with spinner(f"releasing {workload.key}"):
                await activate(client, workload, is_active=True)
            print(f"{workload.key} released")


async def _requeue(call: _Call, *, is_confirmed: bool) -> None:
    from multikueue.cli.workload import activation

    async with call.found() as (client, workload):
        _refuse_finished(workload)
        stops = _running_on(workload)
        what = f"Stops it on {stops} and queues it again" if stops else "Queues it again"
        if not call.may_proceed(f"{what}.", should_ask=bool(stops) and not is_confirmed):
            return
        async with spinner(f"requeuing {workload.key}"):
            await activation.requeue(client, workload)
        print(f"{workload.key} requeued")


async def _move(call: _Call, queue: str) -> None:
    from multikueue.api.kinds import LOCAL_QUEUES
    from multikueue.api.kueue.workload import QUEUE_LABEL, QUOTA_RESERVED, any_owner_of, workload_spec
    from multikueue.cli.workload.related_objects import RelatedObjects

    async with call.found() as (client, workload):
        _refuse_finished(workload)
        await refuse_unknown(client, LOCAL_QUEUES, queue, workload.key.namespace)
        job = any_owner_of(workload)
        if workload.has(QUOTA_RESERVED):
            raise CommandFailed(f"{workload.key} has quota by now: `multikueue workloads hold` it first")
        if not call.may_proceed(f"Moves it from queue {workload_spec(workload).queue_name} to {queue}."):
            return
        body: dict[str, Any] = {"metadata": {"labels": {QUEUE_LABEL: queue}}} if job else {"spec": {"queueName": queue}}
        async with spinner(f"moving {workload.key}"):
            await client.request("PATCH", await RelatedObjects(client, workload).path(), body=body, content_type=MERGE)
        print(f"{workload.key} moved to {queue}")


def _running_on(workload: Workload) -> str:
    from multikueue.api.kueue.workload import ADMITTED

    return workload.status.cluster_name or "" if workload.has(ADMITTED) else ""


def _refuse_finished(workload: Workload) -> None:
    from multikueue.api.kueue.workload import FINISHED

    if workload.has(FINISHED):
        raise CommandFailed(f"{workload.key} is finished")
