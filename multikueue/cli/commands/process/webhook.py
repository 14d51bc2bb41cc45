"""`multikueue webhook`: the registration that a manager leaves behind when it is stopped by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from multikueue.cli.access.connection import Context, ContextChoice, Kubeconfig, SettingsFile, run_async
from multikueue.cli.access.groups import group
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.cli.terminal.output import note

__all__ = ["app"]

app = group("webhook", "Manage the registration of the webhook.")


@app.callback()
def _group() -> None:
    """Keeps `remove` a subcommand: typer runs an only command without its name."""


@app.command()
def remove(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
    _config: SettingsFile = None,
) -> None:
    """Remove the webhook's registration while no manager runs.

    The API server refuses new jobs as long as it cannot reach a webhook that is registered. A manager that runs, or
    that is started, registers it again within seconds.

    \b
    Examples:
      multikueue webhook remove --dry-run
      multikueue webhook remove --context manager
    """
    run_async(lambda: _remove(ContextChoice(kubeconfig, context), dry_run=dry_run))


async def _remove(target: ContextChoice, *, dry_run: bool) -> None:
    from multikueue.api.kinds import MUTATING_WEBHOOKS
    from multikueue.cli.terminal.progress import spinner
    from multikueue.controllers.serving.names import CONFIGURATION, MANAGED_BY
    from multikueue.errors import NotFound

    what = f"{MUTATING_WEBHOOKS.plural}/{CONFIGURATION.name}"
    async with target.connect() as client, spinner(f"{'looking for' if dry_run else 'removing'} {what}"):
        try:
            found = await client.get(MUTATING_WEBHOOKS, CONFIGURATION)
        except NotFound:
            note(f"There is no {what}: nothing to remove.")
            return
        if not MANAGED_BY.items() <= found.metadata.labels.items():
            raise CommandFailed(f"{what} is not ours: it lacks the label {next(iter(MANAGED_BY))}")
        if not dry_run:
            await client.delete(MUTATING_WEBHOOKS, CONFIGURATION, uid=found.metadata.uid)
    note(f"{what} removed{' (dry run)' if dry_run else ''}")
