"""`multikueue clusters cordon`, `uncordon` and `drain`: a worker gets no new workloads, or gives up those it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, SettingsFile, run_async
from multikueue.cli.commands.clusters.sides import Name
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note, say

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.kube.client import Client

__all__ = ["cordon", "drain", "uncordon"]

AT_ONCE = 10
"""Workloads that are queued again at a time: a manager cluster is shared."""


def cordon(
    name: Name,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Send no new workloads to a worker.

    What runs there goes on. It is the annotation multikueue.dev/cordon of the MultiKueueCluster.

    \b
    Examples:
      multikueue clusters cordon worker-1
    """
    run_async(lambda: _mark(ContextChoice(kubeconfig, context), name, is_cordoned=True))


def uncordon(
    name: Name,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Let a cordoned worker have workloads again.

    \b
    Examples:
      multikueue clusters uncordon worker-1
    """
    run_async(lambda: _mark(ContextChoice(kubeconfig, context), name, is_cordoned=False))


def drain(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Cordon a worker, and move what runs there elsewhere.

    Each of its jobs is stopped and queues again; what it has not saved is lost. A worker that is not connected is left
    to the manager, which moves its jobs after dispatch.worker_lost_timeout.

    \b
    Examples:
      multikueue clusters drain worker-1 --dry-run
      multikueue clusters drain worker-1 --yes
    """
    run_async(lambda: _drain(ContextChoice(kubeconfig, context), name, is_confirmed=yes, dry_run=dry_run))


async def _mark(target: ContextChoice, name: str, *, is_cordoned: bool) -> None:
    from multikueue.cli.terminal.progress import spinner

    async with target.connect() as client, spinner(f"{'cordoning' if is_cordoned else 'uncordoning'} {name}"):
        await _find(client, name)
        await _annotate(client, name, is_cordoned=is_cordoned)


async def _find(client: Client, name: str) -> WorkerCluster:
    """Raises CommandFailed for an unknown cluster."""
    from multikueue.cli.access import worker_clusters

    return worker_clusters.pick(await worker_clusters.gather(client, "", should_read_secrets=False), name)


async def _annotate(client: Client, name: str, *, is_cordoned: bool) -> None:
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.api.meta import ObjectKey
    from multikueue.api.multikueue.clusters import CORDON_ANNOTATION

    body = {"metadata": {"annotations": {CORDON_ANNOTATION: "true" if is_cordoned else None}}}
    await client.merge_patch(MULTIKUEUE_CLUSTERS, ObjectKey("", name), body)
    say(f"{name} {'cordoned' if is_cordoned else 'uncordoned'}")


async def _drain(target: ContextChoice, name: str, *, is_confirmed: bool, dry_run: bool) -> None:
    from multikueue.cli.terminal.progress import spinner

    async with target.connect() as client:
        async with spinner(f"looking for workloads on {name}"):
            there = await _on(client, name)
        jobs = ", ".join(str(workload.key) for workload in there) or "nothing"
        note(f"Cordons {name}, and stops what runs there and queues it again: {jobs}.{' (dry run)' if dry_run else ''}")
        if dry_run:
            return
        if there and not is_confirmed:
            typer.confirm("Go on?", abort=True, err=True)
        async with spinner(f"draining {name}"):
            await _annotate(client, name, is_cordoned=True)
            problems = await _requeue_all(client, there)
    for problem in problems:
        note(problem)
    if problems:
        raise CommandFailed(f"{len(problems)} of {len(there)} workloads are still on {name}")
    print(f"{name} drained")


async def _on(client: Client, name: str) -> list[Workload]:
    """The workloads that run on a worker, of all namespaces. Raises CommandFailed if there is no such worker, or no
    connection to it: it could not be told to stop anything."""
    from multikueue.api.kueue.workload import FINISHED
    from multikueue.cli.workload.lookup import fetch_workloads

    worker = await _find(client, name)
    if worker.active is None or worker.active.status != "True":
        raise CommandFailed(f"{name} is not connected: `multikueue clusters cordon {name}` keeps new work away")
    found = [workload for _, workload in await fetch_workloads(client, "")]
    return [each for each in found if each.status.cluster_name == name and not each.has(FINISHED)]


async def _requeue_all(client: Client, workloads: list[Workload]) -> list[str]:
    """Queue them again; the problems of those that stay."""
    import anyio

    from multikueue.cli.workload import activation
    from multikueue.errors import MultiKueueError

    problems, limit = list[str](), anyio.CapacityLimiter(AT_ONCE)

    async def one(workload: Workload) -> None:
        async with limit:
            try:
                await activation.requeue(client, workload)
            except MultiKueueError as error:
                problems.append(str(error))
            else:
                say(f"{workload.key} requeued")

    async with anyio.create_task_group() as tasks:
        for workload in workloads:
            tasks.start_soon(one, workload)
    return problems
