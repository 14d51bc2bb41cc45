"""`multikueue queues hold` and `resume`: Kueue's stopPolicy, by the caller's own rights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, SettingsFile, Yes, run_async
from multikueue.cli.commands.queues.naming import InQueueNamespace, NamedQueue, find
from multikueue.cli.terminal.output import note

if TYPE_CHECKING:
    from multikueue.cli.commands.queues.naming import FoundQueue

__all__ = ["hold", "resume"]

DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")]

NONE, HOLD, DRAIN = "None", "Hold", "HoldAndDrain"


def hold(
    name: NamedQueue,
    namespace: InQueueNamespace = None,
    drain: Annotated[bool, typer.Option("--drain", help="Also stop the jobs that already have quota.")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Stop a queue: nothing more starts until it is resumed.

    \b
    Examples:
      multikueue queues hold -n team-a batch
      multikueue queues hold clusterqueue/shared --drain
    """
    policy = DRAIN if drain else HOLD
    run_async(
        lambda: _stop(ContextChoice(kubeconfig, context), namespace, name, policy, dry_run=dry_run, is_confirmed=yes)
    )


def resume(
    name: NamedQueue,
    namespace: InQueueNamespace = None,
    dry_run: DryRun = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    _config: SettingsFile = None,
) -> None:
    """Resume a queue that is on hold.

    \b
    Examples:
      multikueue queues resume -n team-a batch
    """
    run_async(
        lambda: _stop(ContextChoice(kubeconfig, context), namespace, name, NONE, dry_run=dry_run, is_confirmed=True)
    )


async def _stop(
    target: ContextChoice, namespace: str | None, name: str, policy: str, *, dry_run: bool, is_confirmed: bool
) -> None:
    from multikueue.cli.terminal.progress import spinner

    async with target.connect_in(namespace) as (client, where):
        async with spinner(f"looking for {name}"):
            found = await find(client, where, name)
        if found.queue.spec.stop_policy == policy:
            note(f"{found} is {_state(policy)} already.")
            return
        note(f"{_what(found, policy)}{' (dry run)' if dry_run else ''}")
        if dry_run:
            return
        if policy == DRAIN and not is_confirmed:
            typer.confirm("Go on?", abort=True, err=True)
        async with spinner(f"writing {found}"):
            await client.merge_patch(found.kind, found.queue.key, {"spec": {"stopPolicy": policy}})
        print(f"{found} {_state(policy)}")


def _what(found: FoundQueue, policy: str) -> str:
    state = found.queue.status
    match policy:
        case "None":
            return f"Lets the {state.pending_workloads} that wait in {found} begin as quota allows."
        case "Hold":
            return (
                f"Keeps the {state.pending_workloads} that wait in {found} waiting;"
                f" the {state.reserving_workloads} with quota go on."
            )
    return f"Stops the {state.reserving_workloads} with quota in {found}, and keeps all of them waiting."


def _state(policy: str) -> str:
    return {NONE: "resumed", HOLD: "held", DRAIN: "held and drained"}[policy]
