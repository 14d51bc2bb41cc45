"""The two clusters of a registration: the options that name the worker, and the connections to both."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.completion import clusters
from multikueue.cli.access.connection import (
    ORIGIN,
    ContextChoice,
    ManagerContext,
    ManagerKubeconfig,
    Namespace,
    SettingsFile,
)
from multikueue.cli.access.contexts import contexts
from multikueue.cli.terminal.exit import ExitCode
from multikueue.cli.terminal.output import note

if TYPE_CHECKING:
    from multikueue.cli.commands.clusters.inspection import Report
    from multikueue.kube.client import Client
    from multikueue.registration.ownership import Side

__all__ = [
    "WORKER",
    "Name",
    "OptionalName",
    "Origin",
    "RegistrarOptions",
    "WorkerContext",
    "WorkerKubeconfig",
    "connect_with",
    "end_by",
    "side",
]

WORKER = "Worker cluster"

Name = Annotated[
    str, typer.Argument(help="Name of the MultiKueueCluster.", show_default=False, autocompletion=clusters)
]
OptionalName = Annotated[
    str | None,
    typer.Argument(help="Name of the MultiKueueCluster. (default: all)", show_default=False, autocompletion=clusters),
]
WorkerKubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        "--worker-kubeconfig",
        help="Kubeconfig of an administrator of the worker. (default: as kubectl)",
        show_default=False,
        rich_help_panel=WORKER,
        exists=True,
        dir_okay=False,
    ),
]
WorkerContext = Annotated[
    str | None,
    typer.Option(
        "--context",
        "--worker-context",
        help="Context of an administrator of the worker.",
        show_default=False,
        rich_help_panel=WORKER,
        autocompletion=contexts,
    ),
]
Origin = Annotated[
    str,
    typer.Option(
        "--origin",
        envvar=ORIGIN,
        help="The manager's origin, as in its settings: names what is made on the worker.",
        rich_help_panel=WORKER,
    ),
]


@dataclass(frozen=True)
class RegistrarOptions:
    """The options that lead to the manager cluster of a registration, and to its Secrets there."""

    namespace: Namespace = "kueue-system"
    _config: SettingsFile = None
    manager_context: ManagerContext = None
    manager_kubeconfig: ManagerKubeconfig = None

    @property
    def target(self) -> ContextChoice:
        return ContextChoice(self.manager_kubeconfig, self.manager_context)


@asynccontextmanager
async def side(target: ContextChoice, where: str, dry_run: bool) -> AsyncIterator[Side]:
    """One of the two clusters, which reports each change on stderr."""
    from multikueue.registration.ownership import Side

    async with target.connect() as client:
        yield Side(client=client, where=where, report=lambda step: note(str(step)), dry_run=dry_run)


@asynccontextmanager
async def connect_with(name: str, kubeconfig: bytes) -> AsyncIterator[Client]:
    """A connection to worker `name` by a kubeconfig such as the manager's Secrets hold."""
    from multikueue.kube.auth.credentials import from_kubeconfig
    from multikueue.kube.client import Client

    credentials = await from_kubeconfig(kubeconfig, where=f"the kubeconfig of {name}")
    async with Client.connect(credentials, cluster=name) as client:
        yield client


def end_by(reports: Sequence[Report]) -> None:
    """Exit by the worst finding: `failed` goes before `unreachable` and `unchecked`."""
    levels = {finding.level for report in reports for finding in report.findings}
    if "failed" in levels:
        raise typer.Exit(ExitCode.FAILED)
    if levels & {"unreachable", "unchecked"}:
        raise typer.Exit(ExitCode.UNREACHABLE)
