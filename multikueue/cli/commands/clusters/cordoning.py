"""`multikueue clusters cordon`, `uncordon` and `drain`: a worker gets no new workloads, or gives up those it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import ContextChoice, ManagerOptions, run_async
from multikueue.cli.commands.clusters.sides import MeantClusters, Yes
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note, say
from multikueue.cli.terminal.progress import conclude, each

if TYPE_CHECKING:
    from multikueue.api.kueue.workload import Workload
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.errors import MultiKueueError
    from multikueue.kube.client import Client

__all__ = ["cordon", "drain", "uncordon"]


@bundled
def cordon(*, meant: MeantClusters, manager: ManagerOptions) -> None:
    """Send no new workloads to workers.

    What runs there goes on. It is the annotation multikueue.dev/cordon of the MultiKueueCluster.

    \b
    Examples:
      multikueue clusters cordon worker-1 worker-2
      multikueue clusters cordon -l zone=eu
    """
    _mark(meant, manager.target, is_cordoned=True)


@bundled
def uncordon(*, meant: MeantClusters, manager: ManagerOptions) -> None:
    """Allow new workloads on cordoned workers again.

    \b
    Examples:
      multikueue clusters uncordon worker-1
      multikueue clusters uncordon --all
    """
    _mark(meant, manager.target, is_cordoned=False)


@bundled
def drain(
    *,
    meant: MeantClusters,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
    manager: ManagerOptions,
) -> None:
    """Cordon workers, and move what runs there elsewhere.

    Each of their jobs is stopped and queues again; what it has not saved is lost. A worker that is not connected is left
    to the manager, which moves its jobs after dispatch.worker_lost_timeout.

    \b
    Examples:
      multikueue clusters drain worker-1 --dry-run
      multikueue clusters drain worker-1 worker-2 --yes
    """
    meant.refuse_unclear()
    run_async(lambda: _drain(manager.target, meant, is_confirmed=yes, dry_run=dry_run))


def _mark(meant: MeantClusters, target: ContextChoice, *, is_cordoned: bool) -> None:
    meant.refuse_unclear()

    async def work() -> None:
        async with target.connect() as client:
            found, unknown = await meant.find(client, should_read_secrets=False)
            done, failures = await _annotate(client, found, is_cordoned=is_cordoned)
        conclude("cordoned" if is_cordoned else "uncordoned", len(done), [*unknown, *failures])

    run_async(work)


async def _annotate(
    client: Client, workers: Sequence[WorkerCluster], *, is_cordoned: bool
) -> tuple[list[WorkerCluster], list[MultiKueueError]]:
    """Those that are marked now, and what failed."""
    from multikueue.api.kinds import MULTIKUEUE_CLUSTERS
    from multikueue.api.multikueue.clusters import CORDON_ANNOTATION

    body = {"metadata": {"annotations": {CORDON_ANNOTATION: "true" if is_cordoned else None}}}

    async def mark(worker: WorkerCluster) -> WorkerCluster:
        await client.merge_patch(MULTIKUEUE_CLUSTERS, worker.cluster.key, body)
        say(f"{worker.name} {'cordoned' if is_cordoned else 'uncordoned'}")
        return worker

    return await each("cordoning" if is_cordoned else "uncordoning", workers, mark)


async def _drain(target: ContextChoice, meant: MeantClusters, *, is_confirmed: bool, dry_run: bool) -> None:
    """Those that cannot be drained are left as they are: they could not be told to stop anything."""
    from multikueue.cli.terminal.progress import spinner

    async with target.connect() as client:
        async with spinner("looking for workloads"):
            found, failures = await meant.find(client, should_read_secrets=False)
            workers = [one for one in found if one.is_connected]
            there = await _running(client, workers)
        for name in (one.name for one in found if not one.is_connected):
            why = f"{name} is not connected: `multikueue clusters cordon {name}` keeps new work away"
            failures.append(CommandFailed(why))
        for name, workloads in there.items():
            jobs = ", ".join(str(one.key) for one in workloads) or "nothing"
            dry = " (dry run)" if dry_run else ""
            note(f"Cordons {name}, and stops what runs there and queues it again: {jobs}.{dry}")
        if dry_run:
            return conclude("would be drained", len(workers), failures)
        if any(there.values()) and not is_confirmed:
            typer.confirm("Go on?", abort=True, err=True)
        cordoned, refused = await _annotate(client, workers, is_cordoned=True)
        failures += refused
        done = 0
        for name in (one.name for one in cordoned):
            staying = await _requeue_all(client, name, there[name])
            if staying:
                failures.append(CommandFailed(f"{staying} of {len(there[name])} workloads are still on {name}"))
            else:
                print(f"{name} drained")
                done += 1
    return conclude("drained", done, failures)


async def _running(client: Client, workers: Sequence[WorkerCluster]) -> dict[str, list[Workload]]:
    """The workloads that run on each of the workers, of all namespaces."""
    from multikueue.api.kueue.workload import FINISHED
    from multikueue.cli.workload.lookup import fetch_workloads

    found: dict[str, list[Workload]] = {one.name: [] for one in workers}
    for _, workload in await fetch_workloads(client, "") if workers else ():
        name = workload.status.cluster_name or ""
        if name in found and not workload.has(FINISHED):
            found[name].append(workload)
    return found


async def _requeue_all(client: Client, name: str, workloads: Sequence[Workload]) -> int:
    """Queue what runs on a worker again; how many stay. Why is noted."""
    from multikueue.cli.workload import activation

    async def requeue(workload: Workload) -> None:
        await activation.requeue(client, workload)
        say(f"{workload.key} requeued")

    _, problems = await each(f"draining {name}", workloads, requeue)
    for problem in problems:
        note(str(problem))
    return len(problems)
