"""The two clusters of a registration: the options that name the worker, and the connections to both."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from multikueue.cli.access.completion import clusters
from multikueue.cli.access.connection import (
    ContextChoice,
    ManagerContext,
    ManagerKubeconfig,
    Namespace,
    Origin,
    SettingsFile,
)
from multikueue.cli.access.contexts import contexts
from multikueue.cli.terminal.exit import ExitCode
from multikueue.cli.terminal.output import note

if TYPE_CHECKING:
    from multikueue.answers.findings import Report
    from multikueue.cli.access.server_facts import ServerFacts
    from multikueue.cli.access.worker_clusters import WorkerCluster
    from multikueue.errors import MultiKueueError
    from multikueue.kube.client import Client
    from multikueue.kube.cluster_client import ClusterClient
    from multikueue.registration.ownership import Side

__all__ = [
    "WORKER",
    "MeantClusters",
    "Origin",
    "RegistrarOptions",
    "WorkerContext",
    "WorkerKubeconfig",
    "connect_with",
    "end_by",
    "side",
]

WORKER = "Worker cluster"


@dataclass(frozen=True)
class MeantClusters:
    """The arguments that say which clusters are meant."""

    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME...", help="Names of the clusters.", show_default=False, autocompletion=clusters),
    ] = None
    selector: Annotated[
        str,
        typer.Option("--selector", "-l", help="In place of names: all with these labels.", show_default=False),
    ] = ""
    everyone: Annotated[bool, typer.Option("--all", help="All of them, instead of names.")] = False

    def refuse_unclear(self) -> None:
        """Raises BadParameter without exactly one of names, selector and --all."""
        if sum(map(bool, (self.names, self.selector, self.everyone))) != 1:
            raise typer.BadParameter("expected the names of clusters, or in place of them a selector (-l) or --all")

    async def find(
        self, client: ClusterClient, namespace: str = "", *, should_read_secrets: bool = True
    ) -> tuple[list[WorkerCluster], list[MultiKueueError]]:
        """Those that are meant, and the names that no cluster has, as errors."""
        from multikueue.cli.access.worker_clusters import gather

        found, failures = await gather(
            client,
            namespace,
            should_read_secrets=should_read_secrets,
            names=self.names or (),
            selector=self.selector,
        )
        if not found and (self.selector or self.everyone):
            note("No clusters found.")
        return found, failures


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
async def side(target: ContextChoice, where: str, dry_run: bool, *, is_terse: bool = False) -> AsyncIterator[Side]:
    """One of the two clusters, which reports each object on stderr, or if `is_terse` each change."""
    from multikueue.registration.ownership import OwnershipStep, Side

    def report(step: OwnershipStep) -> None:
        if not is_terse or step.action not in ("unchanged", "absent"):
            note(str(step))

    async with target.connect() as client:
        yield Side(client=client, where=where, report=report, dry_run=dry_run)


@asynccontextmanager
async def connect_with(
    name: str, kubeconfig: bytes, facts: MutableMapping[str, ServerFacts] | None = None
) -> AsyncIterator[Client]:
    """A connection to worker `name` by a kubeconfig such as the manager's Secrets hold. The `facts` get what its server
    tells."""
    from multikueue.cli.access.server_facts import ServerFacts
    from multikueue.kube.auth.credentials import from_kubeconfig
    from multikueue.kube.client import Client

    credentials, told = await from_kubeconfig(kubeconfig, where=f"the kubeconfig of {name}"), ServerFacts()
    if facts is not None:
        facts[name] = told
    async with Client.connect(credentials, cluster=name, transport=told.transport) as client:
        yield client


def end_by(reports: Sequence[Report]) -> None:
    """Exit by the worst finding: `failed` goes before `unreachable` and `unchecked`."""
    levels = {finding.level for report in reports for finding in report.findings}
    if "failed" in levels:
        raise typer.Exit(ExitCode.FAILED)
    if levels & {"unreachable", "unchecked"}:
        raise typer.Exit(ExitCode.UNREACHABLE)
