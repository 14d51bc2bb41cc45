"""`multikueue clusters remove`: a worker is taken out of the manager."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from multikueue.cli.access.connection import (
    ContextChoice,
    run_async,
)
from multikueue.cli.commands.clusters.sides import (
    Name,
    Origin,
    RegistrarOptions,
    WorkerContext,
    WorkerKubeconfig,
    side,
)
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.output import note
from multikueue.registration.choices import OUR_NAME

__all__ = ["remove_cluster"]


@bundled
def remove_cluster(
    name: Name,
    context: WorkerContext = None,
    kubeconfig: WorkerKubeconfig = None,
    force: Annotated[bool, typer.Option("--force", help="Even if workloads run there or wait there.")] = False,
    origin: Origin = OUR_NAME,
    *,
    at: RegistrarOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would become of what.")] = False,
) -> None:
    """Take a worker cluster out of the manager.

    Removes the MultiKueueCluster and its Secret; with --context or --kubeconfig of the worker also the account and the
    rights there. Only what `register` made: objects of somebody else stay.

    \b
    Examples:
      multikueue clusters remove worker-1
      multikueue clusters remove worker-1 --context kind-worker-1
    """
    from multikueue.registration.plan import Registration

    registration = Registration(cluster=name, namespace=at.namespace, origin=origin)
    at_worker = ContextChoice(kubeconfig, context, name) if context is not None or kubeconfig is not None else None
    at_manager = at.target

    async def work() -> None:
        from multikueue.cli.commands.clusters import inspection
        from multikueue.cli.terminal.progress import spinner
        from multikueue.registration.join import leave

        async with AsyncExitStack() as stack:
            manager = await stack.enter_async_context(side(at_manager, "the manager", dry_run))
            await inspection.refuse_removal(manager, registration, is_forced=force)
            worker = await stack.enter_async_context(side(at_worker, name, dry_run)) if at_worker else None
            async with spinner(f"removing {name}"):
                await leave(registration, manager=manager, worker=worker)

    run_async(work)
    if at_worker is None and not dry_run:
        note(f"The account and the rights on {name} are still there; with --context of the worker they go too.")
