"""`multikueue run`: the manager itself."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec.structs import asdict

from multikueue.cli.access.connection import context_option, kubeconfig_option, run_async
from multikueue.cli.terminal.bundles import bundled
from multikueue.cli.terminal.formats import Form, Format, Output, is_document
from multikueue.cli.terminal.output import Column, note, print_document, print_table

if TYPE_CHECKING:
    from multikueue.settings import Loaded
    from multikueue.settings.describe import SettingRow

__all__ = ["run"]


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-f",
        envvar="MULTIKUEUE_CONFIG",
        help="YAML file with settings: ours, or Kueue's own Configuration.",
        exists=True,
        dir_okay=False,
    ),
]
# No `envvar`: settings read the variables themselves, and here these would rank as flags.
Kubeconfig = Annotated[
    Path | None,
    kubeconfig_option(
        "--kubeconfig", "--manager-kubeconfig", also="; also MULTIKUEUE_CLUSTER__KUBECONFIG", envvar=None
    ),
]
Context = Annotated[
    str | None,
    context_option("--context", "--manager-context", also="; also MULTIKUEUE_CLUSTER__CONTEXT", envvar=None),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        help="Serve the admission webhook, which the API server finds at this https URL. Then jobs need no more than a "
        "queue label; without it, users set `suspend: true` and `managedBy` themselves."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Only show which settings would be in force, and where each comes from. Needs no cluster."
    ),
]

Force = Annotated[
    bool,
    typer.Option("--force", help="Start although another manager, or Kueue's own controllers, act on that cluster."),
]
Changed = Annotated[bool, typer.Option("--changed", help="With --dry-run: only those that differ from the defaults.")]


@dataclass(frozen=True)
class Logged:
    """What the process writes of itself."""

    log_level: Annotated[LogLevel | None, typer.Option(help="Least important events to show. (default: info)")] = None
    log_format: Annotated[LogFormat | None, typer.Option(help="How events are written. (default: auto)")] = None


COLUMNS = (
    Column("SETTING"),
    Column("VALUE"),
    Column("FROM"),
    Column("DEFAULT", is_wide=True),
    Column("LIVE", is_wide=True),
)


@bundled
def run(
    *,
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    webhook_url: WebhookUrl = None,
    logged: Logged,
    dry_run: DryRun = False,
    changed: Changed = False,
    force: Force = False,
    output: Output = Format.TABLE,
) -> None:
    """Run the manager until SIGTERM or SIGINT.

    Flags go before environment variables (MULTIKUEUE_DISPATCH__ORIGIN=prod), these before the file, the file before the
    defaults. The file may be Kueue's own Configuration. It is read again when it changes, and on SIGHUP. In a pod the
    manager uses the pod's service account; elsewhere what kubectl would use.
    """
    from multikueue import settings

    loaded = settings.read(
        config,
        cluster__kubeconfig=kubeconfig,
        cluster__context=context,
        webhook__enabled=True if webhook_url else None,
        webhook__url=webhook_url,
        log__level=logged.log_level and logged.log_level.value,
        log__format=logged.log_format and logged.log_format.value,
    )
    if changed and not dry_run:
        raise typer.BadParameter("--changed goes with --dry-run")
    if dry_run:
        _show(loaded, output, is_changed_only=changed)
        return
    from multikueue.manager import process

    environment = msgspec.structs.replace(process.REAL, should_look_for_others=not force)
    run_async(lambda: process.run(loaded, environment))
    webhook, visibility = loaded.settings.webhook, loaded.settings.visibility
    if visibility.enabled and webhook.url:
        note(
            "The visibility API stays registered: the API server gets no answer from it, and ends no namespace, until a "
            "manager runs, or after `kubectl delete apiservices -l app.kubernetes.io/managed-by=multikueue`."
        )
    if webhook.enabled and webhook.url and webhook.failure_policy == "Fail":
        note(
            "The webhook stays registered: new jobs are refused until a manager runs, or after `multikueue webhook remove`."
        )


def _show(loaded: Loaded, output: Form, *, is_changed_only: bool) -> None:
    """Prints the settings in force and their sources, after a check that the strategies can be loaded."""
    from multikueue.controllers.reconcile.strategies import verify
    from multikueue.settings.describe import in_force

    verify(loaded)
    rows = [row for row in in_force(loaded) if not is_changed_only or row.value != row.default]
    if is_document(output):
        document = {"settings": [asdict(row) for row in rows], "ignored": [asdict(each) for each in loaded.ignored]}
        print_document(document, output)
        return
    if output is Format.NAME:
        print(*(row.name for row in rows), sep="\n")
    elif not rows:
        note("All settings have their defaults.")
    else:
        print_table(COLUMNS, [_cells(row) for row in rows], output)
    for each in loaded.ignored:
        note(f"warning: {each.place}: {each}")


def _cells(row: SettingRow) -> tuple[str, ...]:
    return (row.name, _text(row.value), row.source, _text(row.default), "yes" if row.live else "no")


def _text(value: object) -> str:
    """A value in one cell: a list of strings as in an environment variable, deeper values as JSON."""
    match value:
        case None:
            return ""
        case str():
            return value
        case list() if all(isinstance(each, str) for each in value):
            return ",".join(value)
        case _:
            return json.dumps(value)
