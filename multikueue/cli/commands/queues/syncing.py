"""`multikueue queues sync`: the manager's LocalQueues and their namespaces are made where workers lack them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from multikueue.cli.access.connection import ManagerOptions, Origin, Yes, run_async
from multikueue.cli.access.worker_access import WorkerOptions
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Format, Output, is_document
from multikueue.cli.terminal.inherited import inherited
from multikueue.cli.terminal.output import note, say
from multikueue.registration.choices import OUR_NAME

__all__ = ["sync"]


@dataclass(frozen=True)
class ChosenQueues:
    """The options that say which LocalQueues are made, and where they lead."""

    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            "-n",
            callback=inherited("namespace"),
            help="LocalQueues of this namespace only. (default: all)",
            show_default=False,
        ),
    ] = None
    cluster_queue: Annotated[
        str,
        typer.Option(
            help="ClusterQueue of the workers that the LocalQueues lead to. (default: the one of the same name)",
            show_default=False,
        ),
    ] = ""
    origin: Origin = OUR_NAME


@bundled
def sync(
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Names of the workers. (default: all)", show_default=False),
    ] = None,
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", help="In place of names: all workers with these labels.", show_default=False),
    ] = "",
    queues: ChosenQueues,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be made.")] = False,
    output: Output = Format.TABLE,
    ways: WorkerOptions,
    manager: ManagerOptions,
) -> None:
    """Make the LocalQueues that workers lack.

    And their namespaces, where these are missing too. What is there already stays as it is. What is made has
    the label multikueue.dev/synced-by.

    It takes rights that the manager's account on a worker does not have: those of your context with the name of the worker.
    A worker that fails keeps no other from it.

    \b
    Examples:
      multikueue queues sync --dry-run
      multikueue queues sync -l zone=eu -n team-a --yes
      multikueue queues sync worker-1 --cluster-queue everything
    """
    if (ways.worker_context or ways.worker_kubeconfig) and len(names or ()) != 1:
        raise typer.BadParameter("--worker-context and --worker-kubeconfig are those of one worker: name it, alone")

    tell = note if is_document(output) else say

    async def work() -> None:
        from multikueue.cli.access import worker_repairs
        from multikueue.cli.access.worker_clusters import gather

        async with manager.target.connect() as client:
            found, failures = await gather(client, "", should_read_secrets=False, names=names or (), selector=selector)
            wish = worker_repairs.QueueWish(queues.origin, queues.namespace or "", queues.cluster_queue)
            reach = worker_repairs.administrators(client, ways.access(manager.target))
            plans, unseen = await worker_repairs.look_for_queues(client, found, reach, wish)
            worker_repairs.print_plans(plans, output)
            failures += [*unseen, *(problem for plan in plans for problem in plan.problems)]
            lacking = [plan for plan in plans if plan.wanted]
            if lacking and not (dry_run or yes):
                typer.confirm("Go on?", abort=True, err=True)
            made, refused = ([], []) if dry_run else await worker_repairs.make(lacking, reach, tell)
            whole = [plan for plan in plans if not plan.problems and (not plan.wanted or plan.name in made)]
            note(f"{len(whole)} of {len(found)} workers have the manager's queues{' (dry run)' if dry_run else ''}.")
            if failures or refused:
                raise ExceptionGroup("not synced", [*failures, *refused])

    run_async(work)
