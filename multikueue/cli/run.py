"""`multikueue run`: the manager itself."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from multikueue.cli.connection import Context, Kubeconfig, run_async

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
        "--config", "-f", envvar="MULTIKUEUE_CONFIG", help="YAML file with settings.", exists=True, dir_okay=False
    ),
]
WebhookUrl = Annotated[
    str | None,
    typer.Option(
        help="Serve the admission webhook, which the API server finds at this https URL. Then jobs need no more than a "
        "queue label; without it, users set `suspend: true` and `managedBy` themselves."
    ),
]
Level = Annotated[LogLevel | None, typer.Option(help="Least important events to show. (default: info)")]
Form = Annotated[LogFormat | None, typer.Option(help="How events are written. (default: auto)")]


def run(
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    webhook_url: WebhookUrl = None,
    log_level: Level = None,
    log_format: Form = None,
) -> None:
    """Run the manager until SIGTERM or SIGINT.

    Flags go before environment variables (MULTIKUEUE_DISPATCH__ORIGIN=prod), these before the file, the file before the
    defaults. In a pod it uses the pod's service account; elsewhere what kubectl would use.
    """
    from multikueue import manager, settings

    chosen = settings.load(
        config,
        cluster__kubeconfig=kubeconfig,
        cluster__context=context,
        webhook__enabled=True if webhook_url else None,
        webhook__url=webhook_url,
        log__level=log_level and log_level.value,
        log__format=log_format and log_format.value,
    )
    run_async(lambda: manager.run(chosen))
