"""A user's access to a worker: a context of their own kubeconfig, else the Secret of the cluster, if they may read it.

The user's own context comes first, so that users see no more than they may: the context of the option, or the one with
the name of the cluster.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from multikueue.cli.access.connection import NAMESPACE, ContextChoice, noting_source
from multikueue.cli.terminal.exit import CommandFailed
from multikueue.errors import Forbidden, NotFound, Unauthorized

if TYPE_CHECKING:
    from multikueue.kube.auth.credentials import Credentials
    from multikueue.kube.cluster_client import ClusterClient, WatchingClient

__all__ = [
    "ReachableWorker",
    "SecretsNamespace",
    "WorkerAccess",
    "WorkerContext",
    "WorkerKubeconfig",
    "WorkerOptions",
]

_PANEL = "Worker cluster"

WorkerContext = Annotated[
    str | None,
    typer.Option(
        "--worker-context",
        help="Your context of the worker. (default: the one called like the cluster, else its Secret on the manager)",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]
WorkerKubeconfig = Annotated[
    Path | None,
    typer.Option(
        "--worker-kubeconfig",
        help="Your kubeconfig of the worker. (default: that of the manager cluster)",
        show_default=False,
        rich_help_panel=_PANEL,
        exists=True,
        dir_okay=False,
    ),
]
SecretsNamespace = Annotated[
    str,
    typer.Option(
        "--secrets-namespace",
        envvar=NAMESPACE,
        help="Where on the manager the Secrets with the workers' kubeconfigs are.",
        rich_help_panel=_PANEL,
    ),
]


class ReachableWorker(msgspec.Struct, frozen=True):
    """A connected worker. `source`: where the credentials are from; `advice`: the remedy if their rights do not suffice."""

    cluster: str
    client: WatchingClient
    source: str
    advice: str

    def refusal(self, error: Forbidden) -> CommandFailed:
        """The request that the worker refuses, and the remedy, in one line."""
        return CommandFailed(f"{self.cluster} refuses ({self.source}): {error.message}; {self.advice}")


@dataclass(frozen=True)
class WorkerOptions:
    """The options that lead to the workers of a manager."""

    worker_context: WorkerContext = None
    worker_kubeconfig: WorkerKubeconfig = None
    secrets_namespace: SecretsNamespace = "kueue-system"

    def access(self, manager: ContextChoice) -> WorkerAccess:
        return WorkerAccess(
            manager=manager,
            namespace=self.secrets_namespace,
            context=self.worker_context,
            kubeconfig=self.worker_kubeconfig,
        )


class WorkerAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The options that lead to workers. `rights`: what the caller needs there, in words; `remedy`: what gives them to the
    account in the Secret of the worker of that name."""

    manager: ContextChoice
    namespace: str = "kueue-system"
    context: str | None = None
    kubeconfig: Path | None = None
    rights: str = "read pods, pods/log and events"
    remedy: str = (
        "register it with --view-pods (multikueue clusters register {}),"
        " or use a context of your own with --worker-context"
    )

    @property
    def is_named(self) -> bool:
        """Whether the user chose a context or kubeconfig of the worker."""
        return self.context is not None or self.kubeconfig is not None

    @asynccontextmanager
    async def connect(self, manager: ClusterClient, cluster: str) -> AsyncIterator[ReachableWorker]:
        """Connects to the worker. Raises CommandFailed without access, or if it refuses a request in the block."""
        from multikueue.kube.client import Client

        credentials, source, advice = await self._way(manager, cluster)
        with noting_source(cluster, credentials):
            async with Client.connect(credentials, cluster=cluster) as client:
                worker = ReachableWorker(cluster, client, source, advice)
                try:
                    yield worker
                except Forbidden as error:
                    raise worker.refusal(error) from error
                except Unauthorized as error:
                    raise CommandFailed(f"{cluster} does not know you ({source}): {error.message}") from error
                except BaseExceptionGroup as group:
                    refused = group.subgroup(Forbidden)
                    if refused is None:
                        raise
                    raise worker.refusal(_first(refused)) from group

    async def _way(self, manager: ClusterClient, cluster: str) -> tuple[Credentials, str, str]:
        """Credentials, their source, and the remedy if their rights do not suffice."""
        from multikueue.kube.auth.credentials import from_kubeconfig

        own = await self._own(cluster)
        if own is not None:
            return own, own.source, f"ask for the right to {self.rights} there"
        kubeconfig, source = await self._registered(manager, cluster)
        credentials = await from_kubeconfig(kubeconfig, where=f"the kubeconfig of {cluster}")
        return credentials, source, self.remedy.format(cluster)

    async def _own(self, cluster: str) -> Credentials | None:
        from multikueue.kube.auth.credentials import contexts, from_environment

        kubeconfig = self.kubeconfig or self.manager.kubeconfig
        if self.is_named:
            return await from_environment(kubeconfig, self.context)
        known = cluster in await contexts(kubeconfig)
        return await from_environment(kubeconfig, cluster) if known else None

    async def _registered(self, manager: ClusterClient, cluster: str) -> tuple[bytes, str]:
        """The manager's credentials, under the manager's rules: the author of a Secret must not run programs here."""
        from multikueue.cli.access import worker_clusters
        from multikueue.kube.auth.kubeconfig import check_worker_kubeconfig

        try:
            member = await worker_clusters.find(manager, cluster, self.namespace)
            problem = member.problem
        except Forbidden:
            problem = f"you may not read MultiKueueCluster {cluster}"
        except NotFound:
            problem = f"there is no MultiKueueCluster {cluster}"
        if problem:
            raise CommandFailed(
                f"no way to {cluster}: {problem}, and your kubeconfig has no context {cluster!r}:"
                " name yours with --worker-context"
            )
        check_worker_kubeconfig(member.kubeconfig)
        return member.kubeconfig, member.source


def _first(group: BaseExceptionGroup[Forbidden]) -> Forbidden:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
